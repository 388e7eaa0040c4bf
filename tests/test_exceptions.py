"""Every exception of the package survives pickling, as it must to be raised in a process pool."""

import inspect
import pickle
import pkgutil
from importlib import import_module

import pytest

import steer_trl
from steer_trl.support.exceptions import SteerError
from steer_trl.support.validation import InvalidValuesError
from steer_trl.trainer.sampling.resample import GenerationDone


def _all():
    names = [module.name for module in pkgutil.walk_packages(steer_trl.__path__, "steer_trl.")]
    modules = [import_module(name) for name in names if not name.endswith("__main__")]
    classes = {member for module in modules for _, member in inspect.getmembers(module, inspect.isclass)}
    ours = {c for c in classes if issubclass(c, BaseException) and c.__module__.startswith("steer_trl")}
    # It never leaves the process, or the trainer.
    ours.remove(GenerationDone)
    return sorted(ours, key=lambda c: c.__qualname__)


GIVEN = {InvalidValuesError: [(["a: b."], "a"), (["b."], "a"), (["b.", "c."], "a")]}


@pytest.mark.parametrize("kind", _all(), ids=lambda kind: kind.__name__)
def test_an_error_prints_the_same_after_pickling(kind):
    for arguments in GIVEN.get(kind, [("what is wrong",)]):
        error = kind(*arguments)
        error.add_note("where")
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is kind
        assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))


def test_every_error_class_is_tested():
    assert {SteerError, InvalidValuesError} < set(_all()) and set(GIVEN) < set(_all())

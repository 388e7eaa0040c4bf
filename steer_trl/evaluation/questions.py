"""Describes what an evaluation asks and how it judges, for `settings.json`.

`steer-trl eval` and the evaluations in training write the same entries, so that evaluations with other problems, other
samples, another judge or another answer format are not compared.
"""

import functools
import hashlib
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from steer_trl.evaluation.benchmarks import Benchmark
from steer_trl.rewards import MathReward

PLAIN = (str, int, float, bool, type(None))


def describe_benchmarks(benchmarks: Sequence[Benchmark]) -> dict[str, dict[str, Any]]:
    """Return a mapping from the names of benchmarks to their number of samples and a digest of their rows."""
    return {
        benchmark.name: {"samples": benchmark.num_samples, "rows": digest(benchmark.dataset.to_list())}
        for benchmark in benchmarks
    }


def describe_judge(judge: MathReward | Callable[..., Any]) -> dict[str, Any]:
    """Return the entries that name a judge: the answer format of `MathReward`, or the name of another function."""
    if isinstance(judge, MathReward):
        return {"answer_format": judge.answer_format, "timeout": judge.timeout}
    return {"judge": _name_function(judge)}


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits that change with the `repr` of a value."""
    return hashlib.sha256(repr(value).encode(errors="surrogatepass")).hexdigest()[:16]


def _name_function(function: Callable[..., Any]) -> str:
    """Return the import path of a function.

    A function without a path of its own, such as a lambda or one of a script, has a digest of its code added. A
    partial function has its arguments added, and an object has its plain attributes added.
    """
    if isinstance(function, functools.partial):
        return f"{_name_function(function.func)}{_name_values([*function.args, *sorted(function.keywords.items())])}"
    if not isinstance(function, FunctionType):
        kind = type(function)
        attributes = sorted(getattr(function, "__dict__", {}).items())
        plain = [(name, value) for name, value in attributes if isinstance(value, PLAIN)]
        return f"{kind.__module__}.{kind.__qualname__}{_name_values(plain)}"
    name = f"{function.__module__}.{function.__qualname__}"
    if "<" not in name and function.__module__ != "__main__":
        return name
    return f"{name} {digest(_read_code(function))}"


def _name_values(values: Sequence[Any]) -> str:
    return f" {digest(values)}" if values else ""


def _read_code(function: FunctionType) -> list[Any]:
    """Return the code and the constants of a function, in a form that is the same in every process."""
    code = function.__code__
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    constants = [value for value in (*code.co_consts, *cells) if isinstance(value, PLAIN)]
    return [code.co_code, code.co_names, constants, function.__defaults__]

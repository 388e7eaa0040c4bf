"""Finds settings that no method reads, and methods that conflict with TRL's settings or with each other."""

from collections.abc import Callable, Collection, Iterable, Mapping

from steer_trl.options.base import ShapingConfig, find_changes, find_defaults, idle_complaints
from steer_trl.options.needs import OWN_BONUS, OWN_KL, OWN_LOSS, Need, find_unmet
from steer_trl.shaping.base import BATCH_HOOKS, HOOKS, Shaper
from steer_trl.shaping.methods import READERS, SHAPERS
from steer_trl.shaping.options import read_options

Methods = Mapping[str, type[Shaper]]


def find_unread(settings: Iterable[str], names: Collection[str]) -> list[str]:
    """Return the settings in `settings` that no method in `names` reads.

    If a method is custom, the list is empty.
    """
    if not set(names) <= set(SHAPERS):
        return []
    return [setting for setting in settings if setting in READERS and not set(READERS[setting]) & set(names)]


def setting_complaints(methods: Methods, args: ShapingConfig, read_elsewhere: Collection[str] = ()) -> list[str]:
    """Return complaints about changed settings that would be ignored.

    A setting is ignored if another setting switches it off, or if no method in use reads it and it is not in
    `read_elsewhere`.
    """
    complaints = []
    unread = find_unread(find_changes(args), methods)
    for setting in (name for name in unread if name not in read_elsewhere):
        readers = READERS[setting]
        suggestion = [*methods, readers[0]]
        complaints.append(
            f"{setting}={getattr(args, setting)!r} is a setting of {' and '.join(map(repr, readers))}, which "
            f"advantage_shaping={args.advantage_shaping!r} does not use, so it would be ignored. Set "
            f"advantage_shaping to {suggestion if len(suggestion) > 1 else suggestion[0]!r}, or leave it unset."
        )
    in_use = {setting for method in methods.values() for setting in method.settings()}
    complaints += idle_complaints(args, args, unread=READERS.keys() - in_use)
    for name, method in methods.items():
        complaints += idle_complaints(read_options(method, args), args, method=name)
    return complaints


def need_complaints(name: str, method: type[Shaper], args: ShapingConfig) -> list[str]:
    """Return complaints about TRL's settings that a method cannot work with.

    If the method has its own loss, each setting in `surrogate` may have the value given there or its default.
    """
    usual = find_defaults(args)
    needs = dict(method.needs)
    needs |= OWN_LOSS if method.surrogate else {}
    needs |= {
        setting: Need((needed, usual[setting]), f"it brings a loss of its own, and needs {setting}={needed!r}")
        for setting, needed in method.surrogate.items()
    }
    needs |= OWN_BONUS if method.overrides("entropy_coef") else {}
    needs |= OWN_KL if method.overrides("kl_coef") else {}
    return find_unmet(repr(name), needs, args)


ONE_AT_MOST: list[tuple[Callable[[type[Shaper]], bool], str]] = [
    (lambda method: method.overrides("advantages"), "each replaces the advantages"),
    (lambda method: method.overrides("rollout_bonus", "bonus"), "sums depend on who comes first"),
    (lambda method: method.overrides("entropy_coef"), "each sets the one coefficient of TRL's entropy bonus"),
    (
        lambda method: method.overrides("kl_coef") or method.replaces_kl,
        "each sets the coefficient of TRL's KL penalty, or takes its place",
    ),
    (lambda method: "draws" in method.reads, "they would draw the same tokens"),
]
"""Kinds of methods of which a run can have one, and why not two."""


def combination_complaints(methods: Methods, args: ShapingConfig) -> list[str]:
    """Return complaints about methods that override no hook or cannot be combined."""
    complaints = [
        f"advantage_shaping={name!r} must override one of {', '.join(map(repr, HOOKS))}, and overrides none. Write "
        "one of these methods."
        for name, method in methods.items()
        if not method.overrides(*HOOKS)
    ]
    if len(set(methods.values())) < len(args.shaping_names):
        complaints.append(
            f"advantage_shaping={args.advantage_shaping!r} applies a method twice, which is not the paper's. Name it "
            "once."
        )
    for is_meant, why in ONE_AT_MOST:
        names = [name for name, method in methods.items() if is_meant(method)]
        if len(names) > 1:
            complaints.append(_refusal(names, why))
    for name, method in methods.items():
        loss_methods = [n for n, m in methods.items() if n != name and m.overrides(*BATCH_HOOKS)]
        if method.surrogate and loss_methods:
            why = f"{name} has a loss of its own, whose clipping the others do not follow"
            moved = [other for other in loss_methods if args.hold_entropy is not None and methods[other].control]
            remedy = (
                f" hold_entropy moves {moved[0]!r} unless hold_entropy_by is 'entropy_bonus' or 'kl'." if moved else ""
            )
            complaints.append(_refusal([name, *loss_methods], why) + remedy)
    return complaints


def _refusal(names: list[str], why: str) -> str:
    return f"advantage_shaping={names!r} cannot be combined: {why}. Keep one of them."

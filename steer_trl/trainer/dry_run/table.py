"""The table of a dry run: the numbers of the first rollout, a mark for each row, and remedies."""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from shutil import get_terminal_size
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from steer_trl.monitoring import key_names
from steer_trl.shaping import Shaper
from steer_trl.shaping.base import BATCH_HOOKS, ROLLOUT_HOOKS
from steer_trl.shaping.informative import is_informative
from steer_trl.trainer.correctness import deciding_reward
from steer_trl.trainer.dry_run.number_names import EMPTY, LEARNING, LEFT, STEP_SIZE, TEMPLATE, UNFINISHED
from steer_trl.trainer.dry_run.rules import BAD, BY_NAME, EXPLAINS, FOLLOWS, OK, check_row
from steer_trl.trainer.dry_run.twin_reading import TwinReading

INDENT = 16
"""The columns of a mark and of a row's name."""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        mark (`str`): `"ok"`, `"look"` or `"bad"`.
        name (`str`): what the row is about.
        text (`str`): the numbers.
        rules (`tuple`): the names of the rules that give this mark.
        remedy (`str`): what is wrong and what to change; empty if the mark is ok.
    """

    mark: str
    name: str
    text: str
    rules: tuple[str, ...]
    remedy: str


@dataclass(frozen=True)
class DryRun:
    """The result of a dry run. `print` shows its table, and `pandas.DataFrame(result.rows)` makes one for pandas.

    Attributes:
        rows (`list`): the rows of the table, at most 15.
        numbers (`dict`): all numbers, under the keys of the log where the log has them.
        prompt_end (`str`): the end of a prompt as the model gets it, with special tokens.
        examples (`list`): up to three completions that are empty, cut, unfinished or without an answer, or any if all
            have the same reward or the reward for correctness pays nothing.
    """

    rows: list[Row]
    numbers: dict[str, float]
    examples: list[str]
    prompt_end: str = ""

    @property
    def bad(self) -> list[str]:
        """The names of the rules that are broken."""
        return [rule for row in self.rows if row.mark == BAD for rule in row.rules]

    def to_dict(self) -> dict[str, Any]:
        """Return rows, numbers and examples as plain values."""
        return asdict(self)

    def table(self, width: int | None = None) -> str:
        """Return the table as text, `width` columns wide; by default, as wide as the terminal, from 80 to 119."""
        columns = width or min(max(get_terminal_size().columns, 80), 119)
        lines = ["A dry run: one rollout and its gradient. Nothing was updated or written."]
        for row in self.rows:
            lines += _wrap(f"{row.mark:4}  {row.name:10}" + row.text, columns)
            lines += _wrap(" " * INDENT + f"-> {row.remedy}", columns) if row.remedy else []
        if self.examples:
            lines.append("Completions to read:")
            lines += [f"      {example}"[:columns] for example in self.examples]
            lines += _wrap(f"      a prompt ends in: {self.prompt_end!r}", columns) if self.prompt_end else []
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def _wrap(line: str, columns: int) -> list[str]:
    return textwrap.wrap(line, columns, subsequent_indent=" " * INDENT, drop_whitespace=True) if line.strip() else []


def make_result(twin: Any, reading: TwinReading) -> DryRun:
    """Return the table of the numbers that `reading` has read from a `twin`."""
    rows: list[Row] = []
    for name, describe in DESCRIPTIONS.items():
        text = describe(twin, reading)
        if text is None:
            continue
        broken = {rule for row in rows if row.mark == BAD for rule in row.rules}
        if broken & FOLLOWS.get(name, set()):
            rows.append(Row(BAD, name, text, (), ""))
            continue
        findings = check_row(name, reading.judged, reading.unjudged)
        mark = findings[0].mark if findings else OK
        decisive = [finding for finding in findings if finding.mark == mark]
        remedy = " ".join(finding.text for finding in decisive)
        remedy = "" if broken & EXPLAINS.get(name, set()) else remedy
        rows.append(Row(mark, name, text, tuple(finding.rule for finding in decisive), remedy))
    return DryRun(rows, reading.numbers, reading.examples, reading.prompt_end)


def describe_reward(twin: Any, reading: TwinReading) -> str:
    """Describe the mean of each reward function and how often it is above the threshold, and what is correct."""
    means = reading.rewards.nanmean(dim=0).tolist()
    scored = ~reading.rewards.isnan()
    above = ((reading.rewards > reading.threshold) & scored).sum(dim=0) / scored.sum(dim=0)
    parts = [
        f"{name} {mean:.3g} ({_percent(share)} above {reading.threshold:g})"
        for name, mean, share in zip(twin.reward_func_names, means, above.tolist(), strict=True)
    ]
    text = ", ".join(parts)
    if reading.correct is not None:
        return f"{text}; correct {_percent(reading.correct.nanmean().item())}"
    # Only our configuration has the field.
    return f"{text}; correct_reward is not set" if hasattr(twin.args, "correct_reward") else text


def describe_groups(twin: Any, reading: TwinReading) -> str:
    """Describe how many groups have a signal, before and after dynamic sampling replaces others."""
    log = reading.numbers
    groups = len(reading.rewards) // twin.num_generations
    alike = reading.judged.get(key_names.FRAC_REWARD_ZERO_STD, math.nan)
    text = f"rewards differ in {_percent(1 - alike)} of {groups}"
    decides = getattr(twin.args, "correct_reward", None)
    if decides is not None and len(twin.reward_func_names) > 1:
        if key_names.INFORMATIVE in log:
            text = f"rewards of {decides} differ in {_percent(1 - alike)} of {groups}"
        else:
            differ = is_informative(deciding_reward(twin, reading.rewards), twin.num_generations)
            text = f"{text}, those of {decides} in {_percent(differ.float().mean().item())}"
    attempts = log.get(key_names.ATTEMPTS, 1)
    if attempts == 1:
        return text
    after = 1 - log.get("dynamic_sampling/uninformative", math.nan)
    return f"{text}; with replacements, after {attempts:.0f} rollouts, in {_percent(after)}"


def describe_methods(twin: Any, reading: TwinReading) -> str:
    """Describe how much of the advantages each method leaves, how much all change, and the size of the gradient."""
    log = reading.numbers
    our_parts = getattr(twin, "parts", None)
    shapers = {} if our_parts is None else our_parts.shapers
    hold = None if our_parts is None else our_parts.hold
    parts = [_describe_method(name, shaper, hold, log.get(f"{LEFT}{name}")) for name, shaper in shapers.items()]
    change = log.get(key_names.RELATIVE_CHANGE)
    parts += [f"changed by {_percent(change)} in the loss"] if change else []
    parts = parts or ["no method of steer_trl"]
    parts += [f"gradient norm {reading.grad_norm:.3g}"] if reading.grad_norm is not None else []
    return ", ".join(parts)


def _describe_method(name: str, shaper: Shaper, hold: Any, share_left: float | None) -> str:
    if share_left is not None:
        return f"{name} leaves {_percent(share_left)} of the gradient"
    if not shaper.active:
        return f"{name} is off" if hold is None else f"{name} waits until the entropy falls"
    return f"{name} acts on the loss" if not shaper.overrides(*ROLLOUT_HOOKS, *BATCH_HOOKS) else name


def describe_entropy(twin: Any, reading: TwinReading) -> str | None:
    """Describe the entropy, and the level at which `hold_entropy` will hold it."""
    log = reading.numbers
    entropy = log.get(key_names.ROLLOUT_ENTROPY, log.get(key_names.ENTROPY))
    if entropy is None:
        return None
    text = f"{entropy:.3g} nats a token"
    hold = getattr(getattr(twin, "parts", None), "hold", None)
    if hold is None:
        return text
    level = hold.args.hold_entropy * (1.0 if hold.args.hold_entropy_unit == "nats" else entropy)
    return f"{text}; hold_entropy={hold.args.hold_entropy:g} will hold {level:.3g} nats"


def describe_sampler(twin: Any, reading: TwinReading) -> str | None:
    """Describe whether the policy that samples is the one that is scored."""
    gap = reading.numbers.get(key_names.SAMPLED_AS_SCORED)
    error = reading.numbers.get(key_names.SAMPLED_ERROR)
    if gap is None or error is None:
        return None
    return f"surprisal minus entropy {gap:+.3f} nats, error {error:.3f} (0 if the sampler is the model)"


def describe_endings(twin: Any, reading: TwinReading) -> str:
    """Describe how completions end."""
    log = reading.numbers
    shares = {"cut": key_names.CLIPPED_RATIO, "empty": EMPTY, "unfinished thought": UNFINISHED}
    shares["no answer read"] = key_names.UNANSWERED
    return ", ".join(f"{name} {_percent(log[key])}" for name, key in shares.items() if key in log)


def describe_lengths(twin: Any, reading: TwinReading) -> str:
    """Describe the tokens of prompts and completions."""
    longest = f"{twin.args.max_completion_length:,}"
    prompts = _quantiles(reading.prompt_lengths)
    completions = _quantiles(reading.completion_lengths)
    return f"median/95 %/longest: prompts {prompts}, completions {completions} of {longest}"


def describe_template(twin: Any, reading: TwinReading) -> str | None:
    """Describe how much the chat template surprises the model."""
    value = reading.numbers.get(TEMPLATE)
    if value is None:
        return None
    text = f"surprise of its opening {value:.2f} (0: known, 1: like a random token)"
    rule = BY_NAME["template"]
    is_only_high = rule.holds(value) and math.isnan(rule.read(reading.numbers)["value"])
    return f"{text[:-1]}; also high if it was trained on completions only)" if is_only_high else text


def describe_values(twin: Any, reading: TwinReading) -> str | None:
    """Describe the share of impossible log-probabilities and entropies."""
    shares = [reading.numbers.get(f"sanity/{name}") for name in ("out_of_bounds", "not_finite")]
    if None in shares:
        return None
    return f"impossible {shares[0]:.2%}, NaN or infinite {shares[1]:.2%} of the tokens"


def describe_positions(twin: Any, reading: TwinReading) -> str | None:
    """Describe how many positions the passes compute for a token of the loss."""
    counts = reading.positions
    if not counts:
        return None
    text = f"{counts['trl']:.2f} computed for a token with padding"
    if "ours" not in counts:
        return f"{text}; the padding stays"
    return f"{text}, {counts['ours']:.2f} with skip_padding, where {_percent(counts['shared'])} share a prompt"


def describe_speed(twin: Any, reading: TwinReading) -> str:
    """Describe the tokens a second of generation and of the first step."""
    tokens = sum(reading.completion_lengths)
    generation = tokens / max(reading.seconds["generation"], 1e-9)
    step = reading.tokens_of_step / max(reading.seconds["step"], 1e-9)
    return f"{generation:,.0f} tokens/s generated, {step:,.0f} trained on; rewards {reading.seconds['rewards']:.1f} s"


def describe_update(twin: Any, reading: TwinReading) -> str | None:
    """Describe how far a step moves a weight."""
    size = reading.numbers.get(STEP_SIZE)
    return None if size is None else f"a step at the highest rate moves a weight by about {size:.2g} of its size"


def describe_run(twin: Any, reading: TwinReading) -> str:
    """Describe how long the run takes at the pace of the first step, which is slower than later ones."""
    seconds = reading.rollouts * reading.used * (reading.seconds["generation"] + reading.seconds["rewards"])
    seconds += reading.steps * reading.seconds["step"]
    rate = reading.numbers.get(LEARNING)
    text = f"{reading.steps:,} steps, {reading.tokens:,} tokens to generate"
    text += f", at most {tqdm.format_interval(seconds)}" + (" without evaluations" if reading.evaluates else "")
    return text if rate is None or rate >= 1 else f"{text}; rate up to {_percent(rate)}"


def describe_memory(twin: Any, reading: TwinReading) -> str | None:
    """Describe the memory of the device that the step took."""
    if not reading.memory:
        return None
    total = torch.cuda.get_device_properties(twin.accelerator.device).total_memory
    return f"{reading.memory / 2**30:.1f} of {total / 2**30:.1f} GiB, without the optimizer's"


DESCRIPTIONS: dict[str, Callable[[Any, TwinReading], str | None]] = {
    "reward": describe_reward,
    "groups": describe_groups,
    "methods": describe_methods,
    "entropy": describe_entropy,
    "sampler": describe_sampler,
    "endings": describe_endings,
    "lengths": describe_lengths,
    "template": describe_template,
    "values": describe_values,
    "positions": describe_positions,
    "speed": describe_speed,
    "update": describe_update,
    "run": describe_run,
    "memory": describe_memory,
}
"""The rows of the table, in their order. A row without anything to describe is left out."""


def _percent(share: float) -> str:
    return "unknown" if math.isnan(share) else f"{100 * share:.3g} %"


def _quantiles(lengths: Sequence[int]) -> str:
    if not lengths:
        return "none"
    return "/".join(f"{round(value):,}" for value in np.quantile(lengths, [0.5, 0.95, 1.0]).tolist())

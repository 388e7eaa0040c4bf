"""The data that a run reads of its rollouts and optimizer steps, beside masks and advantages.

A forward pass over a whole rollout, a gather or a random draw is made only if something reads its result. Methods
name what they read (`Shaper.reads`). `hold_entropy` reads the mean entropy, and the log reads the tokens of the loss.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from steer_trl.shaping.base import ROLLOUT_HOOKS, Shaper


@dataclass(frozen=True)
class Reads:
    """The data that the methods of a run, `hold_entropy` and the log read.

    Attributes:
        whole_groups (`bool`): the completions of each prompt together, before TRL shuffles them.
        all_ranks (`bool`): the groups of all ranks together.
        rewards (`bool`), logps (`bool`), entropies (`bool`): the numbers of a rollout that methods compare.
        mean_entropy (`bool`): the mean entropy of each rollout.
        tokens (`bool`): the log-probability and the entropy of each token in the loss.
        draws (`bool`): a random number for each token in the loss.
        sensitivities (`bool`): the exact entropy sensitivity of each token in the loss.
        step_statistics (`bool`): statistics over all micro-batches of an optimizer step.
    """

    whole_groups: bool
    all_ranks: bool
    rewards: bool
    logps: bool
    entropies: bool
    mean_entropy: bool
    tokens: bool
    draws: bool
    sensitivities: bool
    step_statistics: bool

    @classmethod
    def of(
        cls, methods: Iterable[Shaper | type[Shaper]], scope: str, is_held: bool = False, is_logged: bool = False
    ) -> "Reads":
        """Return what `methods` read with this `shaping_scope`, with `hold_entropy` and with the log of tokens."""
        methods = list(methods)
        names = {name for method in methods for name in method.reads}
        compares = any(method.overrides("measure") for method in methods)
        return cls(
            whole_groups=any(method.overrides(*ROLLOUT_HOOKS) for method in methods),
            all_ranks="all_ranks" in names,
            rewards=bool({"rewards", "correctness"} & names),
            logps="logps" in names,
            entropies="entropies" in names,
            mean_entropy=is_held or "mean_entropy" in names,
            tokens=bool(methods) or is_logged,
            draws="draws" in names,
            sensitivities="sensitivities" in names,
            step_statistics=compares and scope != "micro_batch",
        )

    @property
    def scores(self) -> bool:
        """Whether the tokens of a whole rollout are compared, which takes a forward pass over it."""
        return self.logps or self.entropies

    @property
    def rollouts(self) -> bool:
        """Whether anything reads a whole rollout, before its first micro-batch is trained on."""
        return self.whole_groups or self.mean_entropy

"""How token weights would enter TRL's asynchronous trainer: its own loss, on advantages that are weighted in passing.

`AsyncGRPOTrainer.compute_loss` takes the trained tokens' advantages out of the batch before the forward pass, and uses
them after it. So the batch is given an object in their place that keeps the tensor which was taken, and when the model
returns log-probabilities and entropies, that tensor is multiplied in place. No line of TRL's loss is copied. What is
held here is all that `docs/async.md` promises; the trainer itself needs a GPU.
"""

import inspect
from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # an experimental module, which says so when it is imported

TOKENS, TRAINED = 20, 12


class Accelerator:
    """One process."""

    num_processes = 1

    def reduce(self, tensor, reduction):
        return tensor

    def gather(self, tensor):
        return tensor


class TakenAdvantages:
    """Stands in the batch for the advantages, and keeps what the loss takes of them."""

    def __init__(self, advantages):
        self.advantages, self.taken = advantages, None

    def __getitem__(self, selected):
        self.taken = self.advantages[selected].clone()
        return self.taken


@pytest.fixture
def trainer_class():
    from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer

    return AsyncGRPOTrainer


@pytest.fixture
def numbers():
    """Log-probabilities, entropies, and a batch as TRL's collator makes one: two completions in a row."""
    dice = torch.Generator().manual_seed(0)
    logps = torch.randn(1, TOKENS, generator=dice) * 0.3 - 1
    entropies = torch.rand(1, TOKENS, generator=dice)
    places = torch.full((1, TOKENS), -1)
    places[0, :TRAINED] = torch.arange(TRAINED)
    advantages, old = (torch.zeros(1, TOKENS) for _ in range(2))
    advantages[0, :TRAINED] = torch.randn(TRAINED, generator=dice)
    old[0, :TRAINED] = logps[0, :TRAINED] + 0.3 * torch.randn(TRAINED, generator=dice)
    batch = {
        "attention_mask": torch.ones(1, TOKENS, dtype=torch.long),
        "input_ids": torch.zeros(1, TOKENS, dtype=torch.long),
        "position_ids": torch.arange(TOKENS)[None],
        "shift_labels": torch.zeros(1, TOKENS, dtype=torch.long),
        "token_index": places,
        "old_log_probs": old,
        "advantages": advantages,
        "segment_id": (torch.arange(TOKENS) // (TRAINED // 2)).clamp(max=1)[None],
        "global_n_tokens": torch.tensor([float(TRAINED)]),
        "global_n_forward_tokens": torch.tensor([float(TOKENS)]),
        "mean_seq_len": torch.tensor([TOKENS / 2]),
        "tree_kv_index": torch.zeros(1, 4, dtype=torch.long),
        "tree_cu_seqlens_q": torch.zeros(1, 2, dtype=torch.int),
        "tree_cu_seqlens_k": torch.zeros(1, 2, dtype=torch.int),
        "tree_max_seqlens": torch.ones(1, 2, dtype=torch.int),
    }
    return logps, entropies, batch


def make_trainer():
    """What `compute_loss` reads of its trainer; the model and its attention kernel are what needs a GPU."""
    counters = ("forward_tokens", "trained_tokens", "seq_len_weighted", "samples", "forward_s")
    return SimpleNamespace(
        accelerator=Accelerator(),
        epsilon_low=0.2,
        epsilon_high=0.28,
        current_gradient_accumulation_steps=1,
        aux_loss_enabled=False,
        _metrics={"train": defaultdict(list)},
        **{f"_step_{name}": 0.0 for name in counters},
    )


def weights_of(logps, entropies):
    """Any function of what the forward pass returns; here one that no constant could replace."""
    return (1 + entropies - 0.2 * logps).detach()


def loss_and_gradient(trainer_class, logps, entropies, batch, after_forward=None):
    leaf = logps.clone().requires_grad_()
    trainer = make_trainer()

    def model(**_):
        if after_forward is not None:
            after_forward(leaf, entropies)
        return SimpleNamespace(log_probs=leaf, entropy=entropies)

    loss = trainer_class.compute_loss(trainer, model, batch)
    loss.backward()
    return loss.detach(), leaf.grad, trainer


def test_the_loss_is_that_of_advantages_that_were_weighted_beforehand(trainer_class, numbers):
    logps, entropies, batch = numbers
    weights = weights_of(logps, entropies)
    before = batch | {"advantages": batch["advantages"] * weights}
    expected, expected_gradient, _ = loss_and_gradient(trainer_class, logps, entropies, before)

    taken = TakenAdvantages(batch["advantages"])

    def weigh(leaf, entropies):
        places = batch["token_index"][batch["token_index"] >= 0]
        taken.taken.mul_(weights_of(leaf.flatten()[places], entropies.flatten()[places]))

    late = batch | {"advantages": taken}
    loss, gradient, _ = loss_and_gradient(trainer_class, logps, entropies, late, weigh)
    assert torch.equal(loss, expected) and torch.equal(gradient, expected_gradient)
    plain, plain_gradient, _ = loss_and_gradient(trainer_class, logps, entropies, batch)
    assert not torch.equal(plain, loss) and not torch.equal(plain_gradient, gradient)  # the weights did something


def test_weights_of_one_are_trls_own_loss(trainer_class, numbers):
    logps, entropies, batch = numbers
    taken = TakenAdvantages(batch["advantages"])
    late = loss_and_gradient(
        trainer_class, logps, entropies, batch | {"advantages": taken}, lambda *_: taken.taken.mul_(1.0)
    )
    plain = loss_and_gradient(trainer_class, logps, entropies, batch)
    assert torch.equal(late[0], plain[0]) and torch.equal(late[1], plain[1])
    assert late[2]._metrics == plain[2]._metrics


def test_what_is_written_into_the_batch_after_the_forward_pass_comes_too_late(trainer_class, numbers):
    """The seam of `SteerGRPOTrainer` does not carry over; were it to, this page of the documentation is outdated."""
    logps, entropies, batch = numbers
    copy = dict(batch)
    double = loss_and_gradient(
        trainer_class, logps, entropies, copy, lambda *_: copy.update(advantages=2 * batch["advantages"])
    )
    plain = loss_and_gradient(trainer_class, logps, entropies, batch)
    assert torch.equal(double[0], plain[0])


def test_a_batch_does_not_state_which_policy_wrote_a_token(trainer_class):
    """So staleness cannot be logged by token, and methods that compare the completions of a prompt cannot act."""
    source = inspect.getsource(trainer_class.compute_loss)
    assert "model_version" not in source and "group_id" not in source
    assert {"log_probs", "entropy"} <= set(source.replace(".", " ").replace(",", " ").split())

"""Several turns: what a tool wrote is in no weight, no statistic and no loss; a trajectory is one completion."""

import pytest
import torch
from support.digits import given
from support.methods.cases import CASES
from support.runs import OPEN_STARE, Spy, count_reward, has_one, same_parameters

from steer_trl import SteerGRPOTrainer
from steer_trl.shaping import SHAPERS


class Seeing(Spy):
    compute_loss = SteerGRPOTrainer.compute_loss  # some methods have given advantages per token by then


TURN, TOOL = 4, 5  # tokens


def two_turns(tool_says):
    """Each completion: what the policy wrote, then what the tool said, which nothing follows."""

    def give(prompts, trainer):
        dice = torch.Generator().manual_seed(trainer.state.global_step)
        written = torch.randint(4, 14, (len(prompts), TURN), generator=dice).tolist()
        said = torch.randint(4, 14, (len(prompts), TOOL), generator=torch.Generator().manual_seed(tool_says)).tolist()
        ids = [one + other for one, other in zip(written, said, strict=True)]
        return given(prompts, trainer, ids, [[1] * TURN + [0] * TOOL] * len(prompts))

    return give


@pytest.fixture
def run(train):
    def train_on(tool_says, **fields):
        case = CASES.get(fields.get("advantage_shaping"))
        judge = has_one if case is not None and case.two_valued else count_reward

        def reward(completions, **_):
            return judge([text[:TURN] for text in completions])  # what the policy wrote

        arguments = {"rollout_func": two_turns(tool_says), "reward_funcs": reward}
        settings = {"max_steps": 2, "max_completion_length": 16, "num_iterations": 2}
        return train(Seeing, trainer_arguments=arguments, **settings | fields)

    return train_on


METHODS = {name: {"advantage_shaping": name} | CASES[name].needed for name in SHAPERS} | {"stare": OPEN_STARE}
METHODS["pass_at_k"] |= CASES["pass_at_k"].lively


@pytest.mark.parametrize("method", METHODS)
def test_tool_tokens_change_no_weight_of_written_tokens(run, method):
    """The policy writes the same; the tool's tokens differ, and their log-probabilities and entropies with them."""
    one, other = (run(says, **METHODS[method]) for says in (1, 2))
    for mine, theirs in zip(one.seen, other.seen, strict=True):
        written = mine[5]["tool_mask"].bool() & mine[5]["completion_mask"].bool()
        assert written.sum(1).tolist() == [TURN] * len(written)
        assert not torch.equal(mine[2][~written], theirs[2][~written])  # the tool's tokens were other ones
        ours, others = (seen[1].view(len(seen[2]), -1).expand_as(seen[2]) for seen in (mine, theirs))
        assert torch.equal(ours[written], others[written])
    assert same_parameters(one, other)
    for mine, theirs in zip(one.state.log_history, other.state.log_history, strict=True):
        own = [key for key in mine if "/" in key or key in ("loss", "entropy", "rollout_entropy", "reward")]
        assert {key: mine[key] for key in own} == {key: theirs[key] for key in own}


def test_dynamic_sampling_takes_a_trajectory_as_it_is(run):
    one, other = (run(says, dynamic_sampling="resample", **OPEN_STARE) for says in (1, 2))
    assert same_parameters(one, other)
    for entry in one.state.log_history:
        if "dynamic_sampling/attempts" in entry:  # what the tool said was not generated
            assert entry["dynamic_sampling/tokens_per_trained_token"] == entry["dynamic_sampling/attempts"]

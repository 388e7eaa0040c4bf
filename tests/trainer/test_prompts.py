"""Prompts come in the order of TRL's own sampler, at another pace."""

import pytest
from trl.trainer.utils import RepeatSampler

from steer_trl.trainer.sampling.prompts import FirstOfRepeats, PromptStream, Schedule

ROWS = [{"row": i} for i in range(11)]


def stream_of(shuffle=True):
    return PromptStream(lambda: RepeatSampler(ROWS, 1, 1, 1, shuffle, seed=7), 3, ROWS)


def sampler(rows=11, shuffle=True):
    return RepeatSampler(ROWS[:rows], 2, 3, 4, shuffle, seed=7)


def trls_prompts(sampler):
    """The prompts of a pass as TRL trains on them: each once for its 2 completions, a batch of 3 once for 4 steps."""
    indexes = list(sampler)
    return [prompt for start in range(0, len(indexes), 24) for prompt in indexes[start : start + 6 : 2]]


@pytest.mark.parametrize("shuffle", [True, False])
def test_pass_after_pass_in_trls_order(shuffle):
    trls = sampler(shuffle=shuffle)
    stream = stream_of(shuffle)
    expected = [trls_prompts(trls) for _ in range(3)]
    assert len({tuple(one) for one in expected}) == (3 if shuffle else 1)
    assert [stream.draw(9) for _ in range(3)] == expected
    assert stream.rows_of([4, 0, 4]) == [{"row": 4}, {"row": 0}, {"row": 4}]


@pytest.mark.parametrize("count", [3, 4, 6, 12])
def test_the_position_restores_a_stream_of_prompts(count):
    stream, resumed = stream_of(), stream_of()
    for _ in range(5):
        resumed.load_state_dict(stream.state_dict())
        assert stream.draw(count) == resumed.draw(count)
    assert stream.epochs == pytest.approx(stream.passes + stream.position / 11) and stream.passes > 0


@pytest.mark.parametrize("shuffle", [True, False])
def test_repeats_of_a_sampler_are_skipped(shuffle):
    """Its prompts are those that TRL trains on."""
    trls, ours = sampler(shuffle=shuffle), FirstOfRepeats(sampler(shuffle=shuffle), Schedule(3, 2, 4))
    for _ in range(2):
        assert list(ours) == trls_prompts(trls)


def test_a_sampler_without_a_whole_rollout_is_refused():
    with pytest.raises(ValueError, match="needs a sampler that gives >= 3 prompts"):
        PromptStream(lambda: [0, 1], 3, ROWS)

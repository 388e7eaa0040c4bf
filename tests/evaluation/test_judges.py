"""Any reward function is a judge."""

import asyncio

import numpy as np
import pytest
import torch

from steer_trl.demo.puzzle import countdown_reward, problems, solutions
from steer_trl.evaluation.judges import make_judge

TWO = ["x", "y"], [{"prompt": "a"}] * 2


def test_a_reward_function_judges_as_it_rewards():
    prompts = [row["prompt"] for row in problems("test")[:4]]
    texts = [solutions(prompts[0])[0], "1+1=3", solutions(prompts[2])[1], ""]
    verdicts = make_judge(countdown_reward)(texts, [{"prompt": one, "id": str(i)} for i, one in enumerate(prompts)])
    assert [verdict.correct for verdict in verdicts] == [True, False, True, False]
    assert [verdict.answer for verdict in verdicts] == texts


def test_a_judge_gets_messages_and_every_column():
    seen = {}

    def reward(prompts, completions, difficulty, **_):
        seen.update(prompts=prompts, completions=completions, difficulty=difficulty)
        return [None, 0.5]

    rows = [{"prompt": [{"role": "user", "content": "a"}], "difficulty": n} for n in (1, 2)]
    assert [verdict.correct for verdict in make_judge(reward)(["x", "y"], rows)] == [False, True]
    assert seen["completions"] == [[{"role": "assistant", "content": text}] for text in "xy"]
    assert seen["difficulty"] == [1, 2] and seen["prompts"] == [row["prompt"] for row in rows]


@pytest.mark.parametrize("result", [[1, None], (0.5, True), np.ones(2), torch.ones(2), [torch.tensor(1.0)] * 2])
def test_every_result_that_trl_takes_is_taken(result):
    verdicts = make_judge(lambda **_: result)(*TWO)
    assert verdicts[0].correct and verdicts[1].correct is (result[1] is not None)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("result", [None, [1.0], ["a", "b"], "ab", torch.tensor(1.0), [[1.0], [2.0]]])
def test_a_function_that_returns_no_list_of_rewards_is_named(result, is_async):
    async def later():
        return result

    def graded(**_):
        return later() if is_async else result

    with pytest.raises(ValueError, match=r"the reward function 'graded' must return a list .* for 2"):
        make_judge(graded)(*TWO)


def test_asynchronous_functions_and_iterators_are_judges():
    async def later(completions, **_):
        await asyncio.sleep(0)
        return (len(text) - 1 for text in completions)

    async def in_a_notebook():
        return make_judge(later)(["x", "yy"], [{"prompt": "a"}] * 2)

    verdicts = make_judge(later)(["x", "yy"], [{"prompt": "a"}] * 2)
    assert [verdict.correct for verdict in verdicts] == [False, True]
    assert asyncio.run(in_a_notebook()) == verdicts

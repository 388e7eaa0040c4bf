"""Where a micro-batch stands in its rollout and its step, against a list of what TRL does with each of them."""

from types import SimpleNamespace

import pytest

from steer_trl.trainer.trl import find_position, rest_of_step


def list_micro_batches(per_iteration, iterations, per_step, rollouts):
    """Every micro-batch of a run in order: its rollout, iteration, number in the iteration, and optimizer step."""
    passes = [(r, i, n) for r in range(rollouts) for i in range(iterations) for n in range(per_iteration)]
    return [(*place, number // per_step) for number, place in enumerate(passes)]


@pytest.mark.parametrize("per_iteration", [1, 2, 4, 6])
@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("per_step", [1, 2, 4])
def test_a_position_is_the_place_in_trls_schedule(per_iteration, iterations, per_step):
    run = list_micro_batches(per_iteration, iterations, per_step, rollouts=4)
    buffer = [{"number": number} for number in range(per_iteration)]
    args = SimpleNamespace(steps_per_generation=per_iteration, gradient_accumulation_steps=per_step)
    for done, (rollout, iteration, number, step) in enumerate(run):
        trainer = SimpleNamespace(args=args, num_iterations=iterations, _step=done, _buffered_inputs=buffer)
        position = find_position(trainer)
        of_rollout = [place for place in run if place[0] == rollout]
        assert position.is_first_of_rollout is (run[done] == of_rollout[0])
        assert position.is_in_first_iteration is (iteration == 0)
        assert position.of_iteration == number
        assert position.is_in_first_step is (step == of_rollout[0][-1])
        if per_iteration % per_step == 0:  # a step never spans two rollouts or iterations
            assert position.has_rollout_in_step is (len({place[-1] for place in of_rollout}) == 1)
            if run[done - 1][-1] != step or done == 0:
                others = [place for place in run if place[-1] == step][1:]
                assert [batch["number"] for batch in rest_of_step(trainer)] == [place[2] for place in others]

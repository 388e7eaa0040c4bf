"""A vLLM server that does not answer any more ends a training in one sentence; `tests/with_vllm` has a real one."""

from types import SimpleNamespace

import pytest
import requests
from accelerate.utils.other import get_free_port

from steer_trl import SteerGRPOTrainer


class Asking(SteerGRPOTrainer):
    """Draws as ever, and from the third step on asks somebody who is not there."""

    asked = None

    def _generate_single_turn(self, *args, **kwargs):
        if self.state.global_step == 2 and self.asked is not None:
            requests.post(f"{self.asked}/v1/completions", json={})
        return super()._generate_single_turn(*args, **kwargs)


@pytest.fixture
def server():
    return f"http://127.0.0.1:{get_free_port()}"  # nobody listens there


@pytest.fixture
def make(make_trainer, server):
    def make(asked):
        trainer = make_trainer(Asking, advantage_shaping="stare", save_strategy="steps", save_steps=1, max_steps=4)
        trainer.vllm_generation = SimpleNamespace(vllm_client=SimpleNamespace(base_url=server))
        trainer.asked = asked
        return trainer

    return make


def test_it_is_named_and_the_training_continues_after_its_checkpoint(make, server, tmp_path):
    with pytest.raises(RuntimeError) as caught:
        make(server).train()
    assert str(caught.value) == (
        f"The vLLM server at {server} does not answer any more (ConnectionError of {server}/v1/completions). Look at "
        "its output, start it again, and train with resume_from_checkpoint='auto': the training continues after the "
        f"last checkpoint in {tmp_path / 'run'}, or begins at step 0 where there is none."
    )
    again = make(None)
    again.train(resume_from_checkpoint="auto")
    assert [entry["step"] for entry in again.state.log_history if "loss" in entry] == [1, 2, 3, 4]


def test_another_server_is_not_mistaken_for_it(make):
    """A reward function's own, say."""
    with pytest.raises(requests.exceptions.ConnectionError):
        make(f"http://127.0.0.1:{get_free_port()}").train()

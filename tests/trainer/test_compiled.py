"""A compiled model passes by hooks: what needs them is refused to methods, and estimated in the token log."""

import pytest
import torch
from support.runs import same_parameters
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2
from steer_trl.monitoring import run_files

COMPILED = {"torch_compile": True, "torch_compile_backend": "eager"}  # traces, and needs no compiler of C++


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_compiled_models_refuse_the_exact_change(make_trainer, tokenizer, monkeypatch):
    with pytest.raises(ValueError, match=r"torch_compile=True .*'entropy_change'"):
        make_trainer(SteerGRPOTrainer, **COMPILED, advantage_shaping="entropy_change")
    model = torch.compile(tiny_qwen2(tokenizer), backend="eager")
    with pytest.raises(ValueError, match=r"compiled model .*'steer'"):
        make_trainer(SteerGRPOTrainer, model=model, steer_form="exact")
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "EAGER")
    with pytest.raises(ValueError, match=r"dynamo_backend='EAGER' .*'steer'") as error:
        make_trainer(SteerGRPOTrainer, advantage_shaping=["steer", "opo"], steer_form="exact")
    # Only the method that needs the model uncompiled is named.
    assert "opo" not in str(error.value)


@pytest.mark.filterwarnings("ignore")  # those of PyTorch's own that it hides outside of tests, when it traces
def test_diagnostics_go_without(train, caplog):
    trainer = train(SteerGRPOTrainer, advantage_shaping="none", max_steps=3, log_tokens=2, **COMPILED)
    assert "cannot be predicted" not in caplog.text
    for entry in trainer.state.log_history[:3]:
        assert "entropy/estimated_change" in entry
        assert "entropy/predicted_change" not in entry
    files = run_files.token_files(run_files.Path(trainer.args.output_dir, "_logs"))
    assert {line["entropy_change_source"] for _, path in files for line in run_files.lines(path)} == {"estimate"}
    torch._dynamo.reset()
    assert same_parameters(trainer, train(GRPOTrainer, max_steps=3, **COMPILED))

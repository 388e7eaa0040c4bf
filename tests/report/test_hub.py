"""Cards and pushes, against a Hub on this machine; each scenario of `hub_run.py` is one process."""

import json
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest
import torch
from support import ENVIRONMENT, ROOT
from support.hub_server import TOKEN, HubServer, complaints
from transformers import AutoModelForCausalLM
from transformers.utils import PushInProgress

from steer_trl import SteerGRPOTrainer

SECRET = "open sesame 1001 nights"  # nothing in it looks like a token


def scenario(name, folder, token=TOKEN, **environment):
    folder.mkdir()
    with HubServer(folder / "server") as server:
        hub = {"ENDPOINT": server.endpoint, "HOME": str(folder / "home"), "TOKEN": token}
        hub |= {"HUB_OFFLINE": "0", "HUB_DISABLE_XET": "1", "HUB_DISABLE_TELEMETRY": "1"}
        environment = ENVIRONMENT | {f"HF_{name}": value for name, value in hub.items()} | environment
        command = [sys.executable, str(ROOT / "tests/support/hub_run.py"), name, str(folder), "--wandb_key", SECRET]
        command += ["--auth", f"user:{SECRET}", f"x_api_key={SECRET}", "-p", SECRET, f"Authorization: Bearer {SECRET}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return server, json.loads((folder / "result.json").read_text()), done.stderr


def local(folder):
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith(("_", "checkpoint-"))}


def fixture_of(name, **environment):
    @pytest.fixture(scope="module", name=name)
    def run(tmp_path_factory):
        folder = tmp_path_factory.mktemp("hub") / name
        return folder, *scenario(name, folder, **environment)

    return run


whole = fixture_of("whole", token="hf_wrong", GIVEN_TOKEN=TOKEN)
failing = fixture_of("failing")
secrets = fixture_of("secrets", WANDB_API_KEY=SECRET)


class TestSecrets:
    """Full and adapter, all four strategies, a push during training, at its end and by hand."""

    def test_no_pushed_byte_holds_a_secret(self, secrets):
        _, server, *_ = secrets
        names = [name for name, _ in server.received]
        assert sum(name.endswith("training_args.bin") for name in names) > 4  # also those that were overwritten
        assert sum(name.endswith("README.md") for name in names) > 8
        for name, data in server.received:
            assert TOKEN.encode() not in data and SECRET.encode() not in data, name
            assert SECRET not in name

    def test_the_run_log_has_no_secret_and_is_not_pushed(self, secrets):
        folder, server, *_ = secrets
        texts = {path: path.read_text() for path in folder.rglob("_logs*/*") if path.is_file()}
        assert {path.name for path in texts} == {"metrics.jsonl", "run.json"}
        assert not any(TOKEN in text or SECRET in text for text in texts.values())
        assert not [name for name, _ in server.received if "_logs" in name]

    def test_trackers_get_no_secret(self, secrets):
        _, _, result, _ = secrets
        assert len(result["told"]) == 4 * 4
        assert not any(TOKEN in text or SECRET in text for text in result["told"])

    def test_the_pushed_settings_are_complete(self, secrets):
        _, server, *_ = secrets
        card = server.files("tester/checkpoint-full")["README.md"].decode()
        assert "strength: 0.5" in card and "attn_implementation: eager" in card
        folder = secrets[0] / "checkpoint-full"
        args = torch.load(folder / "training_args.bin", weights_only=False)
        assert (args.hub_token, args.max_steps, args.shaping_options["strength"]) == (None, 3, 0.5)


class TestWhole:
    def test_pushed_files_equal_the_local_ones(self, whole):
        folder, server, *_ = whole
        pushed = server.files("tester/whole")
        top = {name: data for name, data in pushed.items() if not name.startswith("last-checkpoint/")}
        assert top == local(folder / "run")
        assert {"README.md", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= top.keys()
        last = {name.removeprefix("last-checkpoint/"): data for name, data in pushed.items() if name not in top}
        assert last == local(folder / "run/checkpoint-3")
        assert {"README.md", "optimizer.pt", "shaping_state.json", "rollout_0_of_1.pt"} <= last.keys()

    def test_a_run_resumes_from_the_pushed_checkpoint(self, whole):
        folder, _, result, _ = whole
        assert result["steps"] == [1, 2, 3, 4, 5]
        card = (folder / "resumed/README.md").read_text()
        assert all(f"\n| {step} | " in card for step in range(1, 4))

    def test_the_metadata(self, whole):
        _, server, *_ = whole
        pushed = server.files("tester/whole")["README.md"].decode()
        assert complaints(pushed) == []
        for text in ("2606.19236", "2402.03300", "vonwerra2020trl", "`count_reward`", 'model="tester/whole"'):
            assert text in pushed


class TestFailing:
    def test_training_continues_and_keeps_every_file(self, failing):
        folder, _, said, _ = failing
        assert said["steps"] == 3
        for step in (1, 2, 3):
            files = {path.name for path in (folder / f"run/checkpoint-{step}").iterdir()}
            assert {"README.md", "model.safetensors", "optimizer.pt", "trainer_state.json"} <= files
        files = local(folder / "run").keys()
        assert {"README.md", "model.safetensors", "tokenizer.json", "training_args.bin"} <= files
        assert not [name for name in files if name.endswith(".partial")]
        AutoModelForCausalLM.from_pretrained(folder / "run")

    def test_a_failed_push_names_folder_and_command(self, failing):
        folder, _, said, _ = failing
        assert "tester/run on http://127.0.0.1" in said["refused"] and str(folder / "run") in said["refused"]
        command = f"hf upload tester/run {folder / 'run'} . --exclude '_*' --exclude 'checkpoint-*'"
        assert command in said["refused"]

    def test_the_model_is_saved_without_a_repository(self, failing):
        folder, _, said, _ = failing
        assert "hf upload late" in said["no repository"]
        AutoModelForCausalLM.from_pretrained(folder / "late")
        assert (folder / "late/README.md").exists()

    def test_a_failed_push_can_be_repeated(self, failing):
        folder, server, said, _ = failing
        assert said["fine"] is None
        assert server.files("tester/run").keys() == local(folder / "run").keys()


def test_a_card_that_is_being_pushed_stays(make_trainer):
    trainer = make_trainer(SteerGRPOTrainer)
    trainer.create_model_card()
    card = Path(trainer.args.output_dir, "README.md")
    before = card.stat().st_mtime_ns
    trainer.push_in_progress = PushInProgress([Future()])
    trainer.create_model_card()
    assert card.stat().st_mtime_ns == before
    trainer.push_in_progress.jobs[0].set_result(None)
    trainer.create_model_card()
    assert card.stat().st_mtime_ns > before

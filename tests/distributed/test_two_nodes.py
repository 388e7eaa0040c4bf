"""The SLURM script under SLURM: two nodes, with its ZeRO-3, train what two processes of one node train."""

import json
import sys

import pytest
from support import ENVIRONMENT, ROOT, SMOKE, slurm
from support.processes import engine_on_cpu, flags, run
from support.runs import save_tiny_model
from transformers import AutoModelForCausalLM

SCRIPT = ROOT / "examples/slurm/two_nodes.sbatch"


@pytest.mark.skipif(not slurm.is_here(), reason="no SLURM daemons, no root or no name: `make slurm`")
def test_two_nodes_train_what_two_processes_do(tmp_path):
    problems = tmp_path / "problems.jsonl"
    problems.write_text("".join(json.dumps({"prompt": f"{i}+1="}) + "\n" for i in range(8)))
    sizes = {"config": SMOKE, "model_name_or_path": save_tiny_model(tmp_path / "tiny"), "dataset_name": problems}
    sizes |= {"reward_funcs": "support.runs.count_reward", "entropy_coef": 0.0}  # advantages move the parameters
    job = ["--gpus-per-node=1", "--cpus-per-task=1", f"--output={tmp_path}/job.txt", SCRIPT]
    (tmp_path / "slurm").mkdir()
    with slurm.cluster(tmp_path / "slurm") as found:
        engine = {"VIRTUAL_ENV": sys.prefix, "ENGINE": str(engine_on_cpu("multi_node", tmp_path))}
        environment = ENVIRONMENT | found | engine
        command = [*job, *flags(sizes | {"output_dir": tmp_path / "nodes"})]
        state = slurm.run_job(command, environment, cwd=ROOT)
    assert state == "COMPLETED", (tmp_path / "job.txt").read_text()[-5000:]

    of_one_node = flags(sizes | {"output_dir": tmp_path / "processes"})
    run("-m", "steer_trl.cli", "train", *of_one_node, engine=engine_on_cpu("zero3", tmp_path))
    start, *trained = (
        AutoModelForCausalLM.from_pretrained(tmp_path / name).state_dict() for name in ("tiny", "nodes", "processes")
    )
    assert all((trained[0][name] == trained[1][name]).all() for name in start)
    assert any((trained[0][name] != start[name]).any() for name in start)

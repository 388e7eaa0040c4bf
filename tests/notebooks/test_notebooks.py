"""Both notebooks, executed in a real Jupyter kernel and scaled down; by `make notebooks`, that for a CPU as it is."""

import ast
import json
import os
import random
from pathlib import Path

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from safetensors.torch import load_file
from support.runs import ON_CPU, QUIET
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from steer_trl.curves import series
from steer_trl.data import load_math_dataset
from steer_trl.demo.result import ENTROPY, Result
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

FOLDER = Path(__file__).parents[2] / "examples/notebooks"
FULL_SIZE = "FULL_NOTEBOOKS" in os.environ
FULL = "= 3_000_000, 600"  # tokens and problems of the notebook for a CPU
CPU, GPU = FOLDER / "entropy_on_cpu.ipynb", FOLDER / "lora_on_one_gpu.ipynb"


def read(path):
    return nbformat.read(path, as_version=4)


def execute(notebook, folder):
    return NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(folder)}}).execute()


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def pictures(notebook):
    """For each code cell, how many pictures it shows."""
    return [sum("image/png" in output.get("data", {}) for output in cell.outputs) for cell in code_cells(notebook)]


def outputs(notebook):
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def set_parameters(notebook, values):
    """Replace values in the cell tagged `parameters`, and nothing else; each has to be one of its names."""
    (cell,) = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    defaults = {line.targets[0].id: ast.literal_eval(line.value) for line in ast.parse(cell.source).body}
    assert not values.keys() - defaults.keys()
    cell.source = "\n".join(f"{name} = {value!r}" for name, value in (defaults | values).items())


def test_committed_notebooks_were_run_in_order():
    notebook = read(CPU)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [out for out in outputs(notebook) if out.output_type == "error" or out.get("name") == "stderr"]
    assert sum(pictures(notebook)) == 4 and CPU.stat().st_size < 1e6


def test_outputs_of_small_runs_are_marked():
    notebook = read(GPU)
    assert sum(pictures(notebook)) == 1 and not [out for out in outputs(notebook) if out.output_type == "error"]
    assert "`make notebooks`" in notebook.cells[0].source  # how its outputs were made


def executed_on_cpu(folder, sizes=FULL):
    """Execute the notebook for a CPU in `folder`, with other sizes if any are given; check it, and return the runs."""
    committed, changed = read(CPU), read(CPU)
    for cell in code_cells(changed):
        cell.source = cell.source.replace(FULL, sizes)
    executed = execute(changed, folder)
    pairs = zip(executed.cells, committed.cells, strict=True)
    assert sum(cell.source != original.source for cell, original in pairs) == (sizes != FULL)  # the cell that trains
    assert pictures(executed) == pictures(committed)
    return Result(folder / "runs/demo")


@pytest.mark.skipif(FULL_SIZE, reason="it is executed at its full size")
def test_entropy_on_cpu_scaled_down(tmp_path):
    logs = executed_on_cpu(tmp_path, "= 9_000, 8").logs
    assert min(series(log, "generated_tokens")[-1][1] for log in logs.values()) >= 9_000


@pytest.mark.skipif(not FULL_SIZE, reason="four minutes of two processors: make notebooks")
def test_entropy_on_cpu(tmp_path):
    rows = executed_on_cpu(tmp_path).rows
    expected = [ENTROPY, "different correct answers of 16", "solved in 16 tries"]
    assert [rows[name].verdict for name in expected] == ["higher"] * 3


@pytest.fixture
def problems(tmp_path):
    path = tmp_path / "problems.jsonl"
    rows = [{"problem": f"What is {i}+1?", "answer": str(i + 1)} for i in range(1, 9)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def guessing_model(tmp_path, problems):
    """A two-layer model that has learnt to box a number, but not which: it is right now and then."""
    guesses = random.Random(0)
    prompts = load_math_dataset(str(problems)).select([i % 4 for i in range(480)])
    completions = [[{"role": "assistant", "content": rf"\boxed{{{guesses.randint(2, 5)}}}"}] for _ in prompts]
    tokenizer = tiny_tokenizer()
    sizes = {"per_device_train_batch_size": 8, "learning_rate": 1e-2, "max_steps": 60, "gradient_checkpointing": False}
    args = SFTConfig(output_dir=str(tmp_path / "tiny"), **sizes | ON_CPU | QUIET)
    data = prompts.select_columns("prompt").add_column("completion", completions)
    trainer = SFTTrainer(tiny_qwen2(tokenizer), args, train_dataset=data, processing_class=tokenizer)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    trainer.save_model()
    return tmp_path / "tiny"


def test_lora_on_one_gpu_scaled_down(tmp_path, guessing_model, problems):
    committed, scaled = read(GPU), read(GPU)
    sizes = {"max_steps": 3, "gradient_accumulation_steps": 2, "max_completion_length": 12, "lora_rank": 4}
    names = {"model_name": str(guessing_model), "dataset_name": str(problems), "benchmarks": [f"mine={problems}@4"]}
    set_parameters(scaled, sizes | names | {"learning_rate": 1e-3, "use_cpu": True})
    executed = execute(scaled, tmp_path)
    pairs = list(zip(executed.cells, committed.cells, strict=True))
    changed = [cell.metadata.get("tags") for cell, original in pairs if cell.source != original.source]
    assert changed == [["parameters"]]
    assert sum(pictures(executed)) == 1
    shown = "".join(output.text for output in outputs(executed) if output.get("name") == "stdout")
    assert "After 0 optimizer steps" in shown and "After 3 optimizer steps" in shown
    assert len([line for line in shown.splitlines() if line.startswith("avg@4 ")]) == 2  # rows of the tables
    entries = (tmp_path / "runs/lora/benchmarks/step-0/completions.jsonl").read_text().splitlines()
    right = [json.loads(entry)["correct"] for entry in entries]
    assert len(right) == 8 * 4 and 0 < sum(right) < 32
    adapter = load_file(tmp_path / "runs/lora/adapter_model.safetensors")
    assert all(torch.count_nonzero(value) for name, value in adapter.items() if "lora_B" in name)  # 0 at first

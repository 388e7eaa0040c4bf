"""Train the real trainer on completions that are given, and write down what happened; run alone or under a launcher.

    accelerate launch ... fixed_rollout.py CASES.json OUT.json

`CASES.json` holds a list of cases: `fields` of the configuration, `steps` to train, `variant` of the completions,
`two_valued` rewards, a `judge` (a model that rewards), `lora`, a `dry_run` before the training (true, `refused`, or
`alone` without a training), `raises`, the error of the training, and `out_of_memory`, the diagnostics that fail on
rank 1. `OUT.json` gets, for each, the weight and the final advantage of every token by completion, the losses, the
rows of rank 0's micro-batches, and the change of the parameters.
"""

import itertools
import json
import os
import random
import sys
from contextlib import contextmanager
from unittest.mock import Mock, patch

import pytest
import torch
import torch.distributed as dist
from accelerate.utils import gather_object
from datasets import Dataset
from peft import LoraConfig
from support.engines import let_fsdp_run_on_cpu, let_zero3_shard_small_parameters
from support.groups import Given, is_correct, numbered
from support.runs import CHARACTERS, TINY_RUN, Watching
from transformers import PrinterCallback

from steer_trl import SteerGRPOConfig
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.support.exceptions import CannotContinueError
from steer_trl.support.system import leave_group
from steer_trl.trainer.checks import sampled
from steer_trl.trainer.dry_run import dry_run
from steer_trl.trainer.forward import head_pass
from steer_trl.trainer.log import step_log, token_samples

COMPLETIONS = 16
OURS = ("quadrants/", "entropy/", "weights/", "clip/", "shaping/", "dynamic_sampling/", "sampled_as_scored")
FIRST = ("grad_norm", "entropy", "reward", "shaping/relative_change")
torch.set_num_threads(1)


def completion(number, variant="plain"):
    """Tokens of the completion at a global position; those of a group begin alike. In `even` all are as long.

    In `short` those of the first half, which are one rank's of two, have a single token.
    """
    dice = random.Random(number)
    if variant == "short" and number < COMPLETIONS // 2:
        return [4 + number]
    return [4, 5, 4, *(dice.randrange(4, 14) for _ in range(6 if variant == "even" else 2 + number % 7))]


def rollout(variant):
    """Give each rank its part of the completions; in `masked`, a tool wrote all of the second half.

    In `by_prompt` the completions are the prompt's, whenever and wherever it is drawn; half of the groups are flat.
    """
    if variant == "by_prompt":
        return Given()

    def give(prompts, trainer):
        first = trainer.accelerator.process_index * len(prompts)
        ids = [completion(first + i, variant) for i in range(len(prompts))]
        given = {"prompt_ids": [[6, 7]] * len(ids), "completion_ids": ids, "logprobs": [[[0.0]] * len(x) for x in ids]}
        if variant == "masked":
            given["env_mask"] = [[int(first + i < COMPLETIONS // 2)] * len(x) for i, x in enumerate(ids)]
        return given

    return give


def reward(variant, two_valued):
    """Different rewards in a group, or two.

    In `one_sided`, the groups of the second half have no advantages. In `other_value`, each half has two values of
    its own.
    """
    if variant == "by_prompt":
        return is_correct

    def score(completion_ids, **_):
        whole = {tuple(completion(number, variant)): number for number in range(2 * COMPLETIONS)}
        numbers = [whole[tuple(ids)] for ids in completion_ids]
        flat = variant == "one_sided"
        rewards = [0.0 if flat and n >= COMPLETIONS // 2 else float((7 * n) % 5) + 0.1 * n for n in numbers]
        if variant == "other_value":
            return [(1.5 if n < COMPLETIONS // 2 else 3.0) * (x > 2) for n, x in zip(numbers, rewards, strict=True)]
        return [3.0 * (x > 2) for x in rewards] if two_valued else rewards

    return score


class Recording(Watching):
    """Keeps the weights of each optimizer step under the tokens they belong to, and counts the bytes per token that
    are gathered from other ranks for methods that compare completions."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.rows = []
        self.shape, self.parts.step.shape = self.parts.step.shape, self.record
        self.finish, self.parts.rollouts.finish = self.parts.rollouts.finish, self.count_gathered_bytes

    def record(self, inputs, score):
        self.rows.append(len(inputs["completion_ids"]))
        before, logps = inputs["advantages"].clone(), score.logps
        self.shape(inputs, score)
        before, after = ((x if x.dim() > 1 else x[:, None]).expand_as(logps) for x in (before, inputs["advantages"]))
        weights = torch.where(before == after, 1.0, after / before)
        for row, ids in enumerate(inputs["completion_ids"]):
            kept = inputs["completion_mask"][row].bool()
            numbers = (x[kept].tolist() for x in (ids, weights[row], after[row]))
            self.recorded.append((self.state.global_step, *numbers))

    def count_gathered_bytes(self, *args, **kwargs):
        gather = self.accelerator.gather

        def counting(tensor):
            self.gathered_bytes += tensor.element_size() if tensor.dim() == 2 and tensor.size(1) > 1 else 0
            return gather(tensor)

        self.accelerator.gather = counting
        try:
            return self.finish(*args, **kwargs)
        finally:
            self.accelerator.gather = gather


@contextmanager
def running_out_of_memory(trainer, part):
    """Let a `part` of the diagnostics fail on rank 1, as the allocator does: with other numbers each time."""
    attempts = itertools.count()

    def fail(*_, **__):
        raise torch.OutOfMemoryError(f"Tried to allocate {next(attempts)} bytes")

    if part is None or trainer.accelerator.process_index != 1:
        yield
    elif part == "statistics":  # of every micro-batch
        names = [f"{name}_statistics" for name in ("sanity", "shaping", "weight", "token", "change")]
        with patch.multiple(step_log, **{name: Mock(side_effect=fail, __name__=name) for name in names}):
            yield
    elif part == "tokens":
        with patch.object(token_samples, "token_numbers", fail):
            yield
    elif part == "sampled":
        with patch.object(sampled, "sum_gaps", fail):
            yield
    else:  # the pass of the head, which gives the predicted one
        with patch.object(head_pass, "add_fused_lm_head"), patch.object(head_pass.HeadOnly, "forward", fail):
            yield


def engine(trainer):
    """What the trainer really runs on."""
    plugin = trainer.accelerator.state.deepspeed_plugin
    stage = f" {plugin.zero_stage}" if plugin else ""
    return f"{trainer.accelerator.distributed_type.value}{stage} x {trainer.accelerator.num_processes}"


def run(case):
    """Train one case and return what happened, on every rank."""
    tokenizer = tiny_tokenizer(CHARACTERS)
    settings = TINY_RUN | {"output_dir": "out", "max_steps": case.get("steps", 1), "max_completion_length": 12}
    settings |= {"optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant", "max_grad_norm": 0.0}
    settings |= {"loss_type": "dapo", "shuffle_dataset": False}
    variant = case.get("variant", "plain")
    same = Dataset.from_dict({"prompt": ["1+1="] * 64})
    model = tiny_qwen2(tokenizer, use_cache=False)
    fields = case["fields"]
    if fields.get("beta") or "kl" in (fields.get("advantage_shaping"), fields.get("hold_entropy_by")):
        # TRL reads the reference model from where the model's configuration says. Its weights are the same.
        model.config._name_or_path = "reference"
    trainer = Recording(
        model=model,
        reward_funcs="judge" if case.get("judge") else reward(variant, case.get("two_valued")),
        args=SteerGRPOConfig(**settings | case["fields"]),
        train_dataset=numbered(case.get("prompts", 64)) if variant == "by_prompt" else same,
        processing_class=tokenizer,
        rollout_func=rollout(variant),
        peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM") if case.get("lora") else None,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.recorded, trainer.gathered_bytes = [], 0
    parameters = trainer.accelerator.unwrap_model(trainer.model).state_dict()
    start = {name: value.detach().clone() for name, value in parameters.items()}
    looks = case.get("dry_run")
    if looks == "alone":
        return {"numbers": dry_run(trainer, trains_later=False).numbers, "engine": engine(trainer)}
    if looks == "refused":
        with pytest.raises(CannotContinueError, match="FSDP"):
            trainer.dry_run()
    elif looks:
        assert trainer.dry_run().numbers
    if message := case.get("raises"):
        with pytest.raises(ValueError, match=message):
            trainer.train()
        return {"raised": gather_object([trainer.accelerator.process_index])}
    with running_out_of_memory(trainer, case.get("out_of_memory")):
        trainer.train()
    recorded = gather_object(trainer.recorded)
    state = trainer.accelerator.get_state_dict(trainer.model_wrapped) or {}
    # With SGD and a learning rate of 1, the difference is the sum of the steps' gradients.
    update = {name: (value.cpu().float() - start[name].float()).flatten().tolist() for name, value in state.items()}
    return {
        "weights": {f"{step} {ids}": weights for step, ids, weights, _ in recorded},
        "advantages": {f"{step} {ids}": advantages for step, ids, _, advantages in recorded},
        "losses": [log["loss"] for log in trainer.state.log_history if "loss" in log],
        "log": [{key: x for key, x in entry.items() if key.startswith(OURS)} for entry in trainer.state.log_history],
        "update": update,
        "first": {name: trainer.state.log_history[0].get(name) for name in FIRST},
        "scored": trainer.scored,
        "rows": trainer.rows,
        "gathered_bytes": trainer.gathered_bytes,
        "engine": engine(trainer),
    }


if __name__ == "__main__":
    let_fsdp_run_on_cpu()
    let_zero3_shard_small_parameters()
    cases, out = sys.argv[1:]
    with open(cases) as file:
        results = [run(case) for case in json.load(file)]
    if int(os.environ.get("RANK", 0)) == 0:
        with open(out, "w") as file:
            json.dump(results, file)
    if dist.is_initialized():
        dist.barrier()
    leave_group()

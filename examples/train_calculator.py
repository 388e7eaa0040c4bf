"""Teaches a small model to call a calculator, with TRL's `tools=` and STARE's token weights.

    python examples/train_calculator.py

It needs no download and no GPU: the model is a Qwen2 of 0.15 million parameters, made from scratch. Supervised
examples first show it two ways to answer `37*6`. One is to give up and write `?`, as half of the examples do. The
other is to write `<call>37*6</call>`, read the tool's reply and repeat it. Reinforcement learning then pays 1 for the
right product and 0 otherwise, so the model calls the tool more and more often.

Each trajectory is one completion: the call, the tool's output and the answer are tokens of one row. The tool's tokens
have no loss and no weight and enter no statistic, because the policy did not write them.
"""

import argparse
import ast
import operator
import random
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

CALL, END = "<call>", "</call>"
# Roles are written as one letter: u, a or t. The names of the tool and its argument are left out; other names would be
# written in full.
TEMPLATE = (
    "{% for message in messages %}<start>{{ message['role'][0] }}<end>{{ message['content'] }}"
    "{% for call in message['tool_calls'] or [] %}<call>"
    "{{ '' if call['function']['name'] == 'calculate' else call['function']['name'] }}"
    "{% for name, value in call['function']['arguments'].items() %}"
    "{{ '' if name == 'expression' else name }}{{ value }}{% endfor %}</call>{% endfor %}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<start>a<end>{% endif %}"
)
# Tells TRL how to find the calls in a completion.
RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<start>a<end>",
    "fields": {
        "tool_calls": {
            "open": CALL,
            "close": END,
            "repeats": True,
            "content": "text",
            "transform": {
                "type": "function",
                "function": {"name": "calculate", "arguments": {"expression": "{content}"}},
            },
        },
        "content": {"close": "<eos>", "content": "text"},
    },
}
ON_CPU = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False}
QUIET = {"logging_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}

OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def calculate(expression: str) -> str:
    """
    Calculate with whole numbers, +, - and *.

    Args:
        expression: the calculation, e.g. `37*46`, of at most 40 characters.

    Returns:
        The result.
    """

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            return OPERATIONS[type(node.op)](value(node.left), value(node.right))
        raise ValueError("only whole numbers, +, - and * are allowed")

    if len(expression) > 40:  # a long product could exhaust the machine's memory
        raise ValueError("at most 40 characters are allowed")
    return str(value(ast.parse(expression, mode="eval").body))


def calculator_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for each character and one for each end of a call."""
    tokenizer = tiny_tokenizer("?0123456789*+-uat erol:.,nldwymhcs{}'_")
    tokenizer.add_tokens([CALL, END])
    tokenizer.chat_template, tokenizer.response_template = TEMPLATE, RESPONSE
    return tokenizer


def problems(count: int, seed: int) -> list[str]:
    """Draw products of a two-digit and a one-digit number."""
    dice = random.Random(seed)
    return [f"{dice.randint(10, 99)}*{dice.randint(2, 9)}" for _ in range(count)]


def examples(count: int, seed: int) -> list[dict[str, str]]:
    """Return supervised examples: about half of them call the tool, and the others give up."""
    dice, rows = random.Random(seed), []
    for problem in problems(count, seed):
        calls = dice.random() < 0.5
        answer = calculate(problem) if calls else "?"
        turns = f"{CALL}{problem}{END}<eos><start>t<end>{answer}<eos><start>a<end>" if calls else ""
        rows.append({"prompt": f"<start>u<end>{problem}<eos><start>a<end>", "completion": f"{turns}{answer}<eos>"})
    return rows


def correct(prompts: list[Any], completions: list[Any], **_: Any) -> list[float]:
    """Return a reward of 1 for each completion whose last message is the correct product, and 0 for the others."""
    return [
        float(completion[-1]["role"] == "assistant" and completion[-1]["content"] == calculate(prompt[-1]["content"]))
        for prompt, completion in zip(prompts, completions, strict=True)
    ]


def supervised_start(output_dir: Path, steps: int, seed: int) -> Any:
    """Make a model and train it on `steps` batches of 64 supervised examples."""
    tokenizer = calculator_tokenizer()
    model = tiny_qwen2(tokenizer, seed, hidden_size=64, intermediate_size=192, num_hidden_layers=3)
    args = SFTConfig(
        str(output_dir),
        max_steps=steps,
        per_device_train_batch_size=64,
        learning_rate=3e-3,
        lr_scheduler_type="cosine",
        seed=seed,
        **ON_CPU,
        **QUIET,
    )
    data = Dataset.from_list(examples(64 * steps, seed))
    trainer = SFTTrainer(model, args, train_dataset=data, processing_class=tokenizer)
    trainer.train()
    return model


def reinforce(model: Any, output_dir: Path, steps: int, seed: int, **settings: Any) -> list[dict[str, float]]:
    """Train the model with the tool for `steps` optimizer steps of 128 completions, and return the log."""
    args = SteerGRPOConfig(
        str(output_dir),
        max_steps=steps,
        per_device_train_batch_size=128,
        num_generations=8,
        max_completion_length=32,
        max_tool_calling_iterations=1,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        seed=seed,
        **ON_CPU,
        **QUIET,
        **settings,
    )
    prompts = [[{"role": "user", "content": problem}] for problem in problems(16 * steps, seed + 1)]
    trainer = SteerGRPOTrainer(
        model,
        correct,
        args,
        Dataset.from_dict({"prompt": prompts}),
        processing_class=calculator_tokenizer(),
        tools=[calculate],
    )
    trainer.train()
    trainer.save_model()
    return trainer.state.log_history


def main() -> None:
    """Run supervised and reinforcement learning, and print how the reward and the share of calls change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, default=Path("runs/calculator"))
    parser.add_argument("--supervised_steps", type=int, default=500)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--advantage_shaping", default="stare")
    parser.add_argument("--dynamic_sampling", default="none")
    given = parser.parse_args()
    model = supervised_start(given.output_dir / "start", given.supervised_steps, given.seed)
    settings = {"advantage_shaping": given.advantage_shaping, "dynamic_sampling": given.dynamic_sampling}
    # The default target of 0.3 nats suits larger models. This model is held at 80 % of its initial entropy.
    if given.advantage_shaping == "stare":
        settings |= {"stare_target_entropy": 0.8, "stare_target_entropy_unit": "initial"}
    log = [row for row in reinforce(model, given.output_dir, given.steps, given.seed, **settings) if "reward" in row]
    for row in [*log[: -1 : max(len(log) // 8, 1)], *log[-1:]]:
        print(f"step {row['step']:3}  reward {row['reward']:.2f}  calls {row['tools/call_frequency']:.2f}")


if __name__ == "__main__":
    main()

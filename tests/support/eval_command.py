"""`steer-trl eval` on a tiny model, and changes to that model that make it another one."""

import json

from steer_trl.cli.eval_arguments import EvalArguments
from steer_trl.demo.tiny import tiny_tokenizer
from support.runs import CHARACTERS


def arguments(model, folder, benchmark, **others):
    """The arguments of a small evaluation."""
    sizes = {"max_tokens": 4, "batch_size": 32, "backend": "transformers"}
    return EvalArguments(str(model), str(folder), [benchmark], **sizes | others)


def accept(completions, **_):
    """A judge that accepts everything."""
    return [1.0] * len(completions)


def other_template(folder):
    """Change the chat template of the model in a folder."""
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text() + "1")


def other_tokenizer(folder):
    """Change its tokenizer."""
    tiny_tokenizer(CHARACTERS).save_pretrained(folder)


def other_eos(folder):
    """Give it another end of a text."""
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": [1, 5]}))

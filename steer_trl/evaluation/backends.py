"""Two back ends that draw completions from a saved model, one with vLLM and one with Transformers."""

import importlib.util
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import PartialState
from huggingface_hub import try_to_load_from_cache
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BatchEncoding,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import CONFIG_NAME

from steer_trl.data.lengths import check_tokenizer
from steer_trl.evaluation.sampling import Completion, Prompt, Sampling
from steer_trl.generation.faster import generate_faster
from steer_trl.rewards.answers import begins_mark
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.randomness import keep_random_state


class TransformersGenerator:
    """A back end that draws completions with `model.generate`, and computes the prompt of several samples once.

    Under `accelerate launch` each process draws a share of the completions. `commit` is the model's
    commit on the Hub; for a LoRA adapter, it is the base model's commit. It is `None` for a model
    from a local folder and for a model in memory.
    """

    is_collective = needs_equal_batches = False

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, commit: str | None = None) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.commit = commit
        self.chat_template_kwargs: Mapping[str, Any] = {}
        self.eos_token_ids = _to_list(model.generation_config.eos_token_id) + _to_list(tokenizer.eos_token_id)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        self._tokens = {"eos_token_id": self.eos_token_ids, "pad_token_id": tokenizer.pad_token_id}
        # Remove the model's own sampling defaults, such as a top-k of 20, because `generate` would add them.
        model.generation_config = GenerationConfig(**self._tokens)

    @classmethod
    def load(cls, name: str, revision: str | None = None, dtype: str = "auto") -> "TransformersGenerator":
        """Load a model onto this process's device. If peft is installed, `name` may also be an adapter."""
        model = AutoModelForCausalLM.from_pretrained(name, revision=revision, dtype=dtype)
        base = model.config.name_or_path
        commit = find_commit(base, revision if base == name else None)
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        check_tokenizer(tokenizer, name)
        return cls(model.to(PartialState().device), tokenizer, commit)

    @torch.no_grad()
    def __call__(self, prompts: Sequence[Prompt], sampling: Sampling, seed: int) -> list[Completion]:
        """Draw one completion for each prompt."""
        token_ids = prompt_token_ids(self.tokenizer, prompts, **self.chat_template_kwargs)
        inputs = self.tokenizer.pad({"input_ids": token_ids}, padding_side="left", return_tensors="pt")
        device = self.model.device
        with keep_random_state(device):
            torch.manual_seed(seed)
            config = GenerationConfig(**generation_settings(sampling), **self._tokens)
            outputs = generate_faster(self.model, **inputs.to(device), generation_config=config)
        completions = outputs[:, inputs["input_ids"].size(1) :].tolist()
        return [cut_at_eos(ids, self.eos_token_ids, self.tokenizer) for ids in completions]


def find_commit(name: str | None, revision: str | None = None) -> str | None:
    """Return the Hub commit of a model that was just loaded, or `None` if it is a local folder."""
    if not name or Path(name).is_dir():
        return None
    file = try_to_load_from_cache(name, CONFIG_NAME, revision=revision)
    return Path(file).parent.name if isinstance(file, str) else None


class VLLMGenerator:
    """A back end that draws completions with a vLLM engine, each completion with a different seed."""

    is_collective = needs_equal_batches = False

    def __init__(
        self,
        name: str,
        revision: str | None = None,
        dtype: str = "auto",
        tensor_parallel_size: int = 1,
        gpu_memory_utilization: float = 0.9,
        max_model_length: int | None = None,
    ) -> None:
        if not has_vllm():
            raise InvalidValueError("backend='vllm' needs vLLM, which is not installed: pip install 'steer_trl[vllm]'")
        from vllm import LLM

        self.engine = LLM(
            name,
            revision=revision,
            tokenizer_revision=revision,
            dtype=dtype,
            tensor_parallel_size=tensor_parallel_size,
            gpu_memory_utilization=gpu_memory_utilization,
            max_model_len=max_model_length,
            # Chunked prefill is off on CPU, because vLLM 0.31 draws a token in the middle of a chunked prompt there,
            # and cannot undo a seeded draw.
            enable_chunked_prefill=None if torch.accelerator.is_available() else False,
        )
        self.tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        self.chat_template_kwargs: Mapping[str, Any] = {}
        check_tokenizer(self.tokenizer, name)
        self.commit = find_commit(name, revision)
        self.eos_token_ids = read_eos_token_ids(name, revision) + _to_list(self.tokenizer.eos_token_id)

    def __call__(self, prompts: Sequence[Prompt], sampling: Sampling, seed: int) -> list[Completion]:
        """Draw one completion for each prompt."""
        from vllm import SamplingParams

        settings = {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
        outputs = self.engine.generate(
            [
                {"prompt_token_ids": ids}
                for ids in prompt_token_ids(self.tokenizer, prompts, **self.chat_template_kwargs)
            ],
            [
                SamplingParams(**settings, max_tokens=sampling.max_tokens, seed=seed * 1_000_003 + i)
                for i in range(len(prompts))
            ],
            use_tqdm=False,
        )
        completions = [output.outputs[0] for output in outputs]
        marks = find_marks(self.tokenizer)
        return [
            Completion(
                # vLLM's text lacks marks that are special tokens.
                drawn.text if marks.isdisjoint(drawn.token_ids) else decode(drawn.token_ids, self.tokenizer),
                len(drawn.token_ids),
                drawn.finish_reason == "length",
            )
            for drawn in completions
        ]


def has_vllm() -> bool:
    """Return whether vLLM is installed."""
    return importlib.util.find_spec("vllm") is not None


def prompt_token_ids(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt], **chat_template_kwargs: Any
) -> list[list[int]]:
    """Return the token ids of each prompt. Conversations are formatted with the chat template."""
    token_ids: list[list[int]] = []
    # A batch may hold problems that are texts and problems that are conversations.
    for is_text, part in groupby(prompts, lambda prompt: isinstance(prompt, str)):
        if is_text:
            token_ids += cast(BatchEncoding, tokenizer(cast(list[str], list(part))))["input_ids"]
        else:
            token_ids += _encode_conversations(tokenizer, list(part), **chat_template_kwargs)
    return token_ids


def _encode_conversations(
    tokenizer: PreTrainedTokenizerBase, conversations: list[Any], **chat_template_kwargs: Any
) -> list[list[int]]:
    if tokenizer.chat_template is None:
        raise InvalidValueError(
            f"the tokenizer {tokenizer.name_or_path!r} has no chat template, but the prompts are "
            "conversations. Add the one the model was trained with to its folder, as chat_template.jinja."
        )
    encoded = tokenizer.apply_chat_template(
        conversations, add_generation_prompt=True, tokenize=True, **chat_template_kwargs
    )
    return cast(BatchEncoding, encoded)["input_ids"]


def generation_settings(sampling: Sampling) -> dict[str, Any]:
    """Return the [`~transformers.GenerationConfig`] fields that correspond to the sampling settings."""
    if sampling.temperature == 0:
        return {"max_new_tokens": sampling.max_tokens, "do_sample": False}
    sampling_settings = {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
    return {"max_new_tokens": sampling.max_tokens, "do_sample": True, **sampling_settings}


def cut_at_eos(ids: list[int], eos_token_ids: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> Completion:
    """Cut a completion after its first end-of-sequence token. If it has none, it counts as truncated."""
    end = next((i + 1 for i, token in enumerate(ids) if token in eos_token_ids), None)
    ids = ids[:end]
    return Completion(decode(ids, tokenizer), len(ids), end is None)


def decode(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the text of a completion without special tokens, except for the marks of a thought.

    The reward needs these marks, such as gpt-oss's `<|channel|>`, to tell a thought from the answer.
    """
    marks = find_marks(tokenizer)
    if marks.isdisjoint(ids):
        return tokenizer.batch_decode([list(ids)], skip_special_tokens=True)[0]
    dropped = _special_tokens(tokenizer).keys() - marks
    return tokenizer.batch_decode([[token for token in ids if token not in dropped]])[0]


# A tokenizer may have hundreds of special tokens, and every completion is decoded by itself.
@lru_cache(maxsize=1)
def find_marks(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Return the ids of the special tokens that are marks of a thought."""
    return {token for token, text in _special_tokens(tokenizer).items() if begins_mark(text)}


def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    """Return the special tokens, which decoding drops, as a mapping from ids to texts."""
    named = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    try:
        added = tokenizer.added_tokens_decoder
    except NotImplementedError:
        # A tokenizer of mistral-common names all of its special tokens.
        return named
    return named | {token: str(text) for token, text in added.items() if text.special}


def read_eos_token_ids(name: str, revision: str | None = None) -> list[int]:
    """Return the ids of a saved model's end-of-sequence tokens, without loading its weights."""
    try:
        generation_config = GenerationConfig.from_pretrained(name, revision=revision or "main")
    except OSError:
        # The model has no generation_config.json.
        generation_config = GenerationConfig.from_model_config(AutoConfig.from_pretrained(name, revision=revision))
    return _to_list(generation_config.eos_token_id)


def _to_list(ids: int | list[int] | None) -> list[int]:
    return [] if ids is None else ids if isinstance(ids, list) else [ids]

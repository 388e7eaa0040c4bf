"""Whether the model can read the prompts: conversations need a chat template, and the longest has to fit its context.

Both are looked up in its tokenizer and its configuration, before its weights are loaded.
"""

import logging
from typing import Any

from datasets import Dataset
from transformers import AutoConfig, AutoProcessor, PreTrainedConfig
from trl.data_utils import is_conversational
from trl.trainer.utils import get_config_model_id

from steer_trl.config import SteerGRPOConfig

logger = logging.getLogger(__name__)

LOOKED_AT = 8  # the longest prompts in characters; among them is the longest in tokens, or nearly


def prompt_complaints(arguments: dict[str, Any], args: SteerGRPOConfig | None) -> list[str]:
    """Complain about conversations for a tokenizer without a chat template; warn of prompts that are too long.

    `arguments` are those of a [`~trl.GRPOTrainer`]. What cannot be looked at is left to TRL.
    """
    dataset, model = arguments.get("train_dataset"), arguments["model"]
    if not isinstance(dataset, Dataset) or not len(dataset) or "prompt" not in dataset.column_names:
        return []
    prompts = dataset["prompt"]
    is_chat = is_conversational({"prompt": prompts[0]})
    loading = {} if args is None else {"trust_remote_code": args.trust_remote_code}
    name = model if isinstance(model, str) else get_config_model_id(model.config)
    try:
        config = AutoConfig.from_pretrained(model, **loading) if isinstance(model, str) else model.config
        processing = arguments.get("processing_class") or AutoProcessor.from_pretrained(name, **loading)
    except Exception:  # TRL will load them as well, with all that it knows, and report it
        return []
    tokenizer = getattr(processing, "tokenizer", processing)
    if is_chat and not (getattr(processing, "chat_template", None) or getattr(tokenizer, "chat_template", None)):
        return [
            f"the tokenizer of {name!r} has no chat template, but the prompts are conversations (lists of messages). "
            "Train from the instruction-tuned model, save the template that the model was trained with to its folder "
            "as chat_template.jinja, or make the prompts plain texts."
        ]
    if args is None or args.process_index == 0:
        _warn_of_long_ones(list(prompts), tokenizer, config, is_chat)
    return []


def _warn_of_long_ones(prompts: list[Any], tokenizer: Any, config: PreTrainedConfig, is_chat: bool) -> None:
    context = getattr(config.get_text_config(), "max_position_embeddings", None)
    texts = sorted((_text(prompt) for prompt in prompts), key=len)[-LOOKED_AT:]
    if not context or not texts or len(texts[-1].encode(errors="replace")) < context:  # a token is a byte or more
        return
    longest = max(len(ids) for ids in tokenizer(texts)["input_ids"])
    if longest >= context:
        logger.warning(
            "The longest prompt of train_dataset has %d tokens%s, and the model's context is %d: it reads what is "
            "beyond at positions it was not trained on, and slowly. Leave out the long rows, or use a model with "
            "a longer context.",
            longest,
            " before its chat template" if is_chat else "",
            context,
        )


def _text(prompt: Any) -> str:
    """The text of a prompt; of a conversation that of its messages, without images."""
    if isinstance(prompt, str):
        return prompt
    contents = [message.get("content") for message in prompt if isinstance(message, dict)]
    parts = [part for content in contents for part in (content if isinstance(content, list) else [content])]
    return "\n".join(str(part.get("text", "") if isinstance(part, dict) else part or "") for part in parts)

"""A tiny model that sees pictures, and its processor."""

import torch
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)

from steer_trl.demo.tiny import CHAT_TEMPLATE, tiny_qwen2, tiny_tokenizer

PICTURE = "<image>"
PARTS = "{% for part in message['content'] %}{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %}"
EITHER = "{% if message['content'] is string %}{{ message['content'] }}{% else %}" + PARTS + "{% endif %}"
TEMPLATE = CHAT_TEMPLATE.replace("{{ message['content'] }}", EITHER)


def tiny_processor():
    """The processor of [`tiny_llava`]: pictures of 8 by 8, one token of the text for each of its patches."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<start>", "<end>", PICTURE]})
    size = {"height": 8, "width": 8}
    pictures = CLIPImageProcessorPil(size=size, crop_size=size, do_center_crop=False)
    return LlavaProcessor(
        image_processor=pictures,
        tokenizer=tokenizer,
        patch_size=4,
        num_additional_image_tokens=1,  # of the class, which "default" leaves out
        vision_feature_select_strategy="default",
        chat_template=TEMPLATE,
        image_token=PICTURE,
    )


def tiny_llava(processor):
    """A LLaVA whose language model is a tiny Qwen2: four patches a picture."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlavaConfig(
        text_config=tiny_qwen2(processor.tokenizer, tie_word_embeddings=False).config,
        vision_config=CLIPVisionConfig(**sizes, image_size=8, patch_size=4, projection_dim=16),
        image_token_id=processor.tokenizer.convert_tokens_to_ids(PICTURE),
        image_seq_length=4,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlavaForConditionalGeneration(config)

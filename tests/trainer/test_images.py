"""Images reach the forward pass that is trained on, whether in a column or inside of a prompt's messages."""

import pytest
import torch
from datasets import Dataset, Features, Image, Value
from PIL.Image import new as new_picture
from support.runs import Watching, same_parameters
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)

from steer_trl.tiny import tiny_qwen2, tiny_tokenizer

PICTURE = "<image>"
TEMPLATE = (
    "{% for message in messages %}<start>{{ message['role'] }}<end>"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %}"
    "{% endif %}<eos>{% endfor %}{% if add_generation_prompt %}<start>assistant<end>{% endif %}"
)
PART = {"type": Value("string"), "image": Image(), "text": Value("string")}
IN_MESSAGES = Features({"prompt": [{"role": Value("string"), "content": [PART]}]})
SHADES = (0, 60, 120, 180, 220, 250)


@pytest.fixture(scope="module")
def processor():
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<start>", "<end>", PICTURE]})
    pictures = CLIPImageProcessorPil(
        size={"height": 8, "width": 8}, crop_size={"height": 8, "width": 8}, do_center_crop=False
    )
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


def rows(kind):
    """A picture each, of a grey of its own; "inline" stands inside of the message, "image" in a column."""
    pictures = [new_picture("RGB", (8, 8), (shade,) * 3) for shade in SHADES]
    if kind == "inline":
        contents = [[{"type": "image", "image": picture}, {"type": "text", "text": "?"}] for picture in pictures]
        return Dataset.from_dict(
            {"prompt": [[{"role": "user", "content": content}] for content in contents]}, features=IN_MESSAGES
        )
    prompts = [[{"role": "user", "content": "?"}]] * len(pictures)
    return Dataset.from_dict({"prompt": prompts, kind: [[x] for x in pictures] if kind == "images" else pictures})


def alternating(completions, **_):
    return [float(i % 2) for i in range(len(completions))]


def for_even_rows(completions, row, **_):
    return [float(i % 2 and number % 2 == 0) for i, number in enumerate(row)]


@pytest.mark.parametrize("kind", ["inline", "image", "images"])
def test_dynamic_sampling_trains_with_the_images_as_without_it(train, processor, kind):
    arguments = {"processing_class": processor, "reward_funcs": alternating, "train_dataset": rows(kind)}
    plain, trainer = (
        train(Watching, model=tiny_llava(processor), trainer_arguments=arguments, max_steps=2, dynamic_sampling=switch)
        for switch in ("none", "resample")
    )
    for expected, rollout in zip(plain.written, trainer.written, strict=True):
        assert torch.equal(rollout["pixel_values"], expected["pixel_values"])
    assert same_parameters(plain, trainer)
    assert len(plain.written[0]["pixel_values"].unique()) > 1


@pytest.mark.parametrize("kind", ["inline", "image"])
def test_groups_of_several_attempts_keep_their_own_images(train, processor, kind):
    dataset = rows(kind).add_column("row", range(len(SHADES)))
    arguments = {"processing_class": processor, "reward_funcs": for_even_rows, "train_dataset": dataset}
    settings = {"max_steps": 1, "shuffle_dataset": False, "dynamic_sampling": "resample"}
    trainer = train(Watching, model=tiny_llava(processor), trainer_arguments=arguments, **settings)
    images = dataset["image"] if kind == "image" else [turn["content"][0]["image"] for (turn,) in dataset["prompt"]]
    pictures = processor.image_processor(images=list(images), return_tensors="pt")["pixel_values"]
    assert torch.equal(trainer.written[0]["pixel_values"], pictures[[0] * 4 + [2] * 4])

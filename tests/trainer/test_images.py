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

from steer_trl.tiny import CHAT_TEMPLATE, tiny_qwen2, tiny_tokenizer

PICTURE = "<image>"
PARTS = "{% for part in message['content'] %}{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %}"
EITHER = "{% if message['content'] is string %}{{ message['content'] }}{% else %}" + PARTS + "{% endif %}"
TEMPLATE = CHAT_TEMPLATE.replace("{{ message['content'] }}", EITHER)
PART = {"type": Value("string"), "image": Image(), "text": Value("string")}
IN_MESSAGES = Features({"prompt": [{"role": Value("string"), "content": [PART]}]})
SHADES = (0, 60, 120, 180, 220, 250)
PICTURES = [new_picture("RGB", (8, 8), (shade,) * 3) for shade in SHADES]


@pytest.fixture(scope="module")
def processor():
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


def rows(kind):
    """A picture each, of a grey of its own; "inline" stands inside of the message, "image" in a column."""
    if kind == "inline":
        contents = [[{"type": "image", "image": picture}, {"type": "text", "text": "?"}] for picture in PICTURES]
        prompts = [[{"role": "user", "content": content}] for content in contents]
        return Dataset.from_dict({"prompt": prompts}, features=IN_MESSAGES)
    prompts = [[{"role": "user", "content": "?"}]] * len(PICTURES)
    return Dataset.from_dict({"prompt": prompts, kind: [[x] for x in PICTURES] if kind == "images" else PICTURES})


def for_even_rows(completions, row, **_):
    return [float(i % 2 and number % 2 == 0) for i, number in enumerate(row)]


@pytest.mark.parametrize("kind", ["inline", "image", "images"])
def test_images_stay_with_their_groups(train, processor, kind):
    dataset = rows(kind).add_column("row", range(len(SHADES)))

    def run(numbers, switch):
        data = dataset.select(numbers)
        arguments = {"processing_class": processor, "reward_funcs": for_even_rows, "train_dataset": data}
        settings = {"max_steps": 1, "shuffle_dataset": False, "dynamic_sampling": switch}
        return train(Watching, model=tiny_llava(processor), trainer_arguments=arguments, **settings)

    plain, once, twice = run([0, 2], "none"), run([0, 2], "resample"), run(range(6), "resample")
    pictures = processor.image_processor(images=PICTURES, return_tensors="pt")["pixel_values"]
    assert len(pictures.flatten(1).unique(dim=0)) == len(SHADES)
    for trainer in (plain, once, twice):
        assert torch.equal(trainer.written[0]["pixel_values"], pictures[[0] * 4 + [2] * 4])
    assert same_parameters(plain, once)


def test_images_keep_their_padding(train, processor, caplog):
    """Whatever a rank's rollout holds, so that all ranks agree."""
    arguments = {"processing_class": processor, "reward_funcs": for_even_rows}
    arguments["train_dataset"] = rows("image").add_column("row", range(len(SHADES)))
    settings = {"max_steps": 1, "advantage_shaping": "steer", "trainer_arguments": arguments}
    padded, skipping = (
        train(Watching, model=tiny_llava(processor), **settings, skip_padding=x) for x in (False, True)
    )
    assert same_parameters(padded, skipping)
    assert "padding stays" in caplog.text and not skipping.shaping.ordering.is_on

"""Images reach the forward pass that is trained on, whether in a column or inside of a prompt's messages."""

import pytest
import torch
from datasets import Dataset, Features, Image, Value
from PIL.Image import new as new_picture
from support.pictures import tiny_llava, tiny_processor
from support.runs import Watching, same_parameters

PART = {"type": Value("string"), "image": Image(), "text": Value("string")}
IN_MESSAGES = Features({"prompt": [{"role": Value("string"), "content": [PART]}]})
SHADES = (0, 60, 120, 180, 220, 250)
PICTURES = [new_picture("RGB", (8, 8), (shade,) * 3) for shade in SHADES]


@pytest.fixture(scope="module")
def processor():
    return tiny_processor()


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
    assert "padding stays" in caplog.text and not skipping.parts.ordering.is_on

"""A tokenizer is whole if it has more than its special tokens, whatever it can write."""

import pytest
from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

from steer_trl.data.lengths import check_tokenizer
from steer_trl.demo.tiny import tiny_tokenizer
from steer_trl.support.exceptions import InvalidValueError


@pytest.mark.parametrize("characters", ["ab>", "ACGT", "1", "\u266a\u266b", "a"])
def test_any_alphabet_is_a_vocabulary(characters):
    check_tokenizer(tiny_tokenizer(characters), "")


@pytest.mark.parametrize("name", ["", "org/model"])
def test_a_tokenizer_without_files_is_refused(name):
    with pytest.raises(InvalidValueError, match="vocabulary") as error:
        check_tokenizer(Qwen2Tokenizer(), name)
    assert ("''" in str(error.value)) is False and name in str(error.value)


def test_the_check_is_of_the_tokens_and_not_of_a_text():
    letters = tiny_tokenizer("xyz")
    assert isinstance(letters, PreTrainedTokenizerFast) and len(letters.get_vocab()) > len(letters.all_special_ids)

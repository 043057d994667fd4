"""The texts that two programs are compared by."""

import pytest

from clearhead.base.errors import InputError
from clearhead.export.texts import read_texts
from clearhead.text.symbols import EOS
from tests.unit.recipes.tiny import tiny_tokenizers


@pytest.mark.parametrize(("positions", "most"), [(None, 128), (40, 10), (4, 1), (1, 1)])
def test_a_text_is_cut_to_a_quarter_of_the_positions_and_never_to_nothing(positions: int | None, most: int) -> None:
    tokenizer = tiny_tokenizers().source
    text = "the cat sat on the mat " * 100
    assert read_texts(tokenizer, ["", text], positions) == [[*tokenizer.encode(text)[:most], EOS]]


@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_nothing_to_compare_by_is_told(texts: list[str]) -> None:
    with pytest.raises(InputError, match="no text to compare by"):
        read_texts(tiny_tokenizers().source, texts, None)

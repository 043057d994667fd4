"""The line-up is matched: counted on models that are really built, not on the counts that chose their widths."""

import pytest

from clearhead.base.errors import InputError
from clearhead.models.build import build
from clearhead.recipes.compare.lineup import FULL, LINE_UP, REFERENCE, choose, solved
from clearhead.recipes.run_config import resolve_model

BY_NAME = {entry.name: entry for entry in LINE_UP}


def numbers(name: str) -> int:
    table = solved(BY_NAME[name], FULL)
    model = build(resolve_model(table, FULL.vocab_size, FULL.vocab_size, True), seed=1)
    return sum(each.numel() for each in {id(p): p for p in model.parameters()}.values())


@pytest.mark.parametrize("name", BY_NAME)
def test_every_model_is_as_large_as_the_transformer_within_three_in_a_hundred_but_for_learnt_positions(
    name: str,
) -> None:
    # The Transformer's variants are the same model; learnt positions are what they add, on both sides.
    extra = 2 * FULL.d_model * (FULL.max_length + 1) if name == "transformer-learned" else 0
    reference = numbers(REFERENCE)
    assert abs(numbers(name) - extra - reference) <= 0.03 * reference


def test_the_reference_comes_first_so_that_the_paired_tests_find_it() -> None:
    assert LINE_UP[0].name == REFERENCE
    assert len(BY_NAME) == len(LINE_UP)


def test_heads_share_one_width() -> None:
    # Constant compute: d is split among the heads (Vaswani et al. 2017, Table 3, row A).
    for heads in (1, 2, 8, 16):
        table = solved(BY_NAME[f"transformer-{heads}-head{'s' * (heads > 1)}"], FULL)
        assert table["attention"] == {"heads": heads}
        assert table["d_model"] == FULL.d_model


def test_choosing_keeps_the_order_of_the_line_up_and_names_what_is_not_there() -> None:
    assert [entry.name for entry in choose(("luong", "seq2seq"), quick=True)] == ["seq2seq", "luong"]
    assert len(choose((), quick=True)) < len(choose((), quick=False)) == len(LINE_UP)
    with pytest.raises(InputError, match=r"--only rnnserch: no model .*did you mean 'rnnsearch'"):
        choose(("rnnserch",), quick=False)

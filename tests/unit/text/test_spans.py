"""Where tokens stand: what the ids spell at their places, put together, is the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure
from clearhead.text.spans import source_spans, spelt, word_at
from clearhead.text.symbols import UNK
from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

PAIRS = [("the cat sat on the mat", "die Katze sass auf der Matte"), ("a dog ran", "ein Hund lief")] * 4


def made(**values: object) -> Tokenizers:
    return Tokenizers.train(TokenizerConfig(**values), lambda: PAIRS)  # type: ignore[arg-type]


BYTES = made(vocab_size=300)
LOSSY = made(vocab_size=40, byte_fallback=False)
WORDS = made(kind="word", vocab_size=12, byte_fallback=False)


@given(st.text(alphabet="the cat\u00e9\u4e2d\U0001f600 \u3000\n", max_size=30))
def test_a_token_belongs_to_the_word_in_which_its_first_letter_stands(text: str) -> None:
    ids = BYTES.source.encode(text)
    written, spans = spelt(BYTES.source, ids)
    assert written == text == BYTES.source.decode(ids)
    assert source_spans(BYTES.source, ids, text) == spans
    # Independently: grow the text a token at a time, and count the words that have begun.
    for end, word in enumerate(word_at(text, spans), 1):
        begun = len(BYTES.source.decode(ids[:end]).rstrip("\ufffd").split())
        left = len(text.split())
        if word is not None and begun and text[spans[end - 1][0] : spans[end - 1][1]].strip():
            assert word in (begun - 1, begun, max(0, begun - 2))
            assert 0 <= word < left
    starts = [start for start, _ in spans]
    assert starts == sorted(starts)


def test_words_by_hand() -> None:
    text = "the  cat\u3000ran "
    assert word_at(text, [(0, 3), (3, 5), (5, 8), (8, 9), (9, 12), (12, 13)]) == [0, 1, 1, 2, 2, None]


def test_what_cannot_be_spelt_is_found_between_its_neighbours() -> None:
    text = "the \u4e2d\u6587 cat \u4e2d"
    tokenizer = LOSSY.source
    ids = tokenizer.encode(text)
    assert UNK in ids
    spans = source_spans(tokenizer, ids, text)
    unknown = [text[start:end] for (start, end), token in zip(spans, ids, strict=True) if token == UNK]
    assert unknown == ["\u4e2d\u6587", "\u4e2d"]
    assert [word_at(text, spans)[place] for place, token in enumerate(ids) if token == UNK] == [1, 3]


def test_unknown_words_are_replaced_where_they_stand() -> None:
    target = WORDS.target
    ids = target.encode("die Xaver der Yps")
    assert ids.count(UNK) >= 2
    known = [number for number, token in enumerate(ids) if token != UNK]
    text, spans = spelt(target, ids, [f"w{number}" for number in range(ids.count(UNK))])
    assert len(text.split()) == 4
    assert text == target.decode(ids).replace("\u2047", "w{}").format(*range(ids.count(UNK)))
    assert word_at(text, spans) == [0, 1, 2, 3]
    assert known


# ------------------------------------------------------------------------------------------- the tokenizer of words


def test_a_tokenizer_of_words_keeps_the_most_frequent_and_knows_nothing_else() -> None:
    tokenizer = WORDS.source
    ids = tokenizer.encode("the unheard unseen cat  sat")
    assert len(ids) == 5
    assert ids[1] == ids[2] == UNK  # not one for both, as SentencePiece has it
    assert tokenizer.pieces(ids)[0] == "\u2581the"
    assert tokenizer.decode(ids).split()[1:3] == ["\u2047", "\u2047"]
    assert tokenizer.encode_all(["the cat", "", " the"]) == [tokenizer.encode(each) for each in ("the cat", "", " the")]
    assert tokenizer.vocab_size == 12
    assert "\u2581" not in tokenizer.pieces(range(12))


def test_words_come_back_with_single_spaces() -> None:
    every = Tokenizers.train(TokenizerConfig(kind="word", vocab_size=21, byte_fallback=False), lambda: PAIRS)
    for text in ("the cat sat on the mat", "a dog ran", "ein Hund lief"):
        assert every.source.decode(every.source.encode(text)) == text
    assert every.source.decode(every.source.encode("the  cat")) == "the cat"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocab_size": 300}, "byte_fallback: a word is not spelt in bytes"),
        ({"byte_fallback": False, "sampling": 0.1}, "sampling: a word is not divided"),
        ({"byte_fallback": False, "symbols": ["<2de>"]}, "symbols: kind 'word' knows none"),
    ],
)
def test_what_words_cannot_have_is_refused_by_name(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        structure(TokenizerConfig, {"kind": "word", **values}, where="tokenizer")

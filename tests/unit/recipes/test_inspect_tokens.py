"""Tokens as a record shows them: bytes, specials, unknown words, and the words of every script."""

import pytest

from clearhead.inspection.records import Token
from clearhead.recipes.inspect.tokens import tokens_of
from clearhead.text.config import TokenizerConfig
from clearhead.text.symbols import BOS, EOS, UNK
from clearhead.text.tokenizer import Tokenizer, Tokenizers

TEXTS = ["a cat sat on the mat", "the cat and the mat", "我爱猫", "我 爱 the mat"] * 4


def trained(**config: object) -> Tokenizer:
    pairs = [(text, text) for text in TEXTS]
    return Tokenizers.train(TokenizerConfig.model_validate(config), lambda: iter(pairs)).source


@pytest.fixture(scope="module")
def spelling() -> Tokenizer:
    return trained(vocab_size=300, symbols=("<2de>",))


def kinds(tokens: tuple[Token, ...]) -> dict[str, set[int | None]]:
    found: dict[str, set[int | None]] = {}
    for token in tokens:
        found.setdefault(token.kind, set()).add(token.word)
    return found


@pytest.mark.parametrize("text", ["a cat", "</script> 😀 שלום", "▁a  <0x41>", "我爱猫 cat", "\u2028 é"])
def test_every_id_has_a_token_and_white_space_makes_the_words(spelling: Tokenizer, text: str) -> None:
    ids = spelling.encode(text)
    tokens = tokens_of(spelling, [BOS, *ids, EOS], text)
    assert [token.id for token in tokens] == [BOS, *ids, EOS]
    assert tokens[0] == Token("<s>", BOS, "special") and tokens[-1] == Token("</s>", EOS, "special")
    # Joined by word, what the ids spell is the words of `str.split`.
    spelt: dict[int, bytes] = {}
    for token, spelling_of in zip(tokens[1:-1], spelling.spellings(ids)):
        if token.word is not None:
            spelt[token.word] = spelt.get(token.word, b"") + spelling_of
    assert [spelt[word].decode().strip() for word in sorted(spelt)] == text.split()
    assert sorted(spelt) == list(range(len(text.split())))


def test_bytes_are_those_of_the_vocabulary_and_no_text_that_looks_like_one(spelling: Tokenizer) -> None:
    ids = spelling.encode("😀")
    assert [(token.text, token.kind) for token in tokens_of(spelling, ids, "😀")][-4:] == [
        ("<0xF0>", "byte"),
        ("<0x9F>", "byte"),
        ("<0x98>", "byte"),
        ("<0x80>", "byte"),
    ]
    looks = tokens_of(spelling, spelling.encode("the <0x41>"), "the <0x41>")
    assert "<0x41>" not in [token.text for token in looks]


def test_what_a_model_wrote_needs_no_text(spelling: Tokenizer) -> None:
    ids = spelling.encode("the cat 😀")
    given, written = tokens_of(spelling, ids, "the cat 😀"), tokens_of(spelling, ids)
    assert given == written
    broken = tokens_of(spelling, [*spelling.encode("the"), *spelling.encode("😀")[-2:]])  # half of a character
    assert [token.kind for token in broken][-2:] == ["byte", "byte"] and broken[-1].word == 0


def test_a_tag_before_the_text_is_a_special(spelling: Tokenizer) -> None:
    tag = spelling.symbol("<2de>")
    tokens = tokens_of(spelling, [tag, *spelling.encode("the cat"), EOS], "the cat", lead=1)
    assert tokens[0] == Token("<2de>", tag, "special")
    assert tokens[1:] == tokens_of(spelling, [*spelling.encode("the cat"), EOS], "the cat")


def test_in_a_script_without_spaces_each_token_is_a_word_but_not_each_byte(spelling: Tokenizer) -> None:
    text = "我爱龘 cat3"
    tokens = tokens_of(spelling, spelling.encode(text), text, script="Hans")
    by_word: dict[int | None, str] = {}
    for token in tokens:
        by_word[token.word] = by_word.get(token.word, "") + token.text
    assert None not in by_word
    words = list(by_word.values())
    assert words[-2:] == ["<0xE9><0xBE><0x98>", "▁cat3"] or words[-2:] == ["<0xE9><0xBE><0x98>", "▁cat<0x33>"]
    assert list(by_word) == sorted(by_word) and words[0].startswith("▁")
    assert len({token.word for token in tokens_of(spelling, spelling.encode(text), text)}) == 2


def test_an_unknown_piece_shows_what_was_written() -> None:
    lossy = trained(vocab_size=24, byte_fallback=False)
    text = "the 😀 cat"
    ids = lossy.encode(text)
    assert UNK in ids
    unknown = [token for token in tokens_of(lossy, ids, text) if token.kind == "unknown"]
    assert [token.text.strip("▁") for token in unknown] == ["😀"] and unknown[0].word == 1
    assert [token.text for token in tokens_of(lossy, ids) if token.kind == "unknown"] == ["<unk>"]


def test_words_that_a_vocabulary_of_words_does_not_know() -> None:
    words = trained(kind="word", vocab_size=12, byte_fallback=False)
    text = "the zebra and  my cat"
    ids = words.encode(text)
    tokens = tokens_of(words, [BOS, *ids, EOS], text)[1:-1]
    assert [token.text for token in tokens] == ["▁the", "▁zebra", "▁and", "▁my", "▁cat"]
    assert [token.word for token in tokens] == [0, 1, 2, 3, 4]
    assert {token.text for token in tokens if token.kind == "unknown"} >= {"▁zebra", "▁my"}
    assert kinds(tokens_of(words, ids))["unknown"] <= {0, 1, 2, 3, 4}

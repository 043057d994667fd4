"""Tokenizers of imported translators: Marian's pieces by their own numbers, and tables that would crash the reader."""

import struct
from pathlib import Path

import pytest
import sentencepiece

from clearhead.base.errors import BundleError, DataError
from clearhead.text.charactermap import check_character_map
from clearhead.text.mapped import MappedTokenizer
from clearhead.text.modelfile import check_model_bytes, with_leading_space
from clearhead.text.symbols import UNK
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig, Tokenizers
from clearhead.text.training import train_model
from tests.opus import SOURCE, TARGET, pieces, spm

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.fixture(scope="module")
def model() -> bytes:
    return spm(SOURCE, 50)


@pytest.fixture(scope="module")
def tokenizer(model: bytes) -> MappedTokenizer:
    return MappedTokenizer(model, [*SPECIAL, ">>deu<<", *pieces(model)[3:], "ß"])


def test_ids_are_places_in_the_list(model: bytes, tokenizer: MappedTokenizer) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    listed = tokenizer.pieces(range(tokenizer.vocab_size))
    for text in [*SOURCE, "ﬁne  Ｗ Ⅷ", "", " the"]:
        ids = tokenizer.encode(text)
        expected = [piece if piece in listed else "<unk>" for piece in processor.encode(text, out_type=str)]
        assert tokenizer.pieces(ids) == expected
    assert tokenizer.encode_all([*SOURCE, ""], threads=2) == [tokenizer.encode(text) for text in [*SOURCE, ""]]
    assert tokenizer.encode_sampled(SOURCE[0], 5) == tokenizer.encode(SOURCE[0])


def test_what_is_spelt_is_the_normalised_text(tokenizer: MappedTokenizer) -> None:
    for text in SOURCE:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode("  Ｗhere  is ")) == "Where is"


def test_a_piece_of_the_other_side_keeps_its_number(tokenizer: MappedTokenizer) -> None:
    """By name: this model has no ß, but the vocabulary of both sides has."""
    assert tokenizer.pieces(tokenizer.encode("ß"))[-1] == "ß"
    assert tokenizer.encode("☃")[-1] == UNK


def test_a_language_code_is_a_symbol_only_at_the_beginning(tokenizer: MappedTokenizer) -> None:
    code = tokenizer.symbol(">>deu<<")
    assert code == 4
    assert tokenizer.encode(f">>deu<< {SOURCE[0]}") == [code, *tokenizer.encode(SOURCE[0])]
    assert tokenizer.encode(">>fra<<x")[0] == UNK
    assert code not in tokenizer.encode("a >>deu<<")


def test_both_sides_are_saved_and_loaded(model: bytes, tokenizer: MappedTokenizer, tmp_path: Path) -> None:
    other = MappedTokenizer(spm(TARGET, 55, "bpe"), tokenizer.pieces(range(tokenizer.vocab_size)))
    before = Tokenizers(tokenizer, other)
    before.save(tmp_path)
    after = Tokenizers.load(tmp_path)
    assert after.fingerprint == before.fingerprint
    assert after.config.symbols == (">>deu<<",)
    assert not after.joint
    assert after.target.config.kind == "bpe"
    assert after.source.encode_all(SOURCE) == tokenizer.encode_all(SOURCE)
    shorter = MappedTokenizer(model, tokenizer.pieces(range(tokenizer.vocab_size - 1)))
    assert shorter.fingerprint != tokenizer.fingerprint  # the list counts, not the model alone


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (["<unk>", "<pad>", "<s>", "</s>", "a"], "are not <pad>"),
        ([*SPECIAL], "are not <pad>"),
        ([*SPECIAL, "a", "b", "a"], "'a' has two ids"),
        ([*SPECIAL, "a", ""], "without characters"),
        ([*SPECIAL, "a", ">>deu<<"], "do not come first"),
        ([*SPECIAL, "a\ud800"], r"'\\ud800', which is no character"),
    ],
)
def test_a_wrong_list_is_refused(model: bytes, listed: list[str], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        MappedTokenizer(model, listed)


@pytest.mark.parametrize("content", [b"[1, 2]", b"{}", b"[", b'["<pad>"]'])
def test_a_damaged_list_is_refused(tokenizer: MappedTokenizer, tmp_path: Path, content: bytes) -> None:
    tokenizer.save(tmp_path / "source.model")
    (tmp_path / "source.vocabulary.json").write_bytes(content)
    with pytest.raises(BundleError):
        MappedTokenizer.load(tmp_path / "source.model")


def test_a_lone_surrogate_is_refused(tokenizer: MappedTokenizer) -> None:
    with pytest.raises(DataError, match="surrogate"):
        tokenizer.encode("a \ud800")


def test_a_word_model_is_refused() -> None:
    with pytest.raises(BundleError, match="'word'"):
        MappedTokenizer(spm(SOURCE, 20, "word"), [*SPECIAL, "▁the"])


# ------------------------------------------------------------------------------------------------- what models hold


def test_what_normalises_is_taken_from_others_alone(model: bytes) -> None:
    check_model_bytes(model, "x", foreign=True)
    with pytest.raises(BundleError, match="changes characters"):
        check_model_bytes(model, "x")


def character_map(model: bytes) -> bytes:
    """The table inside `model`, found by its size, which stands before it."""
    for at in range(len(model) - 4):
        size = int.from_bytes(model[at : at + 4], "little")
        if size > 100_000 and size % 1024 == 0 and at + 4 + size < len(model):
            return model[at:]  # it is the last field of the last message
    raise AssertionError("no table")


def test_every_step_of_the_table_is_looked_at(model: bytes) -> None:
    table = character_map(model)
    check_character_map(table)
    units = int.from_bytes(table[:4], "little") // 4
    outside = 1 << 30 | 1 << 9  # an offset far beyond the end
    for place in (0, 1, units // 2, units - 1):
        broken = bytearray(table)
        broken[4 + 4 * place : 8 + 4 * place] = struct.pack("<I", outside)
        with pytest.raises(ValueError, match="leads outside"):
            check_character_map(bytes(broken))
    with pytest.raises(ValueError, match="do not end"):
        check_character_map(table[:-1] + b"x")
    for cut in (b"", table[:4], table[: 4 + 4 * units], struct.pack("<I", 6) + bytes(20)):
        with pytest.raises(ValueError, match="declares"):
            check_character_map(cut)


def test_a_result_outside_the_texts_is_refused() -> None:
    units = [0] * 256
    units[0] = 0x100  # has a leaf, at unit 0 itself
    table = struct.pack("<I", 1024) + struct.pack("<256I", *units) + b"a\0"
    with pytest.raises(ValueError, match="result outside"):
        check_character_map(table)


def test_a_leading_space_is_the_only_change() -> None:
    """The model then does by itself what `Tokenizer` does for it: other tools cut alike."""
    config = TokenizerConfig(vocab_size=330, kind="bpe")
    tokenizer = Tokenizer(train_model(config, [*SOURCE, *TARGET]), config)
    processor = sentencepiece.SentencePieceProcessor(model_proto=with_leading_space(tokenizer.model))
    plain = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    for text in [*SOURCE, *TARGET, "  two  spaces ", "naïve ☃", "x"]:
        assert processor.encode(text) == tokenizer.encode(text)
    assert plain.encode("The") != processor.encode("The")
    again = sentencepiece.SentencePieceProcessor(model_proto=with_leading_space(with_leading_space(tokenizer.model)))
    assert again.encode("The cat") == tokenizer.encode("The cat")

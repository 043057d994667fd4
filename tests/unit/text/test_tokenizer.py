"""The tokenizer gives every text back, says no to what it cannot do, and survives a trip to the disk."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clearhead.base.errors import BundleError, ConfigError, DataError, InputError
from clearhead.text.symbols import BOS, EOS, PAD, UNK
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig, Tokenizers
from tests.unit.text.conftest import SYMBOLS, Pair

KINDS = ["bpe", "bpe with symbols", "unigram", "unigram with symbols", "bpe a side"]
AWKWARD = [
    *SYMBOLS,
    *["\u2581", "\u2585", " ", "  ", "\t", "\n", "\r\n", "\0", "\x0c", "\x85", "\u2028", "\u00a0", "\u3000", "\ufeff"],
    *["，", "℃", "ﬁ", "ａ", "e\u0301", "\u0301", "👩\u200d👩\u200d👧", "🇩🇪", "\U0010ffff", "\ufffd", "\u2047"],
    *["<s>", "</s>", "<unk>", "<pad>", "<0x41>", "ka", "schi", "to", ".", "42", "{", "na"],
]
TEXT = st.lists(
    st.one_of(st.sampled_from(AWKWARD), st.text(st.characters(exclude_categories=["Cs"]), max_size=6)), max_size=12
).map("".join)


def with_sampling(tokenizer: Tokenizer, sampling: float) -> Tokenizer:
    return Tokenizer(tokenizer.model, tokenizer.config.model_copy(update={"sampling": sampling}))


@pytest.fixture(scope="module")
def straying(trained: dict[str, Tokenizers]) -> dict[tuple[str, float], Tokenizer]:
    return {(name, p): with_sampling(trained[name].source, p) for name in KINDS for p in (0.05, 0.5, 1.0)}


class TestLaw:
    @settings(max_examples=2000)
    @given(TEXT)
    @example("\u2581")
    @example(" \u2581 \u2581\u2581 ")
    @example("   leading, trailing  ")
    @example("{name}{name}{n{name}")
    @example("".join(AWKWARD))
    def test_decoding_what_was_encoded_gives_the_text(self, trained: dict[str, Tokenizers], text: str) -> None:
        for name in KINDS:
            for tokenizer in {trained[name].source, trained[name].target}:
                ids = tokenizer.encode(text)
                assert tokenizer.decode(ids) == text, name
                assert {PAD, UNK, BOS, EOS}.isdisjoint(ids), name

    @settings(max_examples=1000)
    @given(TEXT, st.integers(), st.sampled_from([0.05, 0.5, 1.0]))
    def test_whatever_was_drawn(
        self, straying: dict[tuple[str, float], Tokenizer], text: str, key: int, sampling: float
    ) -> None:
        for name in KINDS:
            tokenizer = straying[name, sampling]
            ids = tokenizer.encode_sampled(text, key)
            assert tokenizer.decode(ids) == text, name
            assert {PAD, UNK, BOS, EOS}.isdisjoint(ids), name
            assert ids == tokenizer.encode_sampled(text, key)

    @settings(max_examples=300)
    @given(st.lists(TEXT, max_size=8))
    def test_many_at_once_are_as_one_by_one(self, trained: dict[str, Tokenizers], texts: list[str]) -> None:
        for name in KINDS:
            tokenizer = trained[name].source
            assert tokenizer.encode_all(texts, threads=2) == [tokenizer.encode(text) for text in texts]

    def test_sentencepiece_alone_would_break_it(self, trained: dict[str, Tokenizers]) -> None:
        """The control: without our care for U+2581 the law does not hold, so that the tests above can fail."""
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(trained["bpe"].source.model)
        assert processor.decode(processor.encode("a\u2581b")) == "a b"

    def test_a_text_as_long_as_a_book(self, trained: dict[str, Tokenizers]) -> None:
        for name in KINDS:
            for unit in ("a", "日", "ka to", "\u2581"):
                text = unit * (1_000_000 // len(unit)) if unit != "\u2581" else unit * 100_000
                assert trained[name].source.decode(trained[name].source.encode(text)) == text


class TestEncode:
    def test_symbols_stay_whole_wherever_they_stand(self, trained: dict[str, Tokenizers]) -> None:
        for name in ("bpe with symbols", "unigram with symbols"):
            tokenizer = trained[name].source
            sampled = with_sampling(tokenizer, 0.4)
            text = "".join(f"ka{symbol}ren{symbol}{symbol}" for symbol in SYMBOLS)
            expected = [symbol for symbol in SYMBOLS for _ in range(3)]
            drawings = [tokenizer.encode(text), *(sampled.encode_sampled(text, key) for key in range(20))]
            for ids in drawings:
                assert [piece for piece in tokenizer.pieces(ids) if piece in SYMBOLS] == expected

    def test_the_longest_symbol_wins(self, trained: dict[str, Tokenizers]) -> None:
        tokenizer = trained["bpe with symbols"].source
        assert tokenizer.pieces(tokenizer.encode("{name}{n}"))[1:3] == ["{name}", "{n"]

    def test_digits_are_split_on_request(self, trained: dict[str, Tokenizers]) -> None:
        tokenizer = trained["bpe with symbols"].source
        learnt = tokenizer.pieces(range(4 + len(SYMBOLS) + 256, tokenizer.vocab_size))
        assert [piece for piece in learnt if sum(map(str.isdigit, piece)) > 1] == []

    def test_the_first_word_is_spelt_like_any_other(self, trained: dict[str, Tokenizers]) -> None:
        tokenizer = trained["bpe"].source
        once = tokenizer.encode("kato")
        assert tokenizer.encode("kato kato") == once * 2

    def test_nothing_is_folded(self, trained: dict[str, Tokenizers]) -> None:
        tokenizer = trained["bpe"].source
        assert tokenizer.encode("，") != tokenizer.encode(",")
        assert tokenizer.encode("℃") != tokenizer.encode("°C")

    def test_empty_text_has_no_ids(self, trained: dict[str, Tokenizers]) -> None:
        tokenizer = trained["bpe"].source
        assert tokenizer.encode("") == tokenizer.encode_sampled("", 1) == []
        assert tokenizer.encode_all(["", "ka", ""]) == [[], tokenizer.encode("ka"), []]

    @pytest.mark.parametrize("method", ["encode", "encode_all", "encode_sampled"])
    def test_a_lone_surrogate_is_refused_with_its_place(self, trained: dict[str, Tokenizers], method: str) -> None:
        tokenizer = with_sampling(trained["bpe"].source, 0.1)
        text = "ab\ud800c"
        arguments = {"encode": (text,), "encode_all": ([text],), "encode_sampled": (text, 1)}[method]
        with pytest.raises(DataError, match="character 3"):
            getattr(tokenizer, method)(*arguments)

    def test_without_byte_fallback_the_unknown_becomes_unk(self, pairs: list[Pair]) -> None:
        config = TokenizerConfig(vocab_size=300, byte_fallback=False)
        tokenizer = Tokenizers.train(config, lambda: pairs).source
        assert tokenizer.decode(tokenizer.encode("ka to")) == "ka to"
        ids = tokenizer.encode("ka \u2581 Ω")
        assert ids.count(UNK) == 2
        assert tokenizer.decode(ids) == "ka \u2047 \u2047"
        sampled = with_sampling(tokenizer, 1.0)
        assert sampled.encode_sampled("kaΩΩ", 0).count(UNK) == tokenizer.encode("kaΩΩ").count(UNK) == 1


class TestDecode:
    def test_specials_spell_nothing_and_unk_a_mark(self, trained: dict[str, Tokenizers]) -> None:
        tokenizer = trained["bpe"].source
        ids = tokenizer.encode("ka to")
        assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "ka to"
        assert tokenizer.decode([UNK]) == "\u2047"

    def test_broken_bytes_give_a_replacement_character(self, trained: dict[str, Tokenizers]) -> None:
        tokenizer = trained["bpe"].source
        euro = tokenizer.encode("Ω")
        assert tokenizer.pieces(euro)[-2:] == ["<0xCE>", "<0xA9>"]
        assert tokenizer.decode(euro[:-1]) == "\ufffd"

    @pytest.mark.parametrize("bad", [-1, 700, 10**12])
    def test_an_id_outside_the_vocabulary_is_refused(self, trained: dict[str, Tokenizers], bad: int) -> None:
        tokenizer = trained["bpe"].source
        with pytest.raises(InputError, match=f"id {bad} .* 0 to 699"):
            tokenizer.decode([5, bad])
        with pytest.raises(InputError, match=f"id {bad} .* 0 to 699"):
            tokenizer.pieces([5, bad])

    def test_pieces_show_spaces_and_bytes(self, trained: dict[str, Tokenizers]) -> None:
        tokenizer = trained["bpe"].source
        assert tokenizer.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
        assert tokenizer.pieces(tokenizer.encode(" \u2581")) == ["▁", "▁", "<0xE2>", "<0x96>", "<0x81>"]
        assert "".join(tokenizer.pieces(tokenizer.encode("ka to"))) == "▁ka▁to"


class TestSampling:
    def test_the_key_alone_decides(self, trained: dict[str, Tokenizers], texts: list[str]) -> None:
        tokenizer = with_sampling(trained["bpe"].source, 0.2)
        first = [tokenizer.encode_sampled(text, key) for key, text in enumerate(texts[:200])]
        Random(0).random()
        backwards = [tokenizer.encode_sampled(text, key) for key, text in reversed(list(enumerate(texts[:200])))]
        assert first == backwards[::-1]
        assert len({tuple(tokenizer.encode_sampled(texts[0], key)) for key in range(50)}) > 10

    def test_off_is_the_best_segmentation(self, trained: dict[str, Tokenizers], texts: list[str]) -> None:
        tokenizer = trained["bpe"].source
        assert all(tokenizer.encode_sampled(text, 7) == tokenizer.encode(text) for text in texts[:100])


class TestPair:
    def test_joint_is_one_object_and_separate_are_two(self, trained: dict[str, Tokenizers]) -> None:
        joint, apart = trained["bpe"], trained["bpe a side"]
        assert joint.joint
        assert joint.source is joint.target
        assert not apart.joint
        assert apart.source.fingerprint != apart.target.fingerprint
        ideograph = chr(0x4E00)
        assert ideograph in "".join(joint.source.pieces(range(700)))
        assert ideograph in "".join(apart.target.pieces(range(450)))
        assert ideograph not in "".join(apart.source.pieces(range(450)))

    @pytest.mark.parametrize("name", KINDS)
    def test_the_disk_changes_nothing(self, trained: dict[str, Tokenizers], name: str, tmp_path: Path) -> None:
        before = trained[name]
        before.save(tmp_path / "deep" / "tokenizer")
        after = Tokenizers.load(tmp_path / "deep" / "tokenizer")
        assert after.joint == before.joint
        assert after.config == before.config
        assert after.fingerprint == before.fingerprint
        assert after.report is None
        text = "ka\u2581to {name} 日本，"
        assert after.source.encode(text) == before.source.encode(text)
        assert after.target.encode(text) == before.target.encode(text)
        names = {"joint.model"} if before.joint else {"source.model", "target.model"}
        assert {path.name for path in (tmp_path / "deep" / "tokenizer").iterdir()} == names | {"tokenizer.toml"}

    def test_one_tokenizer_alone(self, trained: dict[str, Tokenizers], tmp_path: Path) -> None:
        before = trained["bpe"].source
        before.save(tmp_path / "mine.model")
        after = Tokenizer.load(tmp_path / "mine.model")
        assert (after.fingerprint, after.config) == (before.fingerprint, before.config)
        assert after.fingerprint == hashlib.sha256((tmp_path / "mine.model").read_bytes()).hexdigest()

    def test_the_fingerprint_follows_what_the_ids_mean(self, trained: dict[str, Tokenizers]) -> None:
        assert len({tokenizers.fingerprint for tokenizers in trained.values()}) == len(trained)
        sampled = with_sampling(trained["bpe"].source, 0.1)
        assert sampled.fingerprint == trained["bpe"].source.fingerprint

    def test_a_missing_file_is_named(self, trained: dict[str, Tokenizers], tmp_path: Path) -> None:
        with pytest.raises(BundleError, match=r"tokenizer\.toml"):
            Tokenizers.load(tmp_path)
        trained["bpe"].save(tmp_path)
        (tmp_path / "joint.model").unlink()
        with pytest.raises(BundleError, match=r"joint\.model"):
            Tokenizers.load(tmp_path)

    def test_a_configuration_of_another_model_is_refused(self, trained: dict[str, Tokenizers], tmp_path: Path) -> None:
        trained["bpe"].save(tmp_path)
        toml = tmp_path / "tokenizer.toml"
        text = toml.read_text(encoding="utf-8")
        for old, new in [("700", "701"), ("byte_fallback = true", "byte_fallback = false"), ("[]", '["{name}"]')]:
            assert old in text
            toml.write_text(text.replace(old, new), encoding="utf-8")
            with pytest.raises(BundleError, match=r"joint\.model"):
                Tokenizers.load(tmp_path)
        toml.write_text("vocab_sise = 3", encoding="utf-8")
        with pytest.raises(BundleError, match="vocab_size"):
            Tokenizers.load(tmp_path)

    def test_a_side_that_is_too_small_is_named(self, pairs: list[Pair]) -> None:
        config = TokenizerConfig(vocab_size=5000, joint=False)
        with pytest.raises(ConfigError, match="source side"):
            Tokenizers.train(config, lambda: pairs)


def test_the_module_loads_no_torch_and_another_process_learns_the_same(
    trained: dict[str, Tokenizers], pairs: list[Pair]
) -> None:
    script = (
        "import sys\n"
        "from clearhead.text.tokenizer import TokenizerConfig, Tokenizers\n"
        "from tests.unit.text.conftest import made_up_pairs\n"
        "for kind, size in (('bpe', 700), ('unigram', 500)):\n"
        "    config = TokenizerConfig(kind=kind, vocab_size=size)\n"
        "    print(Tokenizers.train(config, lambda: iter(made_up_pairs(1500))).fingerprint)\n"
        "print('torch' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONHASHSEED": "77"},
    )
    assert result.stderr == ""
    assert result.stdout.split() == [trained["bpe"].fingerprint, trained["unigram"].fingerprint, "False"]

"""What a tokenizer is learnt from, what is left out, and what a text too small or too strange leads to."""

import logging
import re

import pytest

from clearhead.base.errors import ConfigError, DataError
from clearhead.text.tokenizer import TokenizerConfig, Tokenizers
from clearhead.text.training import choose_pairs
from tests.unit.text.conftest import Pair, made_up_pairs


class TestReport:
    def test_over_long_lines_are_left_out_and_named(self, pairs: list[Pair], caplog: pytest.LogCaptureFixture) -> None:
        config = TokenizerConfig(vocab_size=700, max_line_bytes=200)
        strange = "\u4e0b" * 67  # 67 characters, 201 bytes
        mixed = [*pairs[:10], (strange, "x"), *pairs[10:20], ("x", "y" * 201), ("x", "y" * 200), *pairs[20:]]
        with caplog.at_level(logging.INFO, logger="clearhead"):
            tokenizers = Tokenizers.train(config, lambda: mixed)
        report = tokenizers.report
        assert report is not None
        expected = [n for n, pair in enumerate(mixed, 1) if max(len(side.encode()) for side in pair) > 200]
        assert report.too_long_lines == tuple(expected[:100])
        assert {11, 22} <= set(expected)
        assert 23 not in expected
        assert (report.pairs, report.too_long) == (len(mixed), len(expected))
        assert report.used == len(mixed) - len(expected)
        assert f"{len(expected):,} with a side over 200 bytes left out (line 11, 22" in caplog.text
        assert "\u4e0b" not in "".join(tokenizers.source.pieces(range(700)))

    def test_what_was_left_out_can_still_be_encoded(self, pairs: list[Pair]) -> None:
        tokenizer = Tokenizers.train(TokenizerConfig(vocab_size=700, max_line_bytes=100), lambda: pairs).source
        assert tokenizer.decode(tokenizer.encode("ka " * 5000)) == "ka " * 5000

    def test_a_long_list_is_cut_in_the_report_but_counted(self) -> None:
        config = TokenizerConfig(max_line_bytes=3)
        chosen, report = choose_pairs(config, [("abcd", "")] * 1000 + [("abc", "")])
        assert chosen == [("abc", "")]
        assert report.too_long == 1000
        assert report.too_long_lines == tuple(range(1, 101))
        assert report.summary().endswith("10, …)")


class TestChoice:
    def test_a_large_text_is_thinned_evenly(self) -> None:
        config = TokenizerConfig(max_training_pairs=1000)
        chosen, report = choose_pairs(config, ((str(n), "") for n in range(10_000)))
        numbers = [int(source) for source, _ in chosen]
        assert numbers == sorted(set(numbers))
        assert report.used == len(numbers) == 1000
        assert abs(sum(numbers) / 1000 - 5000) < 4 * 2887 / 1000**0.5
        assert choose_pairs(config, ((str(n), "") for n in range(10_000)))[0] == chosen

    def test_a_small_text_is_used_whole(self, pairs: list[Pair]) -> None:
        assert choose_pairs(TokenizerConfig(), iter(pairs))[0] == pairs

    def test_a_lone_surrogate_is_named_with_its_line(self) -> None:
        with pytest.raises(DataError, match="pair 2: .* character 2"):
            choose_pairs(TokenizerConfig(), [("a", "b"), ("ü", "x\udc80")])

    @pytest.mark.parametrize("pairs", [[], [("", "")] * 3, [("\u2581", " \t \0")]])
    def test_no_text_at_all_is_said(self, pairs: list[Pair]) -> None:
        with pytest.raises(DataError, match="no text to learn a tokenizer from"):
            Tokenizers.train(TokenizerConfig(), lambda: pairs)

    def test_an_error_of_the_reader_comes_through(self) -> None:
        def broken() -> list[Pair]:
            raise DataError("corpus.en, line 3: not UTF-8")

        with pytest.raises(DataError, match="line 3"):
            Tokenizers.train(TokenizerConfig(), broken)


class TestStrangeText:
    @pytest.mark.parametrize("character", ["\0", "\u2585", "\n", "\r", "\t", "\u2581"])
    def test_a_character_that_the_trainer_refuses_costs_no_text(self, character: str) -> None:
        """SentencePiece skips or misreads a whole sentence with such a character; here only the character is lost."""
        strange = [(f"zyxw{character} qponm", text) for text in padding()]
        tokenizer = Tokenizers.train(TokenizerConfig(vocab_size=450), lambda: strange).source
        assert tokenizer.pieces(tokenizer.encode("zyxw qponm")) == ["▁zyxw", "▁qponm"]
        assert tokenizer.decode(tokenizer.encode(strange[0][0])) == strange[0][0]

    def test_words_that_look_like_reserved_pieces(self) -> None:
        text = "<s></s><unk> <pad><0x41><0xE2>"
        tokenizer = Tokenizers.train(
            TokenizerConfig(vocab_size=450), lambda: [(text, other) for other in padding()]
        ).source
        assert min(tokenizer.encode(text)) > 3
        assert tokenizer.decode(tokenizer.encode(text)) == text


def padding() -> list[str]:
    """Enough other text for a vocabulary of a few hundred."""
    return [side for pair in made_up_pairs(100) for side in pair]


class TestSize:
    @pytest.mark.parametrize("kind", ["bpe", "unigram"])
    def test_the_message_gives_the_largest_size_and_it_works(self, pairs: list[Pair], kind: str) -> None:
        few = pairs[:60]
        with pytest.raises(ConfigError, match="vocab_size 9000 is too large for this text") as caught:
            train(few, kind, 9000)
        found = re.search(r"at most (\d+)", str(caught.value))
        assert found is not None
        largest = int(found[1])
        for size in (largest, largest - 5):
            assert train(few, kind, size).source.vocab_size == size
        with pytest.raises(ConfigError, match="too large"):
            train(few, kind, largest + 1)

    @pytest.mark.parametrize("kind", ["bpe", "unigram"])
    def test_the_message_gives_the_smallest_size_and_it_works(self, kind: str) -> None:
        many = [("".join(chr(0x4E00 + i) for i in range(start, start + 100)), "a b c") for start in range(0, 1000, 100)]
        with pytest.raises(ConfigError, match="too small for the characters of this text") as caught:
            train(many, kind, 600, character_coverage=1.0)
        found = re.search(r"to (\d+) or more", str(caught.value))
        assert found is not None
        least = int(found[1])
        assert least == 4 + 256 + 1000 + len("abc▁")
        assert train(many, kind, least, character_coverage=1.0).source.vocab_size == least
        with pytest.raises(ConfigError, match="too small"):
            train(many, kind, least - 1, character_coverage=1.0)


def train(pairs: list[Pair], kind: str, vocab_size: int, **settings: float) -> Tokenizers:
    config = TokenizerConfig.model_validate({"kind": kind, "vocab_size": vocab_size, **settings})
    return Tokenizers.train(config, lambda: pairs)


class TestWords:
    def test_only_whole_words_are_learnt(self) -> None:
        """A word that would be cut, or is longer than a piece may be (a line of Chinese), is unknown, not a failure."""
        strange = ["ba\tbe", "\u2581di", "ka\u2581ki", "\u4f60" * 1380, "x" * 512]
        pairs = [(f"{word} mo po", "no so") for word in strange] * 3
        config = TokenizerConfig(kind="word", byte_fallback=False, vocab_size=8)
        tokenizer = Tokenizers.train(config, lambda: pairs).source
        assert sorted(tokenizer.pieces(range(4, 8))) == ["\u2581mo", "\u2581no", "\u2581po", "\u2581so"]
        assert [tokenizer.encode(word) for word in strange] == [[1]] * len(strange)

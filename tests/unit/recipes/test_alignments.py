"""Links of translations, and unknown words: over words of the very lines, whatever the line was made of."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import DataError, InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.formats.pharaoh import pharaoh_line
from clearhead.models import build, presets
from clearhead.models.seq2seq import Seq2Seq
from clearhead.recipes.alignments import Aligned, Linker, Linking, make_linker, read_lexicon
from clearhead.recipes.pieces import split_text
from clearhead.recipes.translate import translate_file
from clearhead.recipes.translator import Translator
from clearhead.text.symbols import UNK
from clearhead.text.tokenizer import TokenizerConfig, Tokenizers
from tests.unit.recipes.tiny import tiny_translator

CONFIG = DecodingConfig(max_length=12)


class Given:
    """Stands for the reader: the same rule gives the attention of every pair."""

    def __init__(self, rule) -> None:
        self.rule = rule

    def read(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        return [self.rule(len(source) + 1, len(target) + 1) for source, target in zip(sources, targets, strict=True)]


def diagonal(sources: int, targets: int) -> Tensor:
    """Token t reads token t of the source, or its last."""
    found = torch.zeros(targets, sources)
    for row in range(targets):
        found[row, min(row, sources - 1)] = 1.0
    return found


def linker(translator: Translator, rule=diagonal, **more: object) -> Linker:
    made = Linker(translator, **more)  # type: ignore[arg-type]
    made._reader = Given(rule)  # type: ignore[assignment]
    return made


def words(vocabulary: int = 9) -> Tokenizers:
    pairs = [("the cat sat on the mat", "die Katze sass auf der Matte"), ("the cat", "die Katze")] * 3
    config = TokenizerConfig(kind="word", vocab_size=vocabulary, byte_fallback=False, joint=False)
    return Tokenizers.train(config, lambda: pairs)


def test_given_pairs_are_linked_word_by_word() -> None:
    translator = tiny_translator()
    source = translator.tokenizers.source
    both = linker(translator).pairs([("the cat sat", "the cat sat"), ("", "the"), ("Anna sat", "Anna  sat")])
    assert [pharaoh_line(each or ()) for each in both] == ["0-0 1-1 2-2", "", "0-0 1-1"]
    pieces = linker(translator, linking=Linking(unit="pieces")).pairs([("Anna xyz", "Anna xyz")])[0]
    assert pieces == {(place, place) for place in range(len(source.encode("Anna xyz")))}


def test_a_row_too_late_gives_other_links() -> None:
    def late(sources: int, targets: int) -> Tensor:
        return diagonal(sources, targets + 1)[1:]

    translator = tiny_translator()
    text = [("the cat sat on", "the cat sat on")]
    assert linker(translator, late).pairs(text) != linker(translator).pairs(text)


def test_the_links_of_a_long_line_are_those_of_its_parts_in_the_words_of_the_line() -> None:
    base = tiny_translator()
    translator = Translator(base.model, base.tokenizers, base.languages, max_source_length=12)
    text = "the cat sat on the mat. Really, it did! the cat Anna sat on the mat."
    found = next(translator.stream_forced([(text, "")], CONFIG, linker=linker(translator)))
    parts = [part for part, _ in split_text(text, base.tokenizers.source, 12)]
    assert len(parts) >= 2 and " ".join(parts) == text
    assert "split" in found.flags
    expected, sources, targets = set(), 0, 0
    for part in parts:
        alone = next(translator.stream_forced([(part, "")], CONFIG, linker=linker(translator)))
        expected |= {(left + sources, right + targets) for left, right in alone.links or ()}
        sources, targets = sources + len(part.split()), targets + len(alone.text.split())
    assert found.links == expected
    assert max(source for source, _ in expected) > len(parts[0].split())


def test_blank_lines_have_no_links_and_the_text_is_as_without_a_linker(tmp_path: Path) -> None:
    lines = ["the cat", "", "Anna sat on the mat.", " "]
    source, links = tmp_path / "in", tmp_path / "links"
    source.write_text("\n".join(lines) + "\n")
    translator = tiny_translator()
    translate_file(translator, CONFIG, source, tmp_path / "plain")
    made = Linker(translator)
    translate_file(translator, CONFIG, source, tmp_path / "out", linker=made, alignments=links)
    assert (tmp_path / "out").read_text() == (tmp_path / "plain").read_text()
    written = links.read_text().split("\n")
    assert len(written) == 5
    assert written[1] == written[3] == ""
    assert written[0] and written[2]
    for line, text, out in zip(written, lines, (tmp_path / "out").read_text().split("\n"), strict=False):
        for link in line.split():
            left, right = map(int, link.split("-"))
            assert left < len(text.split()) and right < len(out.split())


def test_neither_file_appears_if_the_text_breaks_off(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b"the cat\n\xff\n")
    translator = tiny_translator()
    with pytest.raises(DataError):
        translate_file(
            translator, CONFIG, source, tmp_path / "out", linker=Linker(translator), alignments=tmp_path / "links"
        )
    assert not (tmp_path / "out").exists() and not (tmp_path / "links").exists()


def test_what_cannot_be_aligned_is_flagged_and_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_on_short(sources: int, targets: int) -> Tensor:
        if sources < 4:
            raise RuntimeError("on purpose")
        return diagonal(sources, targets)

    translator = tiny_translator()
    short, long = translator.stream_forced(
        [("a", ""), ("Anna sat on the mat.", "")], CONFIG, linker=linker(translator, fails_on_short)
    )
    assert "unaligned" in short.flags and not short.links
    assert "unaligned" not in long.flags and long.links


# --------------------------------------------------------------------------------------------------- unknown words


def model_of_words(tokenizers: Tokenizers, ids: Sequence[int]) -> Seq2Seq:
    """A model that writes `ids` one after the other."""
    size = tokenizers.target.vocab_size
    config = presets.tiny(
        vocab_size=size,
        source_vocab_size=tokenizers.source.vocab_size,
        embeddings="separate",
        d_model=16,
        d_ff=16,
        encoder_layers=1,
        decoder_layers=1,
        attention={"heads": 1},
    )
    model = build(config, seed=1).eval()
    order = [*ids, 3]

    class Forced(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model.decoder

        def start(self, memory):
            return self.inner.start(memory)

        def advance(self, tokens, state):
            places = state.positions[:, None] + torch.arange(tokens.ids.shape[1])
            hidden, after = self.inner.advance(tokens, state)
            marked = torch.zeros_like(hidden)
            marked[..., 0] = places.to(hidden.dtype)
            return marked, after

        def project(self, hidden, vocabulary=None):
            logits = torch.zeros(*hidden.shape[:-1], size)
            places = hidden[..., 0].long().clamp(max=len(order) - 1)
            logits.scatter_(-1, torch.tensor(order)[places][..., None], 20.0)
            return logits if vocabulary is None else logits[..., vocabulary]

    return Seq2Seq(model.encoder, Forced())


@pytest.fixture
def unknown() -> tuple[Translator, Tokenizers]:
    tokenizers = words()
    die = tokenizers.target.encode("die")[0]
    return Translator(model_of_words(tokenizers, [die, UNK, UNK]), tokenizers, ("en", "de")), tokenizers


def test_a_search_never_writes_an_unknown_word_unless_it_may(unknown: tuple[Translator, Tokenizers]) -> None:
    translator, _ = unknown
    plain = translator.translate(["the Xaver Yps"], beam=1, max_length=6)[0]
    assert "<unk>" not in plain.tokens
    may = translator.writing_unknown().translate(["the Xaver Yps"], beam=2, max_length=6)[0]
    assert may.tokens == ("\u2581die", "<unk>", "<unk>")
    assert may.text == "die \u2047 \u2047"
    # The probability is the model's own: that of forced scoring.
    forced = translator.score(["the Xaver Yps"], ["die \u2047 \u2047"])[0]
    assert may.log_prob == pytest.approx(forced.log_prob, abs=1e-6)


def test_unknown_words_become_what_a_lexicon_says_or_the_source_word(unknown: tuple[Translator, Tokenizers]) -> None:
    translator, _ = unknown
    writing = translator.writing_unknown()

    def replaced(rule, lexicon: dict[str, str] | None, text: str = "the Xaver Yps"):
        made = linker(writing, rule, lexicon=lexicon)
        return next(writing.stream_forced([(text, "")], CONFIG, linker=made))

    copied = replaced(diagonal, {})
    assert copied.text == "die Xaver Yps"
    assert copied.flags == ("unknown_replaced",)
    assert copied.links == {(0, 0), (1, 1), (2, 2)}
    assert replaced(diagonal, {"Yps": "Ypsilon"}).text == "die Xaver Ypsilon"
    assert (
        replaced(diagonal, {"Yps": "drei Worte"}).links == copied.links
    )  # an entry of two words is linked by its first

    def crossed(sources: int, targets: int) -> Tensor:
        found = diagonal(sources, targets)
        found[[1, 2]] = found[[2, 1]]
        return found

    assert replaced(crossed, {}).text == "die Yps Xaver"
    kept = replaced(diagonal, None)
    assert (kept.text, kept.flags) == ("die \u2047 \u2047", ())


@pytest.mark.parametrize(("language", "copied"), [("en", "\u4e2d\u6587cat"), ("zh", "\u4e2d\u6587")])
def test_where_words_are_not_separated_only_the_piece_is_copied(language: str, copied: str) -> None:
    pairs = [("the cat sat on the mat", "die Katze sass auf der Matte")] * 4
    tokenizers = Tokenizers.train(TokenizerConfig(vocab_size=36, byte_fallback=False), lambda: pairs)
    base = tiny_translator()
    translator = Translator(base.model, tokenizers, (language, "de"))
    text = "the \u4e2d\u6587cat"
    ids = tokenizers.source.encode(text)
    weights = torch.zeros(1, len(ids))
    weights[0, ids.index(UNK)] = 1.0
    made = Linker(translator, lexicon={})
    assert made._replacement(Aligned(text, ids, [UNK], weights), 0) == copied


def test_a_forced_beginning_may_be_unknown_and_stays_what_it_is(unknown: tuple[Translator, Tokenizers]) -> None:
    writing = unknown[0].writing_unknown()
    made = linker(writing, lexicon={"Xaver": "X."})
    given = [("the Xaver Yps", "Die  Zed"), ("the Xaver Yps", "")]
    forced, free = writing.stream_forced(given, CONFIG, linker=made)
    assert forced.tokens == ("<unk>",) * 3
    assert forced.text == "Die Zed Yps"
    assert math.isfinite(forced.log_prob) and forced.flags == ("unknown_replaced",)
    assert free.text == "die X. Yps"


def test_a_row_that_reads_nothing_leaves_the_unknown_word(unknown: tuple[Translator, Tokenizers]) -> None:
    writing = unknown[0].writing_unknown()
    made = linker(writing, lambda sources, targets: torch.zeros(targets, sources), lexicon={})
    assert next(writing.stream_forced([("the Xaver", "")], CONFIG, linker=made)).text == "die \u2047 \u2047"


def test_a_model_that_spells_everything_is_told_and_translates_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    translator = tiny_translator()
    with caplog.at_level("INFO"):
        same, made = make_linker(translator, Linking(), False, True, None, None)
    assert same is translator and made is None
    assert "no unknown words to replace" in caplog.text


def test_the_lexicon_of_the_aligner_is_read_and_its_likeliest_entry_counts(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("dog\tHunde\t0.2\ndog\tHund\t0.7\ncat\tKatze\ncat\tKater\n")
    assert read_lexicon(path) == {"dog": "Hund", "cat": "Katze"}
    improbable = [f"dog\tHund\t{value}" for value in ("much", "nan", "inf", "-0.1", "1.5", "1e999")]
    for line in ["dog", "", "dog\t ", " \tHund", "dog\tHund\t0.1\t0.2", *improbable]:
        path.write_text(f"cat\tKatze\t1\n{line}\n")
        told = "the third column is no probability" if line in improbable else "no lexicon entry"
        with pytest.raises(DataError, match=f"line 2: {told}"):
            read_lexicon(path)


@pytest.mark.parametrize("threshold", [math.nan, math.inf, -0.1, 1.1])
def test_a_threshold_that_no_weight_can_be_compared_with_is_refused(threshold: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        Linking(threshold=threshold)


def test_a_pair_that_cannot_be_aligned_is_named_by_its_place_in_the_file(caplog: pytest.LogCaptureFixture) -> None:
    translator, pairs = tiny_translator(), [("the cat", "the cat"), ("\ud800", "x")]
    linked = [each.links for each in translator.score_stream(pairs, CONFIG, linker=linker(translator), window=1)]
    assert linked[0] and linked[1] is None
    assert "pair 2 cannot be aligned" in caplog.text


def test_protected_lines_have_no_links(tmp_path: Path) -> None:
    translator = tiny_translator()
    (tmp_path / "in").write_text("a\n")
    with pytest.raises(InputError, match="--protect"):
        translate_file(translator, CONFIG, tmp_path / "in", tmp_path / "out", protect=True, linker=Linker(translator))

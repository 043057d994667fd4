from __future__ import annotations

import logging
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.base.errors import ConfigError, DataError, InputError
from clearhead.bundle.bundle import read_info
from clearhead.bundle.resolve import resolve
from clearhead.config.strict import structure
from clearhead.config.toml import load_toml
from clearhead.data.batches import BatchPlan, Cursor
from clearhead.data.config import DataConfig
from clearhead.data.store import store_key
from clearhead.models import build, presets
from clearhead.nn.padding import Padded
from clearhead.recipes.run_config import RunConfig, begun_with, compose
from clearhead.recipes.train import train
from clearhead.recipes.training_data import TrainingStream, check_text, open_stores, tokenizer_text
from clearhead.recipes.translator import Translator
from clearhead.text.symbols import EOS
from clearhead.text.tokenizer import Tokenizers

WORDS = ["red", "green", "blue", "door", "window", "lamp", "light", "garden", "kitchen", "open", "close", "turn"]
START = Cursor()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty plain pairs, twenty that end otherwise (and a blank and an over-long one), five to develop on."""
    where = tmp_path_factory.mktemp("corpus")
    plain = [f"{one} {other}" for one in WORDS[:8] for other in WORDS[:5]]
    (where / "a.en").write_text("".join(f"{line}\n" for line in plain))
    (where / "a.de").write_text("".join(f"{line.upper()}\n" for line in plain))
    back = [f"{one} {one} {other}" for one in WORDS[8:] for other in WORDS[:5]]
    rows = [*(f"{line}\t{line.title()}" for line in back), "\tblank", f"{'turn ' * 40}\tlong"]
    (where / "b.tsv").write_text("".join(f"{row}\n" for row in rows))
    (where / "dev.tsv").write_text("".join(f"{line}\t{line.upper()}\n" for line in plain[:5]))
    return where


def config(corpus: Path, out: Path, *settings: str, **data: Any) -> RunConfig:
    several = [
        {"source": str(corpus / "a.en"), "target": str(corpus / "a.de"), "weight": 1.5, "tag": "<a>"},
        {"file": str(corpus / "b.tsv"), "weight": 0.5, "tag": "<bt>"},
    ]
    text = {"train": several, "dev": {"tsv": str(corpus / "dev.tsv"), "tag": "<a>"}, **data}
    table = {
        "out": str(out),
        "data": {"languages": ["en", "de"], "max_length": 40, "batch_tokens": 100, **text},
        "tokenizer": {"vocab_size": 320},
        "model": {
            "preset": "tiny",
            "d_model": 8,
            "d_ff": 16,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "attention": {"heads": 2},
        },
        "training": {"updates": 2, "precision": "fp32", "threads": 1, "validate_every": 2, "score_every": 2},
    }
    return compose(table, {}, settings)


def changed(config: RunConfig, place: int, **values: Any) -> list[dict[str, Any]]:
    """The training corpora as tables, with `values` in one of them."""
    tables = [corpus.model_dump(exclude_none=True) for corpus in config.data.corpora]
    tables[place] |= values
    return tables


@pytest.fixture(scope="module")
def tokenizers(corpus: Path) -> Tokenizers:
    of = config(corpus, Path("unused"))
    return Tokenizers.train(of.tokenizer, lambda: tokenizer_text(of.data))


def drawn(of: RunConfig, tokenizers: Tokenizers, run: Path, cursor: Cursor = START, count: int = 0) -> list[Any]:
    """Batches from `cursor` on: `count` of them, or those of the first two epochs."""
    mixture, _ = open_stores(of.data, tokenizers, run, of.seed)
    stream = TrainingStream(mixture, of.data, 5, torch.device("cpu"))(cursor)
    if count:
        return list(islice(stream, count))
    found = []
    while not found or found[-1].cursor.epoch < 2:
        found.append(next(stream))
    return found


def test_an_epoch_holds_every_text_as_often_as_its_weight_says(
    corpus: Path, tmp_path: Path, tokenizers: Tokenizers
) -> None:
    """The very texts, counted; in two epochs a weight of 1.5 is three times and 0.5 once."""
    counts = Counter(
        tokenizers.target.decode(ids[: length - 1])
        for each in drawn(config(corpus, tmp_path), tokenizers, tmp_path)
        for ids, length in zip(each.batch.gold.ids.tolist(), each.batch.gold.lengths.tolist(), strict=True)
    )
    upper = (corpus / "a.de").read_text().splitlines()
    title = [line.split("\t")[1] for line in (corpus / "b.tsv").read_text().splitlines()[:20]]
    assert counts == Counter(upper * 3 + title)


def test_the_tag_is_one_piece_before_each_source_of_its_corpus(
    corpus: Path, tmp_path: Path, tokenizers: Tokenizers
) -> None:
    assert tokenizers.source.pieces([tokenizers.source.symbol(tag) for tag in ("<a>", "<bt>")]) == ["<a>", "<bt>"]
    for each in drawn(config(corpus, tmp_path), tokenizers, tmp_path):
        for source, gold in zip(each.batch.source.ids.tolist(), each.batch.gold.ids.tolist(), strict=True):
            tag = "<a>" if tokenizers.target.decode(gold).isupper() else "<bt>"
            assert source[0] == tokenizers.source.symbol(tag)
            assert tokenizers.source.decode(source[1:]).lower() == tokenizers.target.decode(gold).lower()


def test_any_place_of_any_epoch_can_be_entered(corpus: Path, tmp_path: Path, tokenizers: Tokenizers) -> None:
    of = config(corpus, tmp_path)
    whole = drawn(of, tokenizers, tmp_path)
    for place in (1, len(whole) // 2, len(whole) - 2):
        rest = drawn(of, tokenizers, tmp_path, whole[place].cursor, len(whole) - place - 1)
        assert [each.cursor for each in rest] == [each.cursor for each in whole[place + 1 :]]
        assert [each.pairs for each in rest] == [each.pairs for each in whole[place + 1 :]]
        assert all(torch.equal(a.batch.source.ids, b.batch.source.ids) for a, b in zip(rest, whole[place + 1 :]))


class Seen:
    """A model's encoder, which keeps what it was given."""

    def __init__(self, model: Any) -> None:
        self.rows: list[list[int]] = []
        model.encoder.register_forward_pre_hook(self._note)

    def _note(self, _: Any, given: tuple[Padded, ...]) -> None:
        ids, lengths = given[0].ids.tolist(), given[0].lengths.tolist()
        self.rows += [row[:length] for row, length in zip(ids, lengths, strict=True)]


@pytest.fixture
def translator(tokenizers: Tokenizers) -> Translator:
    sizes = {"d_model": 8, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1, "attention": {"heads": 2}}
    model = build(presets.tiny(vocab_size=tokenizers.source.vocab_size, **sizes), seed=1)
    return Translator(model, tokenizers, ("en", "de"), max_source_length=9)


def test_the_encoder_reads_when_translating_what_it_read_when_training(
    corpus: Path, tmp_path: Path, tokenizers: Tokenizers, translator: Translator
) -> None:
    """Mutant: a translator without the tag reads something else."""
    mixture, _ = open_stores(config(corpus, tmp_path).data, tokenizers, tmp_path, 1)
    sources = (corpus / "a.en").read_text().splitlines()[:3]
    trained = sorted([*mixture.stores[0].pair(i)[0], EOS] for i in range(3))
    seen = Seen(translator.model)
    translator.tagged("<a>").translate(sources, beam=1, max_length=1)
    assert sorted(seen.rows) == trained
    seen.rows.clear()
    translator.tagged("<a>").score(sources, sources)
    assert sorted(seen.rows) == trained
    seen.rows.clear()
    translator.translate(sources, beam=1, max_length=1)
    assert sorted(seen.rows) != trained


def test_every_piece_of_a_text_that_is_cut_has_the_tag(tokenizers: Tokenizers, translator: Translator) -> None:
    seen = Seen(translator.model)
    translator.tagged("<bt>").translate([" ".join(WORDS * 3)], beam=1, max_length=1)
    assert len(seen.rows) > 3
    assert {row[0] for row in seen.rows} == {tokenizers.source.symbol("<bt>")}
    assert max(len(row) for row in seen.rows) <= 9 + 1  # EOS


def test_an_unknown_tag_is_refused_naming_the_known_ones(translator: Translator) -> None:
    with pytest.raises(InputError, match="no symbol '<b>'.*; its symbols: <a>, <bt>"):
        translator.tagged("<b>")
    assert translator.tagged("<a>").tagged(None).max_source_length == translator.max_source_length


def test_a_run_tells_what_it_is_made_of_and_refuses_another_mixture(
    corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="clearhead")
    run = tmp_path / "run"
    of = config(corpus, run)
    train(of)
    for line in (
        f"data.train[0] ({corpus / 'a.en'} + {corpus / 'a.de'}): 40 of 40 pairs kept",
        f"data.train[1] ({corpus / 'b.tsv'}): 20 of 22 pairs kept, 2 dropped",
        "data.train[0]: weight 1.5, 60 pairs an epoch (85.7 %), tag <a>",
        "data.train[1]: weight 0.5, 10 pairs an epoch (14.3 %), tag <bt>",
        "60 pairs (70 an epoch by weight)",
    ):
        assert line in caplog.text
    summary = read_info(resolve(run)).training
    assert (summary["pairs"], summary["tags"]) == (60, ["<a>", "<bt>"])
    assert load_toml(run / "config.toml")["tokenizer"]["symbols"] == ["<a>", "<bt>"]
    assert train(compose(*begun_with({"out": str(run)})[:1])).already_finished
    for values, message in (
        ({"weight": 0.75}, r"data.train\[1\].weight: 0.5 → 0.75"),
        ({"tag": "<a>"}, r"data.train\[1\].tag: '<bt>' → '<a>'"),
        ({"file": str(corpus / "dev.tsv")}, r"data.train\[1\]: the text is not what"),
    ):
        with pytest.raises(ConfigError, match=message):
            train(config(corpus, run, train=changed(of, 1, **values)))
    tuned = {"model": {}, "init": str(run), "out": str(tmp_path / "tuned")}
    table = of.model_dump(mode="json", exclude_none=True, exclude={"tokenizer", "model"}) | tuned
    table["data"]["train"][1]["tag"] = "<new>"
    with pytest.raises(ConfigError, match=r"data.train\[1\].tag: '<new>' is no symbol of the tokenizer of"):
        train(compose(table))
    table["data"]["train"] = table["data"]["train"][0] | {"tag": "<bt>"}
    train(compose(table))
    assert read_info(resolve(tmp_path / "tuned")).training["tags"] == ["<bt>", "<a>"]


def test_one_corpus_shown_once_has_the_batches_of_its_store(
    corpus: Path, tmp_path: Path, tokenizers: Tokenizers
) -> None:
    """What a run got before there were several corpora: the plan of the store itself, for ever."""
    one = {"source": str(corpus / "a.en"), "target": str(corpus / "a.de")}
    of = config(corpus, tmp_path, train=one)
    mixture, _ = open_stores(of.data, tokenizers, tmp_path, of.seed)
    (store,) = mixture.stores
    assert mixture.key == store.key == store_key(of.data.corpora[0].pairs, tokenizers, 40, "tokens")
    plan = islice(BatchPlan(store, 100, 5).stream(), 60)
    for each, (indices, after) in zip(drawn(of, tokenizers, tmp_path, count=60), plan, strict=True):
        assert (each.pairs, each.cursor) == (indices.tolist(), after)
    assert after.epoch >= 2


TMX = """<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-GB"><seg>Open</seg></tuv><tuv xml:lang="de"><seg>Öffnen</seg></tuv></tu>
<tu><tuv xml:lang="en-GB"><seg>Save</seg></tuv></tu>
</body></tmx>
"""


@pytest.mark.parametrize(
    ("name", "text", "languages", "message"),
    [
        (
            "t.tmx",
            TMX,
            ["en", "fr"],
            r"data\.train: .*t\.tmx has no text in fr; there are de, en-gb: change data\.lang",
        ),
        ("t.tmx", TMX, ["nl", "fr"], r"has no text in nl or fr; there are de, en-gb"),
        (
            "t.tmx",
            TMX.replace("Öffnen", ""),
            ["en", "de"],
            r"no translation from en into de .* only 2 entries: 2 without",
        ),
        ("t.jsonl", "", ["en", "de"], r"t\.jsonl is empty"),
        ("t.po", 'msgid "a"\nmsgstr ""\n', ["en", "de"], r"only 1 entry: 1 without a translation"),
    ],
)
def test_a_file_without_a_pair_is_told_by_what_it_holds(tmp_path, caplog, name, text, languages, message):
    (tmp_path / name).write_text(text)
    data = structure(DataConfig, {"languages": languages, "train": {"file": str(tmp_path / name)}})
    with pytest.raises(DataError, match=message):
        check_text(data)
    assert len(caplog.records) <= 1

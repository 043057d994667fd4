"""`clearhead account`: the whole table, from a preset, a bundle and a run; text, JSON, plots and errors."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from clearhead.analysis.sizes import Lengths
from clearhead.base.errors import ConfigError, InputError
from clearhead.cli.main import app
from clearhead.recipes.account import Question, account, find
from tests.unit.recipes.tiny import VOCABULARY, save_tiny, tiny_bundle

HUNDRED = Question(Lengths(100, 80))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["account", *arguments])


def refused(result: Result, *words: str) -> None:
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert all(word in result.stderr for word in words), result.stderr


def test_base_by_hand() -> None:
    table = account(find("base"), HUNDRED)
    d, n, m, layers = 512, 100, 80, 6
    forward = table["operations"]["forward"]
    encoder = layers * (8 * n * d * d + 4 * n * n * d + 16 * n * d * d)
    own = layers * (8 * m * d * d + 4 * m * m * d)
    cross = layers * (4 * m * d * d + 4 * n * d * d + 4 * m * n * d)
    assert forward["total"] == encoder + own + cross + layers * 16 * m * d * d + 2 * m * d * 37000
    assert table["operations"]["backward"]["total"] == 2 * forward["total"]
    assert table["parameters"]["total"] == 63_045_632
    assert table["bytes"]["weights"] == 4 * 63_045_632
    assert table["bytes"]["kv_cache"] == {"self": 2 * 6 * 512 * 80 * 4, "cross": 2 * 6 * 512 * 100 * 4}
    assert list(table["crossovers"]["encoder"].values()) == [1024, 2048, 3072, 1024]
    assert [kind["path"] for kind in table["layer_kinds"]] == [1, 99, 50, 99, 5, 7]


def test_what_is_printed_is_compared_with_the_papers_models_only() -> None:
    found = {name: account(find(name), HUNDRED)["printed"] for name in ("base", "big")}
    assert {name: round(each["implied_vocabulary"]) for name, each in found.items()} == {"base": 40817, "big": 35856}
    assert all(each["vocabularies_that_explain_base_and_big"] is None for each in found.values())
    assert "printed" not in account(find("small"), HUNDRED)
    assert "printed" not in account(find("base", settings=["model.d_ff=1024"]), HUNDRED)


def test_the_printed_vocabulary_does_not_depend_on_the_one_that_is_given() -> None:
    one, two = (account(find("big", vocabulary), HUNDRED)["printed"] for vocabulary in (8000, 37000))
    assert one["exact"] != two["exact"]
    assert {**one, "exact": 0} == {**two, "exact": 0}


def test_a_bundle_and_its_run(tmp_path: Path) -> None:
    bundle = save_tiny(tmp_path / "run" / "checkpoints" / "step-00000003")
    table = account(find(str(bundle)), HUNDRED)
    assert table == account(find(str(tmp_path / "run")), HUNDRED)
    assert table["parameters"]["total"] == sum(tensor.numel() for tensor in tiny_bundle().model.parameters())
    assert table["bundle"] == str(bundle)
    assert f"vocabulary {VOCABULARY}" in table["title"]
    for options in ({"vocab_size": 100}, {"settings": ["model.d_ff=3"]}):
        with pytest.raises(InputError, match="is for a preset"):
            find(str(bundle), **options)


def test_the_growth_of_one_layer() -> None:
    lines = account(find("base"), Question(Lengths(8, 8), table=(512, 32768)))["lengths"]
    growth = [(line["attention_growth"], line["sublayer_growth"], line["layer_growth"]) for line in lines]
    assert growth == [(1, 1, 1), (4096, 1408, 640)]


def test_text_and_json_hold_the_same_numbers() -> None:
    options = ["tiny", "--vocab-size", "500", "--source-length", "30", "--target-length", "20", "--batch", "3"]
    text, table = run(*options).stdout, json.loads(run(*options, "--json").stdout)
    assert table["shape"] == {"source_length": 30, "target_length": 20, "batch": 3, "beam": 1, "dtype": "float32"}
    shown = set(re.findall(r"[\d,]*\d", text))

    def numbers(value: object) -> list[int]:
        if isinstance(value, dict):
            return [number for each in value.values() for number in numbers(each)]
        return [value] if isinstance(value, int) else []

    exact = numbers([]) + numbers({key: table[key] for key in ("parameters", "operations", "bytes")})
    assert len(exact) > 80
    assert {f"{number:,}" for number in exact if number} <= shown


def test_the_vocabulary_that_nobody_chose_is_told() -> None:
    for what, assumed in ((("tiny",), True), (("tiny", "--vocab-size", "4000"), False)):
        assert ("the vocabulary of 37,000 is about the paper's; --vocab-size" in run(*what).stdout) is assumed
        assert json.loads(run(*what, "--json").stdout)["vocabulary_assumed"] is assumed
        info = CliRunner().invoke(app, ["info", *what])
        assert ("--vocab-size gives another" in info.stderr) is assumed
        assert "gives another" not in info.stdout


def test_bytes_together_by_hand() -> None:
    parameters, saved = 63_045_632, account(find("base"), HUNDRED)["bytes"]["activations"]["total"]
    for beam in (1, 4):
        found = account(find("base"), Question(Lengths(100, 80), beam=beam))["bytes"]
        own, source = 2 * 6 * 512 * 80 * 4, 2 * 6 * 512 * 100 * 4
        assert found["kv_cache"] == {"self": beam * own, "cross": source}
        assert found["translating"] == 4 * parameters + beam * own + source
        assert found["training"] == 16 * parameters + saved
    text = run("base", "--beam", "4", "--target-length", "80", "--source-length", "100").stdout
    assert f"{4 * parameters + 4 * own + source:,}" in text and "float32, beam 4" in text


def test_what_is_so_at_every_length_is_no_number() -> None:
    found = account(find("base"), HUNDRED)["crossovers"]
    assert found["decoder"]["attention + projections = feed-forward"] is None
    narrow = account(find("base", settings=["model.d_ff=256"]), HUNDRED)["crossovers"]["encoder"]
    assert narrow["attention + projections = feed-forward"] is None
    assert narrow["attention = feed-forward"] == 256


@pytest.mark.parametrize("preset", ["tiny", "base", "big"])
def test_every_line_fits_a_hundred_columns(preset: str) -> None:
    sizes = ["--source-length", "4096", "--target-length", "4096", "--batch", "64", "--beam", "8"]
    text = run(preset, *sizes, "--lengths", "512,50000,2000000", "--set", "model.attention.kv_heads=1").stdout
    lines = text.splitlines()
    assert len(lines) > 80
    assert [line for line in lines if len(line) > 100] == []
    assert not re.search(r"\de[+]\d", text)


def test_growth_is_written_in_whole_numbers() -> None:
    lines = run("base", "--lengths", "512,51200").stdout.splitlines()
    (proportion,) = [place for place, line in enumerate(lines) if line.startswith("the same in proportion")]
    assert lines[proportion + 3].split() == ["51,200", "25.500", "10,000", "3,400", "1,514"]
    (sizes,) = [place for place, line in enumerate(lines) if line.startswith("bytes over n tokens")]
    assert "one encoder layer" in lines[sizes + 1] and "the decoder's own cache" in lines[sizes + 1]


def test_one_way_of_decoding_when_asked_for() -> None:
    for option, left_out in (("--cache", "without_cache"), ("--no-cache", "with_cache")):
        operations = json.loads(run("tiny", option, "--json").stdout)["operations"]
        assert left_out not in operations
        assert {"with_cache", "without_cache"} & operations.keys()
        assert run("tiny", option).exit_code == 0


def test_bytes_follow_the_type() -> None:
    full, half = (account(find("tiny"), Question(Lengths(9, 9), dtype=dtype)) for dtype in ("float32", "bfloat16"))
    for part in ("weights", "gradients", "adam_moments"):
        assert full["bytes"][part] == 2 * half["bytes"][part]
    assert full["operations"] == half["operations"]


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_plot(kind: str, tmp_path: Path) -> None:
    image = tmp_path / f"layer.{kind}"
    told = run("base", "--plot", str(image), "--json")
    assert told.exit_code == 0 and f"wrote {image}" in told.stderr and json.loads(told.stdout)
    first = image.read_bytes()
    if kind == "svg":
        assert ElementTree.fromstring(first).tag.endswith("svg")
    else:
        assert first.startswith(b"\x89PNG")
    assert run("base", "--plot", str(image)).exit_code == 0
    assert image.read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == [image.name]


def test_mistakes_are_told(tmp_path: Path) -> None:
    refused(run("bse"), "bse", "did you mean 'base'?", "tiny, small, base, big")
    refused(run("base", "--dtype", "float23"), "float23", "did you mean 'float32'?")
    refused(run("base", "--lengths", "10,x"), "--lengths 10,x", "'x' is no length")
    refused(run("base", "--lengths", "10,0"), "'0' is no length")
    refused(run("base", "--kernel", "4"), "kernel 4", "odd")
    refused(run("base", "--plot", str(tmp_path / "a.pdf")), "a.pdf", ".png or .svg")
    refused(run("base", "--plot", str(tmp_path / "none" / "a.png")), "a.png", "No such file")
    refused(run("base", "--set", "model.heads=4"), "heads")
    refused(run("base", "--set", "training.updates=4"), "training", "keys of the model")
    for setting in ("foo", "=3", "model.=3"):
        refused(run("base", "--set", setting), f"--set {setting}: expected KEY=VALUE, such as model.attention.heads=4")
    refused(run("base", "--set", "dropot=0.1"), "keys of the model", "did you mean 'model.dropout'?")
    refused(run("base", "--beam", "0"), "--beam")
    refused(run("base", "--set", "model.vocab_size=4"), "--vocab-size")
    refused(run("base", "--set", "model.d_model=500"), "500", "heads 8")
    learnt = ["--set", 'model.positions={kind = "learned", max_positions = 50}']
    refused(run("base", *learnt), "length 64", "50 positions")
    with pytest.raises(ConfigError, match="expected a key"):
        find("base", settings=["model=3"])
    with pytest.raises(InputError, match="-1 is below 1"):
        Question(Lengths(1, 1), table=(-1,))
    with pytest.raises(InputError, match="beam 0"):
        Question(Lengths(1, 1), beam=0)


def test_no_picture_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    refused(run("base", "--plot", str(tmp_path / "a.png")), r"clearhead[plots]")
    assert run("base").exit_code == 0

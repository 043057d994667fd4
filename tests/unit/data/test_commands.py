"""`clearhead data` through its own command-line application."""

import json
import subprocess
import sys
import zipfile

import pytest
from typer.testing import CliRunner

from clearhead.base.errors import ClearheadError, InputError
from clearhead.cli.data import app
from clearhead.data.split import normal_key
from clearhead.formats.lines import read_lines
from clearhead.recipes.data import split_corpus
from clearhead.text.tokenizer import TokenizerConfig, Tokenizers


def call(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def corpus(tmp_path):
    source = [f"Sentence {'abcdefghijklmnopqrstuvwxyz'[i % 26]} {i}" for i in range(120)]
    (tmp_path / "c.en").write_text("".join(f"{line}\n" for line in source))
    (tmp_path / "c.de").write_text("".join(f"Satz {i}\u2028\n" for i in range(120)))
    return [tmp_path / "c.en", tmp_path / "c.de"]


def test_list_names_corpora_sizes_and_licences():
    assert "home-assistant" in call("list").stdout
    rows = json.loads(call("list", "--json").stdout)
    assert rows[0]["pairs"]["en-de"] == 24_647
    assert rows[0]["licence"] == "Apache-2.0"


def test_get_from_a_wheel_that_is_there(tmp_path):
    file = tmp_path / "w.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for language, text in (("en", "On"), ("de", "An")):
            archive.writestr(f"homeassistant/components/a/translations/{language}.json", json.dumps({"k": text}))
    result = call("get", "home-assistant", "--pair", "en-de", "--out", tmp_path / "o", "--wheel", file)
    assert result.exit_code == 0, result.output
    assert "1 pairs written" in result.stdout
    assert (tmp_path / "o" / "corpus.de").read_text() == "An\n"


def test_split_writes_six_aligned_files_without_overlap(corpus, tmp_path):
    result = call("split", *corpus, "--out", tmp_path / "s", "--dev", 3, "--test", 4, "--seed", 2)
    assert result.exit_code == 0, result.output
    sides = {
        part: (list(read_lines(tmp_path / "s" / f"{part}.en")), list(read_lines(tmp_path / "s" / f"{part}.de")))
        for part in ("train", "dev", "test")
    }
    assert [len(en) for en, _ in sides.values()] == [len(de) for _, de in sides.values()]
    assert (len(sides["dev"][0]), len(sides["test"][0])) == (3, 4)
    pairs = set(zip(read_lines(corpus[0]), read_lines(corpus[1]), strict=True))
    assert all(set(zip(*side, strict=True)) <= pairs for side in sides.values())
    keys = {part: {normal_key(line) for line in en} for part, (en, _) in sides.items()}
    assert not keys["train"] & (keys["dev"] | keys["test"])
    record = json.loads((tmp_path / "s" / "split.json").read_text())
    assert (record["by"], record["seed"], record["train"]) == ("strict", 2, len(sides["train"][0]))


def test_split_of_a_tsv_and_named_endings(tmp_path):
    (tmp_path / "c.tsv").write_text("".join(f"word{chr(97 + i)}\twort{i}\n" for i in range(20)))
    split_corpus([tmp_path / "c.tsv"], tmp_path / "plain", dev=1, test=1, seed=0)
    assert (tmp_path / "plain" / "test.source").exists()
    result = call("split", tmp_path / "c.tsv", "--out", tmp_path / "s", "--dev", 1, "--test", 1, "--languages", "en-de")
    assert result.exit_code == 0
    assert (tmp_path / "s" / "train.de").read_text().count("\n") == 18


def test_split_never_writes_over_what_is_not_its_own(corpus, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "dev.en").write_text("mine\n")
    with pytest.raises(InputError, match="no earlier split's"):
        split_corpus(corpus, tmp_path / "s", dev=1, test=1, seed=0)
    assert (tmp_path / "s" / "dev.en").read_text() == "mine\n"
    split_corpus(corpus, tmp_path / "t", dev=1, test=1, seed=0)
    split_corpus(corpus, tmp_path / "t", dev=2, test=1, seed=0)  # its own files may be replaced
    assert json.loads((tmp_path / "t" / "split.json").read_text())["dev"] == 2


def test_split_never_writes_over_its_own_corpus(tmp_path):
    for name in ("train.en", "train.de"):
        (tmp_path / name).write_text("a\nb\nc\n")
    with pytest.raises(InputError, match="part of the corpus"):
        split_corpus([tmp_path / "train.en", tmp_path / "train.de"], tmp_path, dev=1, test=1, seed=0)


def test_unequal_files_are_refused_before_anything_is_written(corpus, tmp_path):
    corpus[1].write_text("one line\n")
    result = call("split", *corpus, "--out", tmp_path / "s", "--dev", 1, "--test", 1)
    assert isinstance(result.exception, ClearheadError)
    assert "120 lines" in str(result.exception)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("command", [["check"], ["split", "--out", "never-written"]])
def test_standard_input_is_refused_because_a_corpus_is_read_twice(command):
    result = call(*command, "-")
    assert isinstance(result.exception, InputError)
    assert "read twice" in str(result.exception)


def test_check_prints_a_report_and_exits_2_on_errors(corpus, tmp_path):
    clean = call("check", *corpus)
    assert clean.exit_code == 0
    assert "120 pairs" in clean.stdout
    held_out = tmp_path / "test.en"
    held_out.write_text("Sentence b 1\nsomething else\n")
    leaking = call("check", *corpus, "--against", held_out, "--json")
    assert leaking.exit_code == 2
    findings = {f["name"]: f for f in json.loads(leaking.stdout)["findings"]}
    assert findings["held-out text in corpus"]["lines"] == [2]


@pytest.mark.parametrize("command", [[], ["list"], ["get"], ["check"], ["split"]])
def test_help_says_what_a_command_does(command):
    result = call(*command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_no_data_command_imports_torch(corpus, tmp_path):
    code = (
        "import sys\n"
        "from clearhead.cli.data import app\n"
        f"for a in ({['list']!r}, {['check', *map(str, corpus)]!r}, "
        f"{['split', *map(str, corpus), '--out', str(tmp_path / 's'), '--dev', '1', '--test', '1']!r}):\n"
        "    app(a, standalone_mode=False)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_check_takes_languages_and_a_file_of_any_format(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"source": "Hello, how are you?", "target": "Привет, как у тебя дела?"}\n')
    result = call("check", tmp_path / "c.jsonl", "--languages", "en-de", "--json")
    assert result.exit_code == 0, result.output
    (finding,) = json.loads(result.stdout)["findings"]
    assert (finding["name"], finding["places"]) == ("wrong target script", ["line 1"])
    assert json.loads(result.stdout)["train"]["by"] == "blank sides only"


def test_filter_writes_what_is_kept_and_says_why_the_rest_is_not(tmp_path):
    rows = [("one {n}", "eins {n}"), ("two {n}", "zwei"), ("", "drei"), ("four", "four"), ("five", "fünf")]
    (tmp_path / "c.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    out, dropped = [tmp_path / "k.en", tmp_path / "k.de.gz"], tmp_path / "d.jsonl"
    result = call("filter", tmp_path / "c.tsv", "--out", out[0], "--out", out[1], "--dropped", dropped)
    assert result.exit_code == 0, result.output
    assert "2 of 5 pairs kept, 3 dropped" in result.stdout
    assert list(zip(*map(read_lines, out), strict=True)) == [rows[0], rows[4]]
    assert [json.loads(line) for line in read_lines(dropped)] == [
        {"where": f"line {number}", "reasons": [reason], "source": rows[number - 1][0], "target": rows[number - 1][1]}
        for number, reason in ((2, "placeholders differ"), (3, "empty source"), (4, "identical sides"))
    ]
    result = call("filter", tmp_path / "c.tsv", "--out", tmp_path / "k.jsonl", "--dropped", dropped, "--json",
                  "--only", "empty-source", "--drop", "identical-sides", "--keep", "empty-source")  # fmt: skip
    assert json.loads(result.stdout) == {
        "read": 5,
        "kept": 4,
        "dropped": 1,
        "rules": [{"name": "identical sides", "count": 1, "alone": 1}],
    }


def test_filter_leaves_no_file_when_it_fails(tmp_path):
    (tmp_path / "c.tsv").write_text("one\teins\nno tab\n")
    kept, dropped = tmp_path / "k.tsv", tmp_path / "d.jsonl"
    result = call("filter", tmp_path / "c.tsv", "--out", kept, "--dropped", dropped)
    assert isinstance(result.exception, ClearheadError)
    assert "line 2" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["c.tsv"]


def test_filter_never_writes_over_what_it_reads(tmp_path):
    (tmp_path / "c.tsv").write_text("one\teins\n")
    for out, dropped in ((tmp_path / "c.tsv", tmp_path / "d"), (tmp_path / "k.tsv", tmp_path / "k.tsv")):
        result = call("filter", tmp_path / "c.tsv", "--out", out, "--dropped", dropped)
        assert isinstance(result.exception, InputError)
    assert (tmp_path / "c.tsv").read_text() == "one\teins\n"
    assert isinstance(
        call(
            "filter", tmp_path / "c.tsv", "--out", tmp_path / "k.tsv", "--dropped", tmp_path / "d", "--only", "x"
        ).exception,
        InputError,
    )


def test_check_counts_what_is_too_long_for_the_tokenizer_of_a_model(corpus, tmp_path):
    bundle = tmp_path / "model"
    texts = [tuple(read_lines(path)) for path in corpus]
    tokenizers = Tokenizers.train(TokenizerConfig(vocab_size=300), lambda: zip(*texts, strict=True))
    tokenizers.save(bundle / "tokenizer")
    (bundle / "bundle.toml").touch()
    longest = [max(len(a), len(b)) for a, b in zip(*(getattr(tokenizers, side).encode_all(lines) for side, lines in
               zip(("source", "target"), texts, strict=True)), strict=True)]  # fmt: skip
    limit = sorted(longest)[len(longest) // 2]
    result = call("check", *corpus, "--bundle", bundle, "--max-length", limit, "--json")
    assert result.exit_code == 0, result.output
    train = json.loads(result.stdout)["train"]
    assert train["kept"] == sum(length <= limit for length in longest)
    assert 0 < train["kept"] < len(longest)
    assert f"more than {limit} tokens of {bundle}" in train["by"]

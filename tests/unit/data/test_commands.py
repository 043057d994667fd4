"""`clearhead data` through its own command-line application."""

import json
import os
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


def poem(tmp_path, count=20, name="c.jsonl", text="word{}"):
    """A corpus whose source number 7, counted from 1, is another text."""
    rows = [{"source": f"word{chr(97 + i)}", "target": f"wort{i}"} for i in range(count)]
    rows[6]["source"] = text
    (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / name


@pytest.mark.parametrize("text", ["two\nlines", "end\r"])
def test_what_lines_cannot_hold_is_told_by_the_entry_of_the_corpus_and_may_become_a_space(tmp_path, text):
    corpus = poem(tmp_path, text=text)
    split = ["split", corpus, "--out", tmp_path / "a" / "s", "--dev", 1, "--test", 1]
    sieve = ["filter", corpus, "--out", tmp_path / "k.tsv", "--dropped", tmp_path / "d", "--only", "identical-sides"]
    for command in (split, sieve):
        message = str(call(*command).exception)
        assert f"{corpus}, line 7: " in message
        assert "--breaks space" in message
        assert [path.name for path in tmp_path.iterdir()] == ["c.jsonl"]  # no directory that is empty either
    for command in (split, sieve):
        result = call(*command, "--breaks", "space")
        assert result.exit_code == 0, result.output
    spaced = text.replace("\n", " ").replace("\r", " ")
    parts = [list(read_lines(tmp_path / "a" / "s" / f"{part}.source")) for part in ("train", "dev", "test")]
    assert sum(part.count(spaced) for part in parts) == 1
    assert spaced in [line.split("\t")[0] for line in read_lines(tmp_path / "k.tsv")]


def test_a_split_refuses_a_text_that_would_read_back_otherwise(tmp_path):
    corpus = poem(tmp_path, count=8)
    corpus.write_text('{"source": "\\ufeffone", "target": "eins"}\n' + corpus.read_text())
    result = call("split", corpus, "--out", tmp_path / "s", "--dev", 0, "--test", 0)
    assert "c.jsonl, line 1: " in str(result.exception)
    assert "byte order mark" in str(result.exception)
    assert not (tmp_path / "s").exists()


def test_one_ending_for_both_sides_is_refused(corpus, tmp_path):
    for names in ("en-en", "EN-en"):
        result = call("split", *corpus, "--out", tmp_path / "s", "--dev", 1, "--test", 1, "--languages", names)
        assert isinstance(result.exception, InputError)
        assert "both" in str(result.exception)
    with pytest.raises(InputError, match="two different endings"):
        split_corpus(corpus, tmp_path / "s", dev=1, test=1, seed=0, names=("x", "x"))
    assert not (tmp_path / "s").exists()


def test_a_split_never_leaves_the_files_of_another_beside_its_own(corpus, tmp_path):
    split_corpus(corpus, tmp_path / "s", dev=1, test=1, seed=0)
    before = {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()}
    with pytest.raises(InputError, match=r"other endings \(train\.de, .*test\.de\)"):
        split_corpus(corpus, tmp_path / "s", dev=1, test=1, seed=1, names=("en", "fr"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()} == before
    (tmp_path / "s" / "train.xx").write_text("mine\n")
    for old in (tmp_path / "s").glob("*.de"):
        old.unlink()
    with pytest.raises(InputError, match=r"train\.xx is there and no earlier split's"):
        split_corpus(corpus, tmp_path / "s", dev=1, test=1, seed=1, names=("en", "xx"))
    assert (tmp_path / "s" / "train.xx").read_text() == "mine\n"


def test_a_seed_beyond_all_measure_is_refused(corpus, tmp_path):
    for seed in (2**127, -(2**127) - 1):
        result = call("split", *corpus, "--out", tmp_path / "s", "--seed", seed)
        assert isinstance(result.exception, InputError), result.exception
    with pytest.raises(InputError, match="--seed must be"):
        split_corpus(corpus, tmp_path / "s", dev=1, test=1, seed=2**5000)


def test_names_and_terminals_that_are_not_utf8_end_in_no_traceback(tmp_path):
    name = os.fsdecode(b"caf\xe9.tsv")
    (tmp_path / name).write_text("".join(f"wört{chr(97 + i)}\twort{i}\n" for i in range(20)))
    program = [sys.executable, "-c", "from clearhead.cli.main import main; main()", "data"]
    for command in (
        ["split", name, "--out", os.fsdecode(b"s\xe9"), "--dev", "1", "--test", "1"],
        ["check", name],
        ["check", name, "--json"],
    ):
        run = subprocess.run(
            [*program, *command], cwd=tmp_path, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}
        )
        assert b"Traceback" not in run.stderr, run.stderr
        assert b"\\udce9" in run.stdout
        if "--json" in command:
            assert json.loads(run.stdout)["corpus"] == name
    assert json.loads((tmp_path / os.fsdecode(b"s\xe9") / "split.json").read_bytes())["corpus"] == [name]


@pytest.fixture
def bundle(corpus, tmp_path):
    texts = [tuple(read_lines(path)) for path in corpus]
    settings = TokenizerConfig(vocab_size=300, symbols=("<2de>",))
    Tokenizers.train(settings, lambda: zip(*texts, strict=True)).save(tmp_path / "model" / "tokenizer")
    (tmp_path / "model" / "bundle.toml").touch()
    return tmp_path / "model"


def test_check_counts_the_tag_as_a_token_of_the_source(corpus, bundle):
    source = Tokenizers.load(bundle / "tokenizer").source.encode_all(list(read_lines(corpus[0])))
    target = Tokenizers.load(bundle / "tokenizer").target.encode_all(list(read_lines(corpus[1])))
    limit = sorted(map(len, source))[60]
    pairs = [(len(one), len(other)) for one, other in zip(source, target, strict=True)]
    for options, taken in (((), 0), (("--tag", "<2de>"), 1)):
        result = call("check", *corpus, "--bundle", bundle, "--max-length", limit, "--json", *options)
        assert json.loads(result.stdout)["train"]["kept"] == sum(
            one + taken <= limit and other <= limit for one, other in pairs
        )
    assert sum(one == limit >= other for one, other in pairs) > 0  # the tag makes a difference
    unknown = call("check", *corpus, "--bundle", bundle, "--tag", "<2fr>")
    assert isinstance(unknown.exception, InputError)
    assert "its symbols: <2de>" in str(unknown.exception)


@pytest.mark.parametrize("options", [("--max-length", "9"), ("--tag", "<2de>")])
def test_what_needs_a_tokenizer_is_refused_without_one(corpus, options):
    result = call("check", *corpus, *options)
    assert isinstance(result.exception, InputError)
    assert f"{options[0]} needs" in str(result.exception)


def test_of_a_corpus_that_training_refuses_it_would_use_nothing(corpus):
    corpus[1].write_text("one\ntwo\n")
    assert "training would use none of them: it refuses the text (line counts differ)" in call("check", *corpus).stdout
    train = json.loads(call("check", *corpus, "--json").stdout)["train"]
    assert (train["kept"], train["refused"]) == (0, ["line counts differ"])


def test_a_filter_without_a_rule_is_refused(corpus, tmp_path):
    result = call("filter", *corpus, "--out", tmp_path / "k.tsv", "--dropped", tmp_path / "d",
                  "--only", "too-long", "--keep", "too-long")  # fmt: skip
    assert isinstance(result.exception, InputError)
    assert "no rule is left" in str(result.exception)
    assert not (tmp_path / "k.tsv").exists()


ROWS = [("one {n}", "eins"), ("two", "zwei")]


@pytest.mark.parametrize(
    ("name", "line", "options"),
    [
        ("c.tsv", "{0}\tnote\t{1}\n", ("--columns", "1,3")),
        ("c.tsv", "{1}\t{0}\n", ("--columns", "2,1")),
        ("c.jsonl", '{{"en": "{0}", "de": "{1}"}}\n', ("--fields", "en,de")),
        ("c.log", '{{"source": "{0}", "target": "{1}"}}\n', ("--from", "jsonl")),
    ],
)
def test_check_and_filter_find_the_texts_where_they_are_told_to(tmp_path, name, line, options):
    (tmp_path / name).write_text("".join(line.format(*row) for row in ROWS))
    result = call("check", tmp_path / name, "--json", *options)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert {finding["name"] for finding in report["findings"]} == {"placeholders differ"}
    assert report["examples"] == {"1": list(ROWS[0])}
    out = [tmp_path / "k.en", tmp_path / "k.de"]
    result = call("filter", tmp_path / name, "--out", out[0], "--out", out[1], "--dropped", tmp_path / "d", *options)
    assert result.exit_code == 0, result.output
    assert list(zip(*map(read_lines, out), strict=True)) == ROWS[1:]
    held_out = call("check", tmp_path / name, "--against", tmp_path / name, "--json", *options)
    if name != "c.log":  # whose format only --from tells, and that is of the corpus alone
        assert [f["count"] for f in json.loads(held_out.stdout)["findings"] if "held-out" in f["name"]] == [2]


def test_columns_and_fields_are_refused_where_there_are_none(corpus, tmp_path):
    for option in (("--columns", "2,1"), ("--fields", "a,b")):
        for command in (("check",), ("filter", "--out", tmp_path / "k.tsv", "--dropped", tmp_path / "d")):
            result = call(*command, *corpus, *option)
            assert isinstance(result.exception, InputError)
            assert option[0] in str(result.exception)


def test_a_line_without_its_column_is_named(tmp_path):
    (tmp_path / "c.tsv").write_text("a\tb\tc\nd\te\n")
    result = call("check", tmp_path / "c.tsv", "--columns", "1,3", "--json")
    (finding,) = (f for f in json.loads(result.stdout)["findings"] if f["level"] == "error")
    assert (finding["name"], finding["lines"]) == ("no tab", [2])


def test_a_directory_and_one_side_alone_are_told_as_what_they_are(corpus, tmp_path):
    result = call("check", tmp_path)
    assert isinstance(result.exception, InputError)
    assert "is a directory" in str(result.exception)
    result = call("check", corpus[0])
    assert result.exit_code == 2
    assert "name the other file as well" in result.stdout


def test_a_split_of_nothing_is_warned_of(tmp_path, caplog):
    (tmp_path / "c.po").write_text('msgid "a"\nmsgstr ""\n')
    result = call("split", tmp_path / "c.po", "--out", tmp_path / "s", "--dev", 0, "--test", 0)
    assert result.exit_code == 0
    assert f"{tmp_path / 'c.po'}: no pair was found" in caplog.text

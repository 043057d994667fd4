"""The program from outside: what goes where, exit codes, and no traceback for a user's mistake."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import clearhead
from clearhead.cli import translate as command
from clearhead.cli.main import app
from clearhead.engine.library import absence, library
from clearhead.recipes import searching as module
from tests.unit.recipes.tiny import save_tiny, tiny_translator

LINES = ["the cat", "", "mat\u2028cat", "  ", "Really?"]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("bundles") / "tiny"))


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(app, arguments, input=text.encode())


def refused(result: Result, code: int, *words: str) -> None:
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in result.stderr
    assert all(word in result.stderr for word in words), result.stderr


def test_standard_output_carries_translations_only(bundle: str) -> None:
    result = run("translate", bundle, "--max-length", "5", text=TEXT)
    assert result.exit_code == 0, result.output
    expected = [each.text for each in tiny_translator().translate(LINES, max_length=5)]
    assert result.stdout_bytes.decode().split("\n") == [*expected, ""]
    assert "score log P(Y|X) / ((5 + |Y|) / 6)^0.6" in result.stderr
    assert "5 lines" in result.stderr


def test_files_and_json(bundle: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(TEXT, encoding="utf-8")
    result = run(
        "translate",
        bundle,
        str(tmp_path / "in"),
        "-o",
        str(tmp_path / "out"),
        "--json",
        "--n-best",
        "2",
        "--max-length",
        "5",
    )
    assert result.exit_code == 0
    assert result.stdout == ""
    tables = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").split("\n")[:-1]]
    assert len(tables) == 5
    assert {"text", "tokens", "score", "flags"} <= tables[0].keys()
    assert len(tables[0]["alternatives"]) == 1
    assert tables[1]["flags"] == ["blank"]
    assert tables[1]["text"] == ""


def test_search_options_reach_the_search(bundle: str) -> None:
    options = ["--beam", "2", "--alpha", "1.5", "--penalty", "length", "--min-length", "2", "--max-length", "3"]
    result = run("translate", bundle, *options, text="the cat\n")
    assert "beam 2, score log P(Y|X) / |Y|^1.5" in result.stderr
    expected = tiny_translator().translate(["the cat"], beam=2, alpha=1.5, penalty="length", min_length=2, max_length=3)
    assert result.stdout == f"{expected[0].text}\n"


def test_sampling_options_turn_sampling_on(bundle: str) -> None:
    one, same, other = (
        run("translate", bundle, "--temperature", "2", "--max-length", "9", "--seed", seed, text=TEXT).stdout
        for seed in ("1", "1", "2")
    )
    assert one == same != other


def test_an_ensemble_from_the_command_line(bundle: str, tmp_path: Path) -> None:
    second = str(save_tiny(tmp_path / "second", seed=1))
    alone = run("translate", bundle, "--max-length", "5", text=TEXT)
    both = run("translate", bundle, "--ensemble", second, "--max-length", "5", text=TEXT)
    assert both.exit_code == 0
    assert both.stdout != alone.stdout
    assert f"{bundle} + {second}" in both.stderr


def test_evaluate_takes_a_bundle_or_a_file(bundle: str, tmp_path: Path) -> None:
    (tmp_path / "s").write_text(TEXT, encoding="utf-8")
    run("translate", bundle, str(tmp_path / "s"), "-o", str(tmp_path / "h"), "--max-length", "5")
    paths = ["-s", str(tmp_path / "s"), "-r", str(tmp_path / "s")]
    first = run("evaluate", bundle, *paths, "--max-length", "5")
    second = run("evaluate", str(tmp_path / "h"), "-r", str(tmp_path / "s"), "--languages", "en-de")
    assert first.exit_code == second.exit_code == 0
    assert first.stdout == second.stdout
    assert "BLEU" in first.stdout
    assert "nrefs:1" in first.stdout
    piped = run("evaluate", bundle, *paths, "--max-length", "5", "-o", "-")
    assert piped.stdout == (tmp_path / "h").read_text(encoding="utf-8")  # without the scores
    assert "BLEU" in piped.stderr
    table = json.loads(
        run("evaluate", str(tmp_path / "h"), "-r", str(tmp_path / "h"), "--languages", "de", "--json").stdout
    )
    assert table["chrf"]["value"] == pytest.approx(100.0)
    refused(run("evaluate", str(tmp_path / "h"), "-r", str(tmp_path / "s")), 2, "--languages is missing")
    refused(run("evaluate", bundle, "-r", str(tmp_path / "s")), 2, "--source is missing")
    refused(run("evaluate", bundle, *paths, "--languages", "en-fr"), 2, "the model translates en→de")


def test_score_and_info(bundle: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("die\nKatze\n", encoding="utf-8")
    result = run("score", bundle, "-s", str(tmp_path / "t"), "-t", str(tmp_path / "t"))
    assert result.exit_code == 0
    assert [len(line.split("\t")) for line in result.stdout.splitlines()] == [2, 2]
    assert "perplexity" in result.stderr
    assert "63,045,632" in run("info", "base").stdout
    assert json.loads(run("info", bundle, "--json").stdout)["languages"] == ["en", "de"]


def test_mistakes_are_told_without_a_traceback(bundle: str, tmp_path: Path) -> None:
    refused(run("translate", str(tmp_path / "absent"), text="x"), 2, "absent", "no such bundle")
    refused(run("translate", bundle, str(tmp_path / "absent")), 2, "absent", "cannot be read")
    refused(
        run("translate", bundle, "--beam", "2", "--n-best", "3", "--json", text="x"), 2, "n_best 3 is more than beam 2"
    )
    refused(run("translate", bundle, "--n-best", "2", text="x"), 2, "--n-best needs --json")
    refused(run("translate", bundle, "--top-p", "3", text="x"), 2, "top_p")
    refused(run("info", "bse"), 2, "did you mean 'base'?")
    for usage in (
        ["translate"],
        ["translate", bundle, "--beem", "3"],
        ["translate", bundle, "--beam", "x"],
        ["nonsense"],
    ):
        result = run(*usage)
        assert result.exit_code == 2
        assert "Traceback" not in result.output


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\rb", "a\nerror: b", "a\x9b31mb", "a\u202eb", "a\u2066b", "a\x7fb"])
def test_what_the_user_wrote_is_shown_to_the_terminal_and_not_obeyed(bundle: str, tmp_path: Path, name: str) -> None:
    """The name of a file that is there and cannot be used, of one that is not, of an option and of a command."""
    (tmp_path / name).write_text("neither a model nor text\n")
    for arguments in (
        ["translate", str(tmp_path / name), "-o", str(tmp_path / "out")],
        ["translate", bundle, str(tmp_path / name / "below")],
        ["info", bundle, f"--{name}"],
        [name],
        [f"--{name}", "info", bundle],
    ):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", result.stderr)
        assert sum(line.lower().startswith("error: ") for line in result.stderr.splitlines()) == 1
        assert re.search(rf"a\\([rn]|(x|u0*)?{ord(name[1]):02x})", result.stderr), result.stderr


def test_an_option_that_would_change_nothing_is_refused(bundle: str, tmp_path: Path) -> None:
    text = str(tmp_path / "text")
    Path(text).write_text(TEXT, encoding="utf-8")
    for arguments, option in (
        (["translate", bundle, "--seed", "3"], "--seed changes nothing"),
        (["translate", bundle, "--sample", "--beam", "3"], "--beam is for a search"),
        (["translate", bundle, "--top-k", "3", "--beam", "3"], "--beam is for a search"),
        (["translate", bundle, "--penalty", "none", "--alpha", "0.6"], "--alpha is the exponent"),
        (["translate", bundle, "--reproducible", "--batch-tokens", "99"], "--batch-tokens and --reproducible"),
        (["evaluate", bundle, "-s", text, "-r", text, "--penalty", "none", "--alpha", "1"], "--alpha is the exponent"),
        (["evaluate", bundle, "-s", "-", "-r", "-"], "standard input"),
        (["score", bundle, "-s", text, "-t", text, "--alpha", "1", "--penalty", "gnmt"], "--penalty and --alpha need"),
        (["score", bundle, "-s", text, "-t", text, "--alpha", "1"], "--alpha needs --json"),
        (["info", bundle, "--vocab-size", "100"], "--vocab-size is for a preset"),
    ):
        refused(run(*arguments, text="x"), 2, option)
    assert run("info", "tiny", "--vocab-size", "100").exit_code == 0
    assert run("score", bundle, "-s", text, "-t", text, "--alpha", "1", "--json").exit_code == 0


@pytest.mark.parametrize(
    "option",
    [
        "--source=x",
        "--output=x",
        "--ensemble=x",
        "--beam=1",
        "--penalty=none",
        "--alpha=1",
        "--max-length=5",
        "--weights=auto",
        "--device=auto",
        "--threads=1",
        "--batch-tokens=5",
        "--reproducible",
    ],
)
def test_a_file_of_translations_takes_no_option_that_says_how_to_translate(option: str, tmp_path: Path) -> None:
    (tmp_path / "h").write_text("die Katze\n")
    start = ["evaluate", str(tmp_path / "h"), "-r", str(tmp_path / "h"), "--languages", "de"]
    refused(run(*start, option), 2, f"{option.partition('=')[0]}: for a BUNDLE only")


def test_every_option_of_evaluate_is_for_a_bundle_or_for_both() -> None:
    """Or a new option would be ignored in silence beside a file of translations."""
    from clearhead.cli.evaluate import FOR_A_BUNDLE, evaluate

    both = {"context", "what", "reference", "languages", "json_output"}
    assert {*FOR_A_BUNDLE, *both} == set(inspect.signature(evaluate).parameters)


def test_learnt_positions_from_end_to_end(tmp_path: Path) -> None:
    """Text beyond the last position that the model learnt is translated in pieces or refused by name."""
    positions = {"kind": "learned", "max_positions": 16}
    bundle = str(save_tiny(tmp_path / "bundle", positions=positions))
    long = "the cat Anna sat on the mat. Really, it did! the cat Bert sat on the mat."
    lines = ["mat", long, "", "the cat"]
    (tmp_path / "s").write_text("".join(f"{line}\n" for line in lines))
    result = run("translate", bundle, str(tmp_path / "s"), "--json")
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert "split" in found[1]["flags"]
    assert not any("failed" in each["flags"] for each in found)
    assert all(len(each["tokens"]) <= 15 for each in (found[0], found[3]))
    alone = [json.loads(run("translate", bundle, "--json", text=line + "\n").stdout) for line in (lines[0], lines[3])]
    assert [found[0]["text"], found[3]["text"]] == [each["text"] for each in alone]
    evaluated = run("evaluate", bundle, "-s", str(tmp_path / "s"), "-r", str(tmp_path / "s"), "-o", str(tmp_path / "h"))
    assert evaluated.exit_code == 0
    assert (tmp_path / "h").read_bytes().decode().split("\n") == [*(each["text"] for each in found), ""]
    assert "length ≤ source × 1 + 50 tokens, at most 15" in evaluated.stderr
    # A longer limit than the model has positions, or a forced beginning beyond them.
    assert "failed" not in run("translate", bundle, str(tmp_path / "s"), "--json", "--max-length", "99").stdout
    (tmp_path / "p").write_text(f"\n{long}\n\n\n")
    forced = run("translate", bundle, str(tmp_path / "s"), "--json", "--prefix-file", str(tmp_path / "p"))
    refused(forced, 1, "text 2 failed", "16 positions", "1 of 4 lines failed and are empty: 2")
    assert [json.loads(line)["text"] for line in forced.stdout.splitlines()][::3] == [
        found[0]["text"],
        found[3]["text"],
    ]
    # A pair is scored whole or not at all: half of it would be another pair's probability.
    (tmp_path / "t").write_text("mat\nmat\nmat\n" + long + "\n")
    scored = run("score", bundle, "-s", str(tmp_path / "s"), "-t", str(tmp_path / "t"))
    refused(scored, 1, "pair 2 failed", "pair 4 failed", "learnt 16 positions", "2 of 4 lines could not be scored")
    assert [line.split("\t")[0] == "nan" for line in scored.stdout.splitlines()] == [False, True, False, True]


def test_reproducible_from_the_command_line(bundle: str) -> None:
    lines = [f"the {'cat ' * (n % 9)}{n}" for n in range(20)]
    start = ["translate", bundle, "--reproducible", "--json", "--max-length", "5"]
    plain = {line: run(*start, text=line + "\n").stdout for line in lines[:3]}
    together = run(*start, text="".join(f"{line}\n" for line in lines[::-1]))
    assert "reproducible" in together.stderr
    found = dict(zip(lines[::-1], together.stdout.splitlines(), strict=True))
    assert all(f"{found[line]}\n" == alone for line, alone in plain.items())


def test_failed_lines_are_written_empty_and_told_at_the_end(bundle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.search

    def fussy(model: object, source: object, *rest: object, keys: list[int], **named: object) -> object:
        if 4 in keys:
            raise RuntimeError("no")
        return real(model, source, *rest, keys=keys, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "search", fussy)
    result = run("translate", bundle, "--max-length", "5", "--engine", "plain", text=TEXT)
    refused(result, 1, "standard input: 1 of 5 lines failed and are empty: 5")
    assert result.stdout_bytes.decode().split("\n")[:-1][:3] == [
        each.text for each in tiny_translator().translate(LINES[:3], max_length=5)
    ]
    assert len(result.stdout_bytes.decode().split("\n")) == 6


def test_an_interruption_ends_with_130(bundle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command.shared, "open_translator", interrupted)
    refused(run("translate", bundle, text="x"), 130, "interrupted")


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_a_signal_leaves_nothing_behind(bundle: str, tmp_path: Path, name: str, code: int) -> None:
    out = tmp_path / "out"
    program = [sys.executable, "-m", "clearhead", "--quiet", "translate", bundle, "-o", str(out), "--max-length", "2"]
    with subprocess.Popen([*program, "--window", "1"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stderr
        process.stdin.write(b"the cat\n" * 2)
        process.stdin.flush()
        while not list(tmp_path.iterdir()):  # it writes to a temporary beside the output, and waits for more to read
            assert process.poll() is None
            time.sleep(0.02)
        for _ in range(1 if name == "SIGINT" else 2):  # `timeout` sends it twice: to its child, then to the group
            process.send_signal(signal.Signals[name])
        told = process.stderr.read().decode()
        assert process.wait(100) == code
    assert told == f"error: {'interrupted' if name == 'SIGINT' else f'ended by {name}'}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_fault_of_ours_keeps_its_traceback(bundle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise AssertionError("a fault")

    monkeypatch.setattr(command.shared, "open_translator", broken)
    assert isinstance(run("translate", bundle, text="x").exception, AssertionError)


def test_a_reader_that_leaves_ends_the_program_quietly(bundle: str) -> None:
    program = [sys.executable, "-m", "clearhead", "--quiet", "translate", bundle, "--max-length", "2", "--window", "1"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(b"the cat\n" * 2)
        process.stdin.flush()
        process.stdout.readline()  # an answer comes while the input is still open
        process.stdout.close()
        process.stdin.write(b"the cat\n" * 50)
        process.stdin.close()
        assert process.wait(100) == 0
        assert process.stderr.read() == b""


def test_version() -> None:
    """With what decides how quick it is, of which nothing heavy is imported."""
    code = "import sys; from clearhead.cli.main import app; app(standalone_mode=False); print('torch' in sys.modules)"
    for wish, told in (
        ("0", "no native library: turned off by CLEARHEAD_NATIVE=0"),
        ("portable", "native library: portable"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, "--version"],
            capture_output=True,
            text=True,
            env={**os.environ, "CLEARHEAD_NATIVE": wish},
        )
        native = told if wish == "0" or library() is not None else f"no native library: {absence()}"
        torch = f"torch {metadata.version('torch')}"
        assert done.stdout == f"clearhead {clearhead.__version__} ({torch}; {native})\nFalse\n", done.stderr


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, clearhead; dir(clearhead); clearhead.__version__; clearhead.ClearheadError; "
        "print([name for name in ('torch', 'numpy', 'pydantic', 'sentencepiece', 'typer') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_public_names_are_found_and_others_are_not() -> None:
    assert set(clearhead.__all__) <= set(dir(clearhead))
    assert all(getattr(clearhead, name) is not None for name in clearhead.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        clearhead.nonsense  # noqa: B018

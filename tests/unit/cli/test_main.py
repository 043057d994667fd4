"""The program from outside: what goes where, exit codes, and no traceback for a user's mistake."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import clearhead
from clearhead.cli import translate as command
from clearhead.cli.main import app
from clearhead.recipes import translator as module
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


def test_failed_lines_are_written_empty_and_told_at_the_end(bundle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.search

    def fussy(model: object, source: object, *rest: object, keys: list[int], **named: object) -> object:
        if 4 in keys:
            raise RuntimeError("no")
        return real(model, source, *rest, keys=keys, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "search", fussy)
    result = run("translate", bundle, "--max-length", "5", text=TEXT)
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
    assert run("--version").stdout == f"clearhead {clearhead.__version__}\n"


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

"""What the READMEs claim beyond the existence of commands (`test_commands.py`): values, recipes, figures, parity.

Both READMEs are one text in two languages: the same sections, commands, code, recipes, links and figures. Commands are
given to the program's own parser, `train` as far as the checked configuration; Python runs against a small model.
"""

import ast
import re
import shlex
import subprocess
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer.main

from clearhead.cli.main import app
from clearhead.config.toml import load_toml
from clearhead.recipes.run_config import RunConfig, compose
from tests.docs.test_commands import SHELL, blocks, shown
from tests.unit.recipes.tiny import save_tiny

ROOT = Path(__file__).parents[2]
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"
BOTH = [ENGLISH, CHINESE]
DESIGN = sorted((ROOT / "docs" / "design").glob("*.md"))
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# A figure stands by itself, not in a name such as bf16 or U+2028. Only ASCII letters count: Chinese ones touch figures.
FIGURE = re.compile(r"(?<![A-Za-z0-9_.+/@-])\d+(?:[.,]\d+)*(?![A-Za-z0-9_@])")


def sections(page: Path) -> list[tuple[int, str]]:
    """(level, text below) for each heading in order; the first is what stands under the title."""
    parts = re.split(r"^(#+) .*$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [(len(level), text) for level, text in zip(parts[1::2], parts[2::2])]


def figures(text: str) -> Counter[str]:
    """The numbers of running text and tables: not those in code, links or blocks."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", FENCED.sub(" ", text))
    return Counter(FIGURE.findall(plain))


@pytest.mark.parametrize("page", BOTH, ids=lambda page: page.name)
def test_no_figure_is_left_open(page: Path) -> None:
    assert sorted(set(re.findall(r"@@\w*@?@?", page.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize("page", BOTH, ids=lambda page: page.name)
def test_the_shell_understands_every_block(page: Path) -> None:
    for body in blocks(page, SHELL):
        checked = subprocess.run(["bash", "-n"], input=body, text=True, capture_output=True)
        assert checked.returncode == 0, f"{page.name}: {body}{checked.stderr}"


# ------------------------------------------------------------------------------------------------------- commands


def parse(words: list[str]) -> tuple[Any, Any]:
    """The command and its context as the program itself parses `clearhead …`; raises typer's usage errors."""
    command, rest, context = typer.main.get_command(app), words[1:], None
    while hasattr(command, "commands"):
        context = command.make_context(rest[0] if context is None else context.info_name, [rest[0]], parent=context)
        command, rest = command.commands[rest[0]], rest[1:]
    return command, command.make_context(words[1], list(rest), parent=context)


@pytest.mark.parametrize("page", BOTH, ids=lambda page: page.name)
def test_every_command_has_what_it_needs_and_no_wrong_value(page: Path) -> None:
    found = shown(page, "clearhead")
    assert {words[1] for words in found} >= {"data", "train", "translate", "evaluate", "score", "average", "info"}
    for words in found:
        try:
            parse(words)
        except Exception as error:  # typer's own usage errors, of a class that typer does not name
            pytest.fail(f"{shlex.join(words)}: {error}")


@pytest.mark.parametrize(
    "line",
    [
        "clearhead data split a.en a.de --out x --by fuzzy",
        "clearhead data get home-assistant",
        "clearhead translate runs/x --beam 0",
        "clearhead evaluate runs/x",
    ],
)
def test_a_wrong_value_and_a_missing_one_are_noticed(line: str) -> None:
    with pytest.raises(Exception, match="(?i)not one of|missing|greater than"):
        parse(shlex.split(line))


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> list[RunConfig]:
    """What `clearhead train` would train; it trains nothing."""
    seen: list[RunConfig] = []

    def train(config: RunConfig, *, fresh: bool = False) -> Any:
        seen.append(config)
        return type("Result", (), {"exit_code": 0})

    monkeypatch.setattr("clearhead.recipes.train.train", train)
    monkeypatch.chdir(ROOT)
    return seen


def test_every_train_command_gives_a_valid_configuration(configured: list[RunConfig]) -> None:
    runs = set()
    for words in shown(ENGLISH, "clearhead"):
        if words[1] != "train":
            continue
        command, context = parse(words)
        given = {name for name, value in context.params.items() if value}
        if given <= {"out", "settings"}:  # it goes on with a run that an earlier command has begun
            assert str(context.params["out"]) in runs, shlex.join(words)
            continue
        command.invoke(context)
        runs.add(configured[-1].out)
    assert {"runs/mine", "runs/small", "runs/small-2", "runs/fine-tuned", "runs/adapted"} <= runs


def test_a_run_that_is_used_was_made() -> None:
    """`runs/…` in a command or in Python is what a command before it wrote."""
    text = ENGLISH.read_text(encoding="utf-8")
    made = {"runs/demo-en-de", "runs/demo-en-zh", *re.findall(r"(?:--out|-o) (runs/[\w-]+)", text)}
    made |= {load_toml(ROOT / recipe)["out"] for recipe in re.findall(r"train (recipes/[\w-]+\.toml)", text)}
    assert set(re.findall(r"runs/[a-z][\w-]*", text)) <= made


# -------------------------------------------------------------------------------------------------------- recipes


@pytest.mark.parametrize("page", BOTH, ids=lambda page: page.name)
def test_the_recipe_shown_is_valid(page: Path) -> None:
    shown_recipes = list(blocks(page, {"toml"}))
    assert shown_recipes
    for body in shown_recipes:
        compose(tomllib.loads(body), where=page.name)


@pytest.mark.parametrize("pair", ["en-de", "en-zh"])
def test_the_demo_recipe_is_what_the_demo_trains(pair: str) -> None:
    from clearhead.recipes.demo import recipe

    shipped = compose(load_toml(ROOT / "recipes" / f"demo-{pair}.toml"))
    assert shipped == recipe(pair, Path("data/home-assistant") / pair / "strict", Path(f"runs/demo-{pair}"))


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_the_commands_in_a_recipe_parse(path: Path) -> None:
    for line in re.findall(r"^#\s+(clearhead .*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        parse(shlex.split(line))


# --------------------------------------------------------------------------------------------------------- Python


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory where the runs that the README's Python loads are small models that know nothing."""
    for number, name in enumerate(["demo-en-de", "small", "small-2"]):
        save_tiny(tmp_path / "runs" / name, seed=number)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", BOTH, ids=lambda page: page.name)
def test_python_runs(page: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bodies = list(blocks(page, {"python"}))
    assert len(bodies) >= 3
    for body in bodies:
        exec(compile(body, page.name, "exec"), {})
    lines = capsys.readouterr().out.split("\n")
    # Two translations, one scored pair, one list of three samples, three layers of attention; no error message.
    assert len(lines) == 8
    assert lines[-1] == ""
    assert [line.rpartition(" torch.Size")[0] for line in lines[4:7]] == ["encoder 1", "decoder 1", "cross 1"]
    assert len(ast.literal_eval(lines[3])) == 3


# ---------------------------------------------------------------------------------------------------------- parity


def test_both_have_the_same_sections_with_the_same_figures_and_code() -> None:
    english, chinese = sections(ENGLISH), sections(CHINESE)
    assert [level for level, _ in english] == [level for level, _ in chinese]
    for number, ((_, ours), (_, theirs)) in enumerate(zip(english, chinese)):
        assert figures(ours) == figures(theirs), f"figures of section {number}"
        for pattern in (r"`([^`\n]+)`", r"@@\w+@@", r"\]\((?!README)([^)]*)\)"):
            plain = (FENCED.sub(" ", text).replace(".zh.md", ".md").replace("/zh/", "/en/") for text in (ours, theirs))
            first, second = (set(re.findall(pattern, text)) for text in plain)
            assert first == second, f"section {number}"


def test_both_have_the_same_recipe_and_the_same_program() -> None:
    tables = [[tomllib.loads(body) for body in blocks(page, {"toml"})] for page in BOTH]
    assert tables[0] == tables[1]
    programs = [[ast.dump(ast.parse(body)) for body in blocks(page, {"python"})] for page in BOTH]
    assert programs[0] == programs[1]


def test_a_figure_that_differs_would_be_noticed() -> None:
    assert figures("about 30 BLEU, 24,647 pairs, bf16, `5`") == Counter({"30": 1, "24,647": 1})
    assert figures("约 30 BLEU，共24,647句对，bf16") == figures("about 30 BLEU, 24,647 pairs")
    assert figures("约 31 BLEU") != figures("about 30 BLEU")


# --------------------------------------------------------------------------------------------------------- figures


def test_parameter_counts_are_those_of_the_presets() -> None:
    from clearhead.recipes.info import describe_preset

    row = r"^\| `(\w+)` \|.*\| ([\d,]+) \| (\d) \+ (\d) \| ([\d,]+) \| ([\d,]+) \|$"
    rows = re.findall(row, ENGLISH.read_text(encoding="utf-8"), re.MULTILINE)
    assert [row[0] for row in rows] == ["tiny", "small", "base", "big"]
    for name, *numbers in rows:
        d_model, encoder, decoder, parameters, vocabulary = (int(number.replace(",", "")) for number in numbers)
        table = describe_preset(name, vocabulary)
        model = table["model"]
        assert (model["d_model"], model["encoder_layers"], model["decoder_layers"]) == (d_model, encoder, decoder)
        assert table["parameters"]["total"] == parameters


def test_corpus_sizes_are_those_of_the_registry() -> None:
    from clearhead.data.corpora import CORPORA

    text = ENGLISH.read_text(encoding="utf-8")
    for name in ("home-assistant", "libreoffice-help"):
        assert f"{CORPORA[name].pairs['en-de']:,} pairs" in text


def test_signatures_are_those_that_the_scores_carry() -> None:
    from clearhead.metrics.scores import score_corpus

    for language in ("de", "zh"):
        scores = score_corpus(["a b c d"], ["a b c d"], target_language=language)
        for signature in (scores.bleu.signature, scores.chrf.signature):
            for page in BOTH:
                text = page.read_text(encoding="utf-8")
                assert signature in text or re.search(r"tok:\w+", signature)[0] in text  # type: ignore[index]


def test_every_library_of_the_project_is_accounted_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["plots"], *extras["tensorboard"], *extras["formats"]]
    names = {re.split(r"[><=~! ]", requirement)[0] for requirement in wanted}
    for page in BOTH:
        rows = re.findall(r"^\| ([\w-]+)(?: ?[(（].*)? \|", sections(page)[-2][1], re.MULTILINE)
        assert set(rows[1:]) - {"---"} == names


# ---------------------------------------------------------------------------------------------------- design pages


def test_the_index_lists_every_design_page() -> None:
    index = (ROOT / "docs" / "design" / "README.md").read_text(encoding="utf-8")
    pages = [page.name for page in DESIGN if page.name != "README.md"]
    assert re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", index) == pages


@pytest.mark.parametrize("page", DESIGN, ids=lambda page: page.stem)
def test_files_that_a_design_page_names_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:[\w-]+/)+[\w.-]*\.(?:py|toml|md|txt))`", text):
        assert (ROOT / name).exists() or (ROOT / "src" / "clearhead" / name).exists(), f"{page.name}: {name}"
    for name in re.findall(r"\]\(([^)#:]+\.md)\)", text):
        assert (page.parent / name).exists(), f"{page.name}: {name}"


def test_names_on_the_page_of_seams_exist() -> None:
    """Each identifier that the page shows in an indented block is defined somewhere in the package."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "clearhead").rglob("*.py"))
    page = (ROOT / "docs" / "design" / "0001-seams.md").read_text(encoding="utf-8")
    shown_code = "\n".join(line for line in page.split("\n") if line.startswith("    "))
    names = set(re.findall(r"\b([A-Za-z]\w*_\w+|[A-Z][a-z]+[A-Z]\w*)\b", shown_code))
    assert len(names) > 60
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", source)) == []

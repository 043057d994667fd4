"""The guide to other programs: commands that exist, imports that work, and the same in both languages."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from clearhead.export.ctranslate import ACTIVATIONS as CTRANSLATE2
from clearhead.export.marian import ACTIVATIONS as MARIAN
from tests.docs.test_commands import FENCE, faults, shown

PAGES = sorted((Path(__file__).parents[2] / "docs" / "guide").glob("exchange*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_commands_exist(page: Path) -> None:
    commands = shown(page, "clearhead")
    assert {words[1] for words in commands} == {"export", "import", "translate"}
    assert [fault for words in commands for fault in faults(words)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_it_imports_of_ours_is_there(page: Path) -> None:
    seen = 0
    for language, body in FENCE.findall(page.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(body)) if language == "python" else ():
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("clearhead"):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, alias.name) for alias in node.names)
                seen += 1
    assert seen == 2


def test_both_languages_say_the_same() -> None:
    assert [page.name for page in PAGES] == ["exchange.md", "exchange.zh.md"]
    english, chinese = (page.read_text(encoding="utf-8") for page in PAGES)
    assert FENCE.findall(english) == FENCE.findall(chinese)
    for pattern in (r"^#+ ", r"^\|", r"^- ", r"`[^`\n]+`", r"(?<![\w.])\d+(?:\.\d+)?"):
        ours, theirs = (sorted(re.findall(pattern, FENCE.sub("", text), re.MULTILINE)) for text in (english, chinese))
        assert ours == theirs, pattern


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_table_lists_the_activations(page: Path) -> None:
    row = next(
        line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `model.activation`")
    )
    _, _, first, second, _ = row.split("|")
    assert set(re.findall(r"`(\w+)`", first)) == set(CTRANSLATE2)
    assert set(re.findall(r"`(\w+)`", second)) == set(MARIAN)

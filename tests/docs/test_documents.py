"""The page on documents shows commands that exist, the same in both languages, and marks that files really get."""

import re
from pathlib import Path

import pytest

from clearhead.formats import jsonl, po_entry, tmx, xliff
from tests.docs.test_commands import FENCE, SHELL, blocks, faults, shell_commands

PAGES = sorted((Path(__file__).parents[2] / "docs" / "guide").glob("documents*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shown_commands_exist(page: Path) -> None:
    shown = [words for body in blocks(page, SHELL) for words in shell_commands(body)]
    assert len(shown) >= 7
    assert [fault for words in shown for fault in faults(words)] == []


def test_both_languages_show_the_same() -> None:
    assert [page.name for page in PAGES] == ["documents.md", "documents.zh.md"]
    english, chinese = (page.read_text("utf-8") for page in PAGES)
    assert FENCE.findall(english) == FENCE.findall(chinese)
    code = [sorted(set(re.findall(r"`([^`\n]+)`", FENCE.sub("", page)))) for page in (english, chinese)]
    assert code[0] == code[1]
    headings = [re.findall(r"^(#+) ", page, re.MULTILINE) for page in (english, chinese)]
    assert headings[0] == headings[1]


def test_marks_are_those_of_the_formats() -> None:
    text = PAGES[0].read_text("utf-8")
    sources = {module: Path(str(module.__file__)).read_text("utf-8") for module in (jsonl, po_entry, tmx, xliff)}
    assert jsonl.NEEDS_REVIEW in text
    for module, mark in (
        (po_entry, "#, fuzzy"),
        (tmx, '<prop type="x-state">needs-review</prop>'),
        (xliff, "needs-review-translation"),
        (xliff, "clearhead:needs-review"),
    ):
        assert mark in text
        assert mark in sources[module]

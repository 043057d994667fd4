"""The page on accounts shows commands that exist, what they really print, and the same in both languages."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clearhead.cli.main import app
from tests.docs.test_commands import FENCE, SHELL, blocks, faults, shell_commands

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("account*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shown_commands_exist(page: Path) -> None:
    shown = [words for body in blocks(page, SHELL) for words in shell_commands(body)]
    assert len(shown) >= 4
    assert [fault for words in shown for fault in faults(words)] == []


def test_the_output_is_what_the_command_prints() -> None:
    (words,) = [words for body in blocks(PAGES[0], SHELL) for words in shell_commands(body) if "--lengths" in words]
    printed = CliRunner().invoke(app, words[1:]).stdout.splitlines()
    shown = [line for body in blocks(PAGES[0], {"text"}) for line in body.splitlines()]
    assert len(shown) > 40
    assert [line for line in shown if line not in printed] == []


def test_both_languages_show_the_same() -> None:
    assert [page.name for page in PAGES] == ["account.md", "account.zh.md"]
    english, chinese = (page.read_text("utf-8") for page in PAGES)
    assert FENCE.findall(english) == FENCE.findall(chinese)
    code = [sorted(set(re.findall(r"`([^`\n]+)`", FENCE.sub("", page)))) for page in (english, chinese)]
    assert code[0] == code[1]
    headings = [re.findall(r"^(#+) ", page, re.MULTILINE) for page in (english, chinese)]
    assert headings[0] == headings[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
    assert len(targets) == 2
    assert [target for target in targets if not (page.parent / target).exists()] == []

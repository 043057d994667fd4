"""What is shown of `clearhead account`: commands that exist, what they really print, the same in both languages."""

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


# ------------------------------------------------------------------------------------------------------ the handbook

HANDBOOK = sorted((GUIDE.parent / "transformer").glob("[ez][nh]/*.md"))
COSTS = [page for page in HANDBOOK if page.name == "l8-accounts.md"]


def test_commands_that_the_handbook_shows_exist() -> None:
    shown = [words for page in HANDBOOK for body in blocks(page, SHELL) for words in shell_commands(body)]
    assert {words[1] for words in shown if words[0] == "clearhead"} >= {"verify", "account", "walk"}
    scripts = {words[-1] for words in shown if words[0] == "python3"}
    assert scripts == {"docs/transformer/verify.py"}
    assert [fault for words in shown if words[0] != "python3" for fault in faults(words)] == []


@pytest.mark.parametrize("page", COSTS, ids=lambda page: page.parent.name)
def test_the_output_in_the_handbook_is_what_the_command_prints(page: Path) -> None:
    (words,) = [words for body in blocks(page, SHELL) for words in shell_commands(body)]
    printed = CliRunner().invoke(app, words[1:]).stdout.splitlines()
    shown = [line for body in blocks(page, {"text"}) for line in body.splitlines()]
    assert len(shown) > 10
    assert [line for line in shown if line not in printed] == []

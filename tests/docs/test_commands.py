"""The commands that the READMEs and CONTRIBUTING.md show exist: every subcommand, option, make target and file.

They are read, not run (the system tests run such commands, on small data); what is checked is that a reader who types
them is not told "no such option".
"""

import ast
import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.cli.main import app
from tests.shape.command_line import commands

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("README*.md"), ROOT / "CONTRIBUTING.md"])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = {"bash", "sh", "shell", "console"}
SEPARATORS = {"|", "||", "&&", ";", "&", "<", ">", ">>", "2>"}


def blocks(page: Path, languages: set[str]) -> Iterator[str]:
    """The fenced blocks of `page` in one of `languages`."""
    for language, body in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in languages:
            yield body


def shell_commands(body: str) -> Iterator[list[str]]:
    """The simple commands of a block as words: continued lines joined, prompts and comments dropped, pipes cut."""
    for line in body.replace("\\\n", " ").split("\n"):
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, "|"]:
            if word in SEPARATORS:
                if words:
                    yield words
                words = []
            else:
                words.append(word)


@cache
def tree() -> dict[tuple[str, ...], Any]:
    return dict(commands(app))


def faults(words: list[str]) -> list[str]:
    """What the program would complain about in `clearhead …`: unknown commands and options, too many arguments."""
    path: tuple[str, ...] = ()
    rest = words[1:]
    while rest and (*path, rest[0]) in tree():
        path, rest = (*path, rest[0]), rest[1:]
    if hasattr(tree()[path], "commands") and rest != ["--help"]:
        return [f"no such command: {' '.join(words)}"]
    options = {spelling: p for p in tree()[path].params for spelling in [*p.opts, *p.secondary_opts]}
    room = [p.nargs for p in tree()[path].params if p.param_type_name == "argument"]
    found, given = [], 0
    while rest:
        word, rest = rest[0], rest[1:]
        if word == "-" or not word.startswith("-"):
            given += 1
            continue
        name, equals, _ = word.partition("=")
        if name == "--help":
            continue
        if name not in options:
            found.append(f"no such option: {' '.join((*path, name))}")
        elif not equals and not options[name].is_flag:
            rest = rest[1:]
    if given > sum(room) and -1 not in room:
        found.append(f"{given} arguments where {' '.join(path)} takes {sum(room)}")
    return found


def shown(page: Path, program: str) -> list[list[str]]:
    """Every command of `page` that calls `program`, by name or by its path in .venv."""
    words = [command for body in blocks(page, SHELL) for command in shell_commands(body)]
    return [command for command in words if command[0] in {program, f".venv/bin/{program}"}]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shown_commands_exist(page: Path) -> None:
    assert [fault for words in shown(page, "clearhead") for fault in faults(words)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shown_make_targets_exist(page: Path) -> None:
    for words in shown(page, "make"):
        for target in [word for word in words[1:] if "=" not in word]:
            asked = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
            assert asked.returncode == 0, f"{page.name}: {' '.join(words)}: {asked.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_use_names_that_exist(page: Path) -> None:
    for body in blocks(page, {"python"}):
        for node in ast.walk(ast.parse(body)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("clearhead"):
                module = importlib.import_module(str(node.module))
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == [], page.name
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "clearhead":
                assert node.attr in clearhead.__all__, f"{page.name}: clearhead.{node.attr}"


def test_the_readmes_show_the_same_commands() -> None:
    shells = {page.name: [words for body in blocks(page, SHELL) for words in shell_commands(body)] for page in PAGES}
    readmes = {name: commands for name, commands in shells.items() if name.startswith("README")}
    assert len(readmes) == 2, "one README in English, one in Chinese"
    english, chinese = readmes.values()
    assert english == chinese
    assert any(words[:2] == ["make", "demo"] for words in english)


def test_relative_links_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []


@pytest.mark.parametrize(
    "line",
    [
        "clearhead trian --out runs/x",
        "clearhead data fetch name",
        "clearhead train --no-such-option 1",
        "clearhead info one two three",
    ],
)
def test_a_wrong_command_is_recognised(line: str) -> None:
    (words,) = shell_commands(line)
    assert faults(words) != []


def test_shell_is_read_as_a_shell_reads_it() -> None:
    body = (
        "$ clearhead info \\\n    base # a comment\ncat a.txt | clearhead translate runs/x > out.txt\n\n# only this\n"
    )
    assert list(shell_commands(body)) == [
        ["clearhead", "info", "base"],
        ["cat", "a.txt"],
        ["clearhead", "translate", "runs/x"],
        ["out.txt"],
    ]

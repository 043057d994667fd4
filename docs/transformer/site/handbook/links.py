"""What every page's frame says: the language switch, the foot of the page, and the theme's words in Chinese."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes

from handbook.numbers import Shown
from handbook.words import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

__all__ = ["numbers_in", "setup"]


# The theme's own texts that Sphinx has no Chinese for.
_CHINESE = {
    "Next": "下一页",
    "Previous": "上一页",
    "Home": "首页",
    "On this page": "本页内容",
    "Back to top": "回到顶部",
    "Skip to content": "跳到正文",
    "Made with": "制作工具：",
}


def _in_chinese(otherwise: Callable[[str], str]) -> Callable[[str], str]:
    def translate(text: str) -> str:
        return _CHINESE.get(text.strip()) or otherwise(text)

    return translate


def _languages(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    here = "zh" if app.config.language.startswith("zh") else "en"
    page = f"{pagename}.html"
    if here == "zh":
        context["_"] = context["gettext"] = _in_chinese(app.builder.templates.environment.globals["gettext"])
    context["languages"] = [
        {"name": name, "code": code, "here": tree == here, "href": page if tree == here else f"../{tree}/{page}"}
        for tree, code, name in (("en", "en", "English"), ("zh", "zh-CN", "中文"))
    ]


def numbers_in(document: nodes.document) -> int:
    """How many numbers of a page are compared: those in its text, and the cells of its figures."""
    shown = sum(1 for _ in document.findall(Shown))
    return shown + sum(raw.astext().count("data-fact=") for raw in document.findall(nodes.raw))


def _count(app: Sphinx, env: BuildEnvironment) -> None:
    _numbers["all"] = sum(numbers_in(env.get_doctree(page)) for page in env.found_docs)


_numbers: dict[str, int] = {}  # of all pages of this build


def _foot(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    say = words(app.config.language)
    checked = {kind: context.get(f"checked_{kind}") for kind in ("facts", "modules", "arithmetic")}
    if checked["facts"] is None:
        told = say["unchecked"]
    else:
        told = say["numbers"].format(numbers=_numbers["all"], facts=checked["facts"])
        told += say["one_road" if checked["modules"] is None else "roads"].format(**checked)
    context["foot"] = {**say, "checked": told}


def setup(app: Sphinx) -> None:
    """Give each page's template the list `languages` and the words of its foot."""
    app.connect("html-page-context", _languages)
    app.connect("html-page-context", _foot)
    app.connect("env-check-consistency", _count)

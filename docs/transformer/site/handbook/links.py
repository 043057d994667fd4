"""What every page's frame says: the language switch, and the theme's words in Chinese."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from docutils import nodes
    from sphinx.application import Sphinx

__all__ = ["setup"]


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


def setup(app: Sphinx) -> None:
    """Give each page's template the list `languages`."""
    app.connect("html-page-context", _languages)

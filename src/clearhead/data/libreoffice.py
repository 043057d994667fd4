"""Parallel paragraphs of LibreOffice's help, read out of Debian's packages.

Debian has one package a language; its pages have the same names in each, and a paragraph keeps its id in translation.
Manual prose of 17 words on average: a second domain beside interface strings.
"""

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

from clearhead.base.errors import DataError, InputError
from clearhead.data.extraction import Extraction
from clearhead.data.packages import download_debs, read_deb

__all__ = ["SHA256", "extract", "fetch", "paragraphs"]

MEMBER = re.compile(r"(?:\./)?usr/share/libreoffice/help/([A-Za-z-]+)/text/(.+\.html)")
# language code → name of the package and of its folder
LANGUAGES = {"en": ("en-us", "en-US"), "zh": ("zh-cn", "zh-CN"), "pt": ("pt", "pt"), "pt-br": ("pt-br", "pt-BR")}
SHA256 = {
    "libreoffice-help-en-us_4%3a7.4.7-1+deb12u14_all.deb": (
        "8faa840285734d6cfe1ed25537b48f07e74bd6412e3917bf8e5f8a653f7b3712"
    ),
    "libreoffice-help-de_4%3a7.4.7-1+deb12u14_all.deb": (
        "00490b63c509ac96f7f212d6a6e40452d3e0d1f97ccf4b824dd5ec4c01e8277f"
    ),
    "libreoffice-help-fr_4%3a7.4.7-1+deb12u14_all.deb": (
        "c796530d3e95af1ea4d054076682efc8aad2b569ae9513f3d4a776b2df3fd206"
    ),
    "libreoffice-help-zh-cn_4%3a7.4.7-1+deb12u14_all.deb": (
        "db867cdece4c2f9c7eebe65e519c6cf386fdcf49d6e061db3dffec893b3e1dee"
    ),
}
BLOCKS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6"})
OTHER_SYSTEM = "MAC"  # what is shown on a Mac alone stands in the page beside what is shown elsewhere


def fetch(directory: Path, source: str, target: str) -> list[Path]:
    """Download the packages of two languages into `directory`. Raises InputError."""
    return download_debs([f"libreoffice-help-{_language(code)[0]}" for code in (source, target)], directory)


def extract(packages: Sequence[Path], source: str, target: str) -> Extraction:
    """The paragraphs that both languages have, page by page in alphabetical order.

    White space is collapsed, as a browser does. Raises InputError when a language is not in the packages.
    """
    result = Extraction()
    pages = _pages(packages, {_language(code)[1]: code for code in (source, target)}, result.packages)
    for code in (source, target):
        if not pages[code]:
            names = ", ".join(path.name for path in packages) or "no package"
            raise InputError(
                f"no help pages in language {code!r} in {names}; give libreoffice-help-{_language(code)[0]}"
            )
    for name in sorted(pages[source]):
        translated = dict(paragraphs(pages[target].get(name, "")))
        for key, text in paragraphs(pages[source][name]):
            if key in translated:
                result.add(text, translated[key])
    return result


def paragraphs(page: str) -> Iterator[tuple[str, str]]:
    """(id, text) of each paragraph and heading of a help page that has an id, in their order; the first of an id."""
    reader = _Paragraphs()
    reader.feed(page)
    reader.close()
    yield from reader.found.items()


class _Paragraphs(HTMLParser):
    """Collects the text of blocks with an id."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: dict[str, str] = {}
        self._block = ""
        self._key = ""
        self._text: list[str] = []
        self._hidden: list[bool] = []  # for each open span: is it meant for another system?

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if not self._block:
            if tag in BLOCKS and values.get("id"):
                self._block, self._key, self._text, self._hidden = tag, values["id"] or "", [], []
        elif tag == "span":
            self._hidden.append(OTHER_SYSTEM in (values.get("class") or "").split())
        elif tag == "br":
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if not self._block:
            return
        if tag == self._block:
            self.found.setdefault(self._key, " ".join("".join(self._text).split()))
            self._block = ""
        elif tag == "span" and self._hidden:
            self._hidden.pop()

    def handle_data(self, data: str) -> None:
        if self._block and not any(self._hidden):
            self._text.append(data)


def _pages(packages: Sequence[Path], folders: dict[str, str], used: list[Path]) -> dict[str, dict[str, str]]:
    """{language code: {page name: HTML}} for {folder: language code}; the packages that have any join `used`."""
    pages: dict[str, dict[str, str]] = {code: {} for code in folders.values()}
    for package in packages:
        for name, content in read_deb(package, MEMBER):
            match = MEMBER.fullmatch(name)
            if match and match[1] in folders:
                if package not in used:
                    used.append(package)
                try:
                    pages[folders[match[1]]][match[2]] = content.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(f"{package}: {name} is not UTF-8 ({error})") from None
    return pages


def _language(code: str) -> tuple[str, str]:
    return LANGUAGES.get(code.lower(), (code.lower(), code))

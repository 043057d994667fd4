"""Small edits of XML markup that is kept as somebody wrote it."""

import re

from clearhead.formats.scanner import Element, Record

__all__ = ["insertion", "new_tag", "with_attributes"]

_ATTRIBUTE = re.compile(r"\s+([^\s=]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_NAME = re.compile(r"<[^\s/>]+")
_OWN_LINE = re.compile(r"\r?\n[ \t]*\Z")
_DEEPEST_INDENT = 256


def with_attributes(tag: str, values: dict[str, str]) -> str:
    """A start tag with these attributes: those it has get the value in their place, the others stand at its end.

    >>> with_attributes("<target state='new' xml:lang='de'>", {"state": "final", "note": "x"})
    '<target state="final" xml:lang=\\'de\\' note="x">'

    The values are written as they are, in double quotes.
    """
    left = dict(values)

    def replaced(match: re.Match[str]) -> str:
        value = left.pop(match[1], None)
        return match[0] if value is None else match[0][: -len(match[2])] + f'"{value}"'

    name = _NAME.match(tag)
    start = name.end() if name else 0
    end = len(tag.removesuffix(">").removesuffix("/").rstrip())
    attributes = _ATTRIBUTE.sub(replaced, tag[start:end])
    return tag[:start] + attributes + "".join(f' {name}="{value}"' for name, value in left.items()) + tag[end:]


def new_tag(model: str, name: str) -> str:
    """The start tag of an element that is to stand beside another and may hold what that one holds.

    It has the prefix of the model's name, the namespaces that it declares, and its way with white space.

    >>> new_tag('<x:source xml:lang="en" xml:space="preserve">', "target")
    '<x:target xml:space="preserve">'
    """
    match = _NAME.match(model)
    prefix, colon, _ = (match[0][1:] if match else "").rpartition(":")
    kept = [
        attribute[0]
        for attribute in _ATTRIBUTE.finditer(model)
        if attribute[1] in ("xmlns", "xml:space") or attribute[1].startswith("xmlns:")
    ]
    return f"<{prefix}{colon}{name}{''.join(kept)}>"


def insertion(record: Record, element: Element) -> str:
    """What to write between an element and markup put behind it: the line break and indent before it, if it has any."""
    width = _DEEPEST_INDENT * (2 if record.encoding.startswith("utf-16") else 1)
    before = record.raw[max(0, element.start - width) : element.start].decode(record.encoding, "replace")
    match = _OWN_LINE.search(before)
    return "" if match is None else match[0]

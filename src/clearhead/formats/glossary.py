"""Glossary files: one term a line, source and target separated by a tab.

    # a comment
    server<TAB>Server<TAB>i
    machine translation<TAB>maschinelle Übersetzung

A third column `i` matches the source whatever the case of its letters. Lines that begin with `#` and blank lines are
passed over, spaces at the ends of a column are dropped. Compression and encoding are those of `formats/lines.py`.
"""

from pathlib import Path

from clearhead.base.errors import DataError
from clearhead.formats.lines import display_name, read_lines
from clearhead.text.glossary import Glossary, Term

__all__ = ["read_glossary"]


def read_glossary(path: str | Path) -> Glossary:
    """The terms of a glossary file.

    Raises DataError naming file and line for a line that is no term: no tab, an empty side, a third column that is
    not `i`, a source that is too long or holds a placeholder, or one that has another target in a line before.
    """
    seen: dict[tuple[str, bool], tuple[int, str]] = {}
    terms = []
    for number, line in enumerate(read_lines(path), 1):
        if line.startswith("#") or not line.strip():
            continue
        try:
            term = _term(line)
            key = (term.source.casefold() if term.any_case else term.source, term.any_case)
            first, target = seen.setdefault(key, (number, term.target))
            if target != term.target:
                raise DataError(
                    f"{term.source!r} is {term.target!r} here, but {target!r} in line {first}: leave out one of them"
                )
        except DataError as error:
            raise DataError(f"{display_name(path)}, line {number}: {error}") from None
        terms.append(term)
    return Glossary(terms)


def _term(line: str) -> Term:
    columns = [column.strip() for column in line.split("\t")]
    if len(columns) not in (2, 3):
        raise DataError(
            f"{len(columns)} column{'s' * (len(columns) != 1)} where there must be two, source and target, separated "
            f"by one tab (and perhaps a third, i): {line[:80]!r}"
        )
    if len(columns) == 3 and columns[2] not in ("", "i"):
        raise DataError(f"the third column is {columns[2][:20]!r}; it may be 'i' (in any case) or empty")
    term = Term(columns[0], columns[1], any_case=columns[2:] == ["i"])
    if (problem := term.problem()) is not None:
        raise DataError(problem)
    return term

"""The report of `clearhead compare`: one HTML file that needs nothing else, and all that it shows as PNG and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import get_args

from clearhead.base.files import atomic_write, file_error
from clearhead.explorer.comparison_canvas import Picture, check_pictures
from clearhead.explorer.comparison_claims import claims
from clearhead.explorer.comparison_drawings import gradient_pictures, layer_pictures, matrix_pictures
from clearhead.explorer.comparison_figures import choice_pictures, curve_pictures, length_pictures
from clearhead.explorer.comparison_findings import Findings, read_findings
from clearhead.explorer.comparison_tables import (
    Table,
    claim_rows,
    context_table,
    crossover_table,
    link_table,
    printed_table,
    score_table,
)
from clearhead.explorer.comparison_verdicts import VERDICTS, Claim
from clearhead.explorer.comparison_words import LABELS, SECTIONS
from clearhead.explorer.content import Both
from clearhead.explorer.html import both
from clearhead.explorer.single_file import base64_of, filled, policy, resource
from clearhead.explorer.walk_page import PageLanguage
from clearhead.recipes.compare.cited import CITED, PAPERS, SCALES, Section
from clearhead.recipes.compare.lineup import LINE_UP

__all__ = ["build_report", "comparison_page"]


def build_report(results_dir: str | Path, out_dir: str | Path, language: PageLanguage = "en") -> Path:
    """Write the report on a results directory into `out_dir`, and return the path of its index.html.

    `language` is what the page opens in (it holds both). What has not been measured is named in the page. Raises
    InputError if matplotlib is missing, if there is no setting, or if a file cannot be written, and DataError for a
    file that holds something else.
    """
    check_pictures()
    found = read_findings(Path(results_dir))
    out = Path(out_dir)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_error(out, "made", error) from None
    pictures, tables, judged = _pictures(found), _tables(found), claims(found)
    shown = [each for group in pictures.values() for each in group]
    for each in shown:
        atomic_write(out / f"{each.name}.png", each.png)
        atomic_write(out / f"{each.name}.csv", _csv(each.rows))
    for table in (*tables.values(), printed_table()):
        atomic_write(out / f"{table.name}.csv", _csv(table.rows))
    atomic_write(out / "claims.csv", _csv(claim_rows(judged)))
    index = out / "index.html"
    atomic_write(index, _page(found, pictures, tables, judged, language))
    return index


def comparison_page(found: Findings, language: PageLanguage = "en") -> str:
    """The HTML of a report: no address in it leads out but those of its own CSV files."""
    return _page(found, _pictures(found), _tables(found), claims(found), language)


def _pictures(found: Findings) -> dict[Section, list[Picture]]:
    return {
        "scores": curve_pictures(found),
        "lengths": length_pictures(found),
        "choices": choice_pictures(found),
        "gradients": gradient_pictures(found),
        "layers": layer_pictures(found),
        "alignments": matrix_pictures(found),
    }


def _tables(found: Findings) -> dict[Section, Table]:
    return {
        "scores": score_table(found),
        "gradients": context_table(found),
        "layers": crossover_table(found),
        "alignments": link_table(found),
    }


def _page(
    found: Findings,
    pictures: dict[Section, list[Picture]],
    tables: dict[Section, Table],
    judged: list[Claim],
    language: PageLanguage,
) -> str:
    style, script = resource("comparison.css"), resource("comparison.js")
    title = LABELS["title"]
    parts = {
        "lang": "zh-CN" if language == "zh" else "en",
        "language": language,
        "policy": policy(script, style, images=True),
        "title": f"clearhead · {escape(title.zh if language == 'zh' else title.en)}",
        "style": style,
        "script": script,
        "navigation": _navigation(),
        "introduction": _introduction(found, judged),
        "sections": "".join(
            _section(place, name, pictures.get(name, []), tables.get(name), judged)
            for place, name in enumerate(get_args(Section), start=1)
        ),
        **{f"label_{name}": both(LABELS[name]) for name in ("skip", "theme", "sections")},
    }
    return filled(resource("comparison.html"), parts)


def _navigation() -> str:
    links = [f'<li><a href="#claims">{both(LABELS["summary"])}</a></li>']
    links += [
        f'<li><a href="#{name}">{place} · {both(SECTIONS[name].title)}</a></li>'
        for place, name in enumerate(get_args(Section), start=1)
    ]
    return f"<ol>{''.join(links)}</ol>"


def _introduction(found: Findings, judged: list[Claim]) -> str:
    notes = [f'<p class="note">{both(LABELS["quick"])}</p>'] if found.setting.quick else []
    absent = [entry.name for entry in LINE_UP if entry.name not in found.models]
    if absent:
        notes.append(f'<p class="note">{both(LABELS["unfinished"])} {_codes(absent)}</p>')
    stopped = [each.name for each in found.models.values() if each.updates < each.planned_updates]
    if stopped:
        notes.append(f'<p class="note">{both(LABELS["stopped"])} {_codes(stopped)}</p>')
    heads = "".join(
        f'<th scope="col">{both(LABELS[name])}</th>' for name in ("claim", "verdict", "found", "source", "test")
    )
    rows = "".join(
        f'<tr><th scope="row">{both(each.words)}</th><td class="verdict {each.verdict}">{both(VERDICTS[each.verdict])}'
        f"</td><td>{both(each.reading)}</td><td>{both(each.source)}</td><td>{both(each.test)}</td></tr>"
        for each in judged
    )
    return (
        f'<section id="claims"><h1>{both(LABELS["title"])}</h1>{"".join(notes)}<h2>{both(LABELS["summary"])}</h2>'
        f'<p class="words">{both(LABELS["intervals"])}</p>'
        f'<div class="scroll"><table class="text claims"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        f"<h3>{both(LABELS['setting'])}</h3>{_setting(found)}</section>"
    )


def _codes(names: Sequence[str]) -> str:
    return ", ".join(f"<code>{escape(name)}</code>" for name in names)


def _setting(found: Findings) -> str:
    setting = found.setting
    versions = ", ".join(f"{name} {version}" for name, version in setting.versions.items())
    sizes = f"{setting.pairs:,} · {setting.dev:,} · {setting.test:,}"
    length = f"{setting.updates:,} × {setting.batch_tokens:,} tokens, ≤ {setting.minutes:g} min"
    rows = [
        (Both("Corpus", "语料"), f"{setting.corpus}, {' → '.join(setting.languages)}"),
        (Both("Pairs: training, development, test", "句对：训练、开发、测试"), sizes),
        (Both("Vocabulary, shared", "共享词表"), f"{setting.vocab_size:,}"),
        (Both("Updates of every model", "每个模型的更新"), length),
        (Both("Bootstrap resamples", "自助法重采样"), f"{setting.resamples:,}"),
        (Both("Machine", "机器"), f"{setting.machine}; {setting.jobs} jobs × {setting.threads} threads"),
        (Both("Versions", "版本"), versions),
        (Both("Command", "命令"), setting.command),
    ]
    return f"<dl>{''.join(f'<dt>{both(name)}</dt><dd>{escape(value)}</dd>' for name, value in rows)}</dl>"


def _section(place: int, name: Section, pictures: list[Picture], table: Table | None, judged: list[Claim]) -> str:
    words = SECTIONS[name]
    small = " small" if name == "choices" else ""
    images = "".join(_figure(each, name) for each in pictures)
    body = f'<div class="pictures{small}">{images}</div>' if images else ""
    if table is not None and table.cells:
        body = f"{_table(table)}{body}" if name == "scores" else f"{body}{_table(table)}"
    readings = "".join(
        f"<li><p>{both(each.reading)}</p><small>{both(each.words)} "
        f'<span class="{each.verdict}">{both(VERDICTS[each.verdict])}</span></small></li>'
        for each in judged
        if each.section == name
    )
    return (
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{place} · {both(words.title)}</h2>'
        f'<p class="words">{both(words.question)}</p>{body or _empty()}'
        f'<h3>{both(LABELS["reading"])}</h3><ul class="readings">{readings}</ul>'
        f"<h3>{both(LABELS['paper'])}</h3>{_paper_figures(name)}"
        f'<p class="note"><b>{both(LABELS["scale"])}</b> · {both(words.caution)}</p></section>'
    )


def _empty() -> str:
    return f'<p class="empty">{both(LABELS["empty"])}</p>'


def _figure(each: Picture, name: Section) -> str:
    caption = escape(each.caption.en)
    images = "".join(
        f'<img class="{theme}" alt="{caption}" src="data:image/svg+xml;base64,{base64_of(drawing.encode())}">'
        for theme, drawing in (("light", each.light), ("dark", each.dark))
    )
    kind = ' class="matrix"' if name == "alignments" else ""
    # A caption may hold a model's name from a file, which is text and no markup of ours.
    words = both(each.caption) if name != "alignments" else caption
    return f'<figure{kind}><figcaption>{words} <a href="{each.name}.csv">CSV</a></figcaption>{images}</figure>'


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{both(head)}</th>' for head in table.heads)
    rows = "".join(
        f'<tr><th scope="row">{_cell(first)}</th>{"".join(f"<td>{_cell(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in table.cells
    )
    return (
        f'<div class="scroll"><table><caption>{both(table.caption)} <a href="{table.name}.csv">CSV</a></caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(cell: str | Both) -> str:
    return both(cell) if isinstance(cell, Both) else escape(cell)


def _paper_figures(name: Section) -> str:
    """What the papers print, each with its place, and what they measured it on."""
    if name == "layers":
        return _table(printed_table())
    shown = [each for each in CITED if each.section == name]
    if not shown:
        return f'<p class="empty">{both(LABELS["no_paper"])}</p>'
    rows = "".join(
        f'<tr><th scope="row">{both(Both(each.en, each.zh))}</th><td>{each.value:g} {escape(each.unit)}</td>'
        f"<td>{escape(each.source)}</td></tr>"
        for each in shown
    )
    heads = "".join(f'<th scope="col">{both(LABELS[key])}</th>' for key in ("measured", "value", "source"))
    papers = dict.fromkeys(each.paper for each in shown)
    scales = "".join(
        f"<li>{escape(PAPERS[paper])}: {both(Both(SCALES[paper].en, SCALES[paper].zh))}</li>" for paper in papers
    )
    return (
        f'<div class="scroll"><table class="text"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        f'<ul class="scales">{scales}</ul>'
    )


def _csv(rows: Sequence[Sequence[object]]) -> str:
    """Comma-separated, a line feed after each row; what is not there is empty."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([["" if cell is None else cell for cell in row] for row in rows])
    return written.getvalue()

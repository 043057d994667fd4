"""The report as files and as a browser shows it: whole, in two languages and themes, closed, and honest about gaps."""

from __future__ import annotations

import builtins
import csv
import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clearhead.base.errors import InputError
from clearhead.explorer import comparison_words
from clearhead.explorer.comparison_canvas import COLOURS, DARK, picture, style
from clearhead.explorer.comparison_figures import length_pictures
from clearhead.explorer.comparison_findings import Findings
from clearhead.explorer.comparison_page import build_report, comparison_page
from clearhead.explorer.content import Both
from clearhead.recipes.compare.results import write_result
from tests.unit.explorer.comparison_results import BLEU, SETTING, model, write_results

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "<script>document.title='x'</script>{{style}}`<b>`"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of everything that a full run leaves, one label among it an attack."""
    models = [model(name) for name in BLEU if name != "luong-dot"] + [model("luong-dot", HOSTILE)]
    results = write_results(tmp_path_factory.mktemp("results"), models)
    return build_report(results, tmp_path_factory.mktemp("report") / "inner")


def test_every_figure_and_table_is_there_as_a_file(report: Path) -> None:
    names = {each.name for each in report.parent.iterdir()}
    pictures = {Path(each).stem for each in names if each.endswith(".png")}
    assert len(pictures) == 2 + 2 + 6 + 3 + 2 + 2
    tables = {"scores", "claims", "context", "crossovers", "links", "table-1"}
    assert names == {"index.html"} | {f"{each}.png" for each in pictures} | {
        f"{each}.csv" for each in pictures | tables
    }
    assert all((report.parent / f"{each}.png").read_bytes().startswith(b"\x89PNG") for each in pictures)


def test_csv_holds_the_numbers(report: Path) -> None:
    with (report.parent / "scores.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(BLEU)
    assert float(rows["rnnsearch"]["bleu"]) == BLEU["rnnsearch"] and rows["transformer"]["bleu_p"] == ""
    with (report.parent / "lengths-joined.csv").open(encoding="utf-8", newline="") as file:
        joined = [row for row in csv.DictReader(file) if row["model"] == "encdec"]
    assert [row["words_from"] for row in joined] == ["1", "16", "31", "46", "61"] and joined[-1]["words_to"] == ""


def test_same_results_give_the_same_page() -> None:
    models = {name: model(name) for name in ("seq2seq", "seq2seq-reversed")}
    models = {name: dataclasses.replace(each, curve=[], long_by_length=[]) for name, each in models.items()}
    found = Findings(SETTING, models, (), (), None)
    assert comparison_page(found) == comparison_page(found)


def test_page_names_what_is_missing(tmp_path: Path) -> None:
    write_result(tmp_path / "setting.json", dataclasses.replace(SETTING, quick=True))
    write_result(tmp_path / "encdec.json", model("encdec", updates=900))
    page = build_report(tmp_path, tmp_path / "report").read_text(encoding="utf-8")
    assert page.count(comparison_words.LABELS["empty"].zh[:5]) == 4  # choices, gradients, layers, alignments
    assert "Ended before its updates were done" in page and "far too short for any conclusion" in page
    assert "<code>rnnsearch</code>" in page and "not measured" in page


def test_lengths_that_a_model_cannot_read_are_no_zeros(tmp_path: Path) -> None:
    learned = model("transformer")
    out = [dataclasses.replace(each, available=each.low < 40) for each in learned.long_by_length]
    found = Findings(SETTING, {"transformer": dataclasses.replace(learned, long_by_length=out)}, (), (), None)
    rows = length_pictures(found)[1].rows
    assert [row[4] for row in rows[1:]].count("n/a") == 2


def test_without_matplotlib_it_says_so_before_anything_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match="clearhead\\[plots\\]"):
        build_report(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_dark_drawing_differs_in_its_colours_alone() -> None:
    drawn = picture("one", Both("", ""), [], lambda axis: axis.plot([0, 1], [0, 1], color=COLOURS[0], label="a line"))
    assert COLOURS[0] in drawn.light and COLOURS[0] not in drawn.dark
    back = drawn.dark
    for light, dark in DARK.items():
        back = back.replace(dark, light)
    assert back == drawn.light


def test_no_two_of_many_series_look_alike() -> None:
    assert len({str(style(place)) for place in range(24)}) == 24
    first = [style(place) for place in range(8)]
    assert len({each.colour for each in first}) == 8 and len({each.marker for each in first}) == 8


@pytest.mark.parametrize("table", ["LABELS", "AXES", "PICTURES", "GROUP_TITLES", "NAMES_AXES"])
def test_chinese_is_chinese(table: str) -> None:
    same = {name for name, words in getattr(comparison_words, table).items() if words.en == words.zh}
    assert same <= {"norm"}
    for words in comparison_words.SECTIONS.values():
        for each in (words.title, words.question, words.caution):
            assert re.search("[一-鿿]", each.zh) and not re.search("[一-鿿]", each.en)


@pytest.fixture
def page(browser: Browser, report: Path) -> Any:
    """The report in a browser that is offline; what it complains of or asks for is kept on the page object."""
    context = browser.new_context(viewport={"width": 1150, "height": 900}, offline=True, color_scheme="light")
    opened = context.new_page()
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on(
        "request", lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    opened.goto(report.as_uri())
    yield opened
    assert said == []
    context.close()


def test_browser_shows_every_picture_and_no_markup_of_others(page: Page) -> None:
    assert page.title() == "clearhead · The ancestors compared"
    assert HOSTILE in page.locator("#scores table").first.inner_text()
    sizes = page.evaluate("[...document.images].map(each => [each.complete, each.naturalWidth])")
    assert len(sizes) == 34 and all(complete and width > 0 for complete, width in sizes)
    assert page.locator("script").count() == 1


def test_language_and_theme_switch(page: Page) -> None:
    assert page.get_by_text("不可比之处").first.is_hidden()
    page.click("#language")
    assert page.get_by_text("不可比之处").first.is_visible()
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    assert page.get_by_text("Not comparable in").first.is_hidden()
    assert page.locator("img.light").first.is_visible() and page.locator("img.dark").first.is_hidden()
    page.click("#theme")
    assert page.locator("img.dark").first.is_visible() and page.locator("img.light").first.is_hidden()


@pytest.mark.parametrize("width", [360, 1150])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width

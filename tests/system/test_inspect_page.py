"""The report of an inspection in a real browser without a network: frame, overview and map.

Numbers on the screen are held to those of the records that the page was made from.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from clearhead.explorer.inspect_page import ReportDisplay, write_report
from clearhead.inspection.alignment import over_words
from clearhead.inspection.records import AttentionLayer, AttentionRecord
from clearhead.inspection.sites import Stack
from tests.unit.explorer.inspect_records import (
    CALIBRATION,
    HOSTILE,
    MEASURES,
    attention_record,
    evidence_record,
    hostile_records,
    sample_record,
    units,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

VIEWS = ("overview", "map", "tokens", "heads", "tests")
RECORD = attention_record(rank=1)
READY = "html[data-ready=true]"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("inspect") / "report.html"
    evidence, sample = evidence_record(RECORD), sample_record(RECORD)
    return write_report(out, RECORD, evidence, sample, calibration=CALIBRATION, measures=MEASURES)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(tmp_path_factory.mktemp("inspect") / "bare.html", RECORD)


def opened(browser: Browser, file: Path, faults: list[str], address: str = "", **options: Any) -> Page:
    """The page, offline and unpacked; whatever it complains of or asks for is noted in `faults`."""
    if not options and not browser.contexts:
        browser.new_context(offline=True)  # one for all that ask for nothing special
    page = (browser.new_context(offline=True, **options) if options else browser.contexts[0]).new_page()
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: request.url.startswith(("file:", "blob:")) or faults.append(request.url))
    page.goto(f"{file.as_uri()}{address}")
    page.wait_for_selector(READY, state="attached")
    return page


def plain(text: str) -> str:
    """Without the marks that keep the direction of a token its own, and with a minus that Python reads."""
    return re.sub("[\u2068\u2069]", "", text).replace("−", "-")


def weight_of(text: str) -> float:
    found = re.search(r"attention weight ≈? ?([0-9.]+(?:e-\d+)?)", plain(text))
    assert found, text
    return float(found[1].rstrip("."))


NUMBERS = """rows => rows.map(row => [...row.cells].slice(1).map(
  (cell) => Number(cell.textContent.replace("−", "-").replace("≈ ", "").split(" ")[0])))"""


def layer_of(stack: Stack, layer: int) -> AttentionLayer:
    return RECORD.layer(stack, layer)


# ------------------------------------------------------------------------------------------------------------ the head


def test_the_head_says_what_was_looked_at_and_what_not_to_believe(browser: Browser, file: Path) -> None:
    faults: list[str] = []
    page = opened(browser, file, faults)
    told = plain(page.locator("#about").inner_text())
    for part in (
        "multi30k", "Transformer 3+2 layers", "f" * 12, "hypothesis 1, score -0.4321", RECORD.source_text,
        RECORD.target_text, "Row t is the query that predicts token t + 1", "begins with <s> (so row 1 has read <s>",
        "says what was read, not why",
    ):  # fmt: skip
        assert part in told
    assert faults == []


# ------------------------------------------------------------------------------------------------------------- overview


def test_every_head_of_uneven_stacks_has_a_picture(browser: Browser, file: Path) -> None:
    page = opened(browser, file, [])
    shown = page.eval_on_selector_all(".thumb", "all => all.map(each => each.dataset.unit)")
    assert shown == [f"{each.stack} {each.layer}.{each.head}" for each in units(RECORD)]
    assert page.locator(".thumb[tabindex='0']").count() == 1
    assert page.locator(".thumb[aria-label]").count() == 0  # named by what is seen, and by more
    label = plain(page.locator(".thumb").first.inner_text())
    weights = layer_of("encoder", 1).weights[0]
    row, column = divmod(int(weights.argmax()), weights.shape[1])
    assert f"the largest weight is {weights.max():.2f}, from {RECORD.source[row].text} to" in label
    assert label.endswith(f"to {RECORD.source[column].text}.")
    numbers = " ".join(label.split())
    assert numbers.startswith("1.1 previous token Δ -.010 I .050 H .10")  # of the sample, but for the entropy share


@pytest.mark.parametrize(
    ("value", "sign", "text"),
    [
        (0.0123, True, "+.012"), (-0.0123, True, "−.012"), (0.0009, True, "<.001"), (-0.0009, False, "<.001"),
        (0.001, False, ".001"), (0.123, False, ".12"), (0.0996, False, ".10"), (0.0, True, "0"), (2.345, True, "+2.35"),
        (-0.5, True, "−.50"),
    ],
)  # fmt: skip
def test_small_pictures_have_short_numbers(browser: Browser, file: Path, value: float, sign: bool, text: str) -> None:
    page = (browser.contexts[0].pages if browser.contexts else []) or [opened(browser, file, [])]
    assert page[0].evaluate("([value, sign]) => Clearhead.brief(value, sign)", [value, sign]) == text


def test_heads_can_be_ordered_and_chosen_by_what_was_found(browser: Browser, file: Path) -> None:
    page = opened(browser, file, [])
    page.get_by_label("Order").select_option("ablation")
    shown = page.eval_on_selector_all(".thumb", "all => all.map(each => each.dataset.unit)")
    assert shown == [f"{each.stack} {each.layer}.{each.head}" for each in reversed(units(RECORD))]
    page.get_by_label("Order").select_option("entropy")
    entropy = page.eval_on_selector_all(
        ".thumb", "all => all.map(e => Clearhead.report.finding('statistics', e.unit).values.entropy_share)"
    )
    assert entropy == sorted(entropy)
    page.get_by_label("Role").select_option("sink")
    assert set(page.locator(".thumb .role").all_inner_texts()) == {"sink"}
    assert "3 of 21" in page.locator("#view-overview [role=status]").inner_text()


def planted(rows: int, columns: int, row: int, column: int) -> AttentionRecord:
    """A record of one cross-attention head that reads a little everywhere, and in one row one key alone."""
    words = [f"▁w{number}" for number in range(max(rows, columns) - 1)]
    record = attention_record(words[: columns - 1], words[: rows - 1], depths={"cross": (1,)})
    weights = torch.full((1, rows, columns), 1 / columns)
    weights[0, row] = 0.0
    weights[0, row, column] = 1.0
    layer = AttentionLayer("cross", 1, "x", weights, torch.ones(rows, columns, dtype=torch.bool))
    return AttentionRecord(**{**vars(record), "layers": (layer,)})


@pytest.mark.parametrize("place", [(75, 101), (126, 128)])
def test_no_cell_is_lost_in_a_small_picture(browser: Browser, tmp_path: Path, place: tuple[int, int]) -> None:
    out = write_report(tmp_path / "a.html", planted(127, 129, *place))
    page = opened(browser, out, [])
    size, yellow = page.evaluate("""() => {
      const canvas = document.querySelector(".thumb canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let yellow = 0;
      for (let at = 0; at < data.length; at += 4) yellow += data[at] > 245 && data[at + 1] > 220;
      return [[canvas.height, canvas.width], yellow];
    }""")
    assert size == [64, 64] and yellow == 1  # taking every other cell would miss most such places


def test_the_keyboard_leads_from_the_overview_to_a_cell(browser: Browser, file: Path) -> None:
    faults: list[str] = []
    page = opened(browser, file, faults)
    page.locator(".thumb[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.unit") == "encoder 2.2"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.locator("#view-map").is_visible() and page.locator("#view-overview").is_hidden()
    assert "Evidence: cross 2.3" in page.locator(".evidence-card").inner_text()
    assert "stack=cross&layer=2&head=3" in page.evaluate("location.hash")
    page.locator(".map-scroll").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    told = plain(page.locator("#live").inner_text())
    assert told == plain(page.locator("#readout").inner_text())
    assert told.startswith("After ▁chil, predicting dren (row 3), reads ▁Kin (2):")
    assert weight_of(told) == pytest.approx(float(layer_of("cross", 2).weights[2, 2, 1]), abs=6e-5)
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.tagName") == "SELECT"
    assert faults == []


# ------------------------------------------------------------------------------------------------------------------ map


@pytest.fixture(scope="module")
def shown(browser: Browser, file: Path) -> Iterator[tuple[Page, list[str]]]:
    """One page for all tests of the map, and what it complained of."""
    faults: list[str] = []
    yield opened(browser, file, faults, "#view=map", viewport={"width": 1100, "height": 1600}), faults
    assert faults == []


def at(shown: tuple[Page, list[str]], address: str) -> Page:
    """The page at another head, by its address, with nothing hidden, joined or shown as a table."""
    page = shown[0]
    page.evaluate("""address => {
      const changed = document.querySelectorAll("#view-map input:checked, #view-map .twin > [aria-expanded=true]");
      changed.forEach((each) => each.click());
      location.hash = `view=map&${address}`;
    }""", address)  # fmt: skip
    head = re.sub(r"stack=(\w+)&layer=(\d)&head=(\d).*", r"\1 \2.\3", address)
    page.locator(".evidence-card h3", has_text=head).wait_for()
    return page


def test_masked_cells_are_named_and_never_read_as_small_weights(shown: tuple[Page, list[str]]) -> None:
    page = at(shown, "stack=decoder&layer=1&head=2&row=1")
    page.locator(".map-scroll").focus()
    page.keyboard.press("End")
    assert "masked, exactly 0." in page.locator("#readout").inner_text()
    page.get_by_role("button", name="Show as a table").first.click()
    cells = page.locator("#view-map .numbers tbody tr").nth(1).locator("td").all_inner_texts()
    assert cells[2:] == ["masked"] * 5 and "masked" not in cells[:2]


def test_hidden_keys_are_taken_out_before_everybodys_eyes(shown: tuple[Page, list[str]]) -> None:
    page = at(shown, "stack=cross&layer=2&head=4&row=2")
    weights = layer_of("cross", 2).weights[3].double()
    page.get_by_label("hide <s> and </s>").check()
    removed = weights[:, -1]
    flag = page.locator("#view-map .flag").inner_text()
    assert f"renormalised: {100 * removed.mean():.1f} %" in flag
    told = page.locator("#readout").inner_text()
    assert weight_of(told) == pytest.approx(float(weights[2, 0] / (1 - removed[2])), abs=1e-4)
    assert f"{100 * removed[2]:.1f} % of this row is hidden" in told
    page.get_by_role("button", name="Show as a table").first.click()
    rows = page.eval_on_selector_all(
        "#view-map .numbers tbody tr",
        NUMBERS,
    )
    assert [sum(row) for row in rows] == pytest.approx([1.0] * len(rows), abs=1e-3)
    assert all(len(row) == len(RECORD.source) - 1 for row in rows)


def test_words_are_read_as_the_sum_of_their_pieces_and_read_as_their_mean(shown: tuple[Page, list[str]]) -> None:
    page = at(shown, "stack=cross&layer=2&head=2")
    page.get_by_label("join pieces to words").check()
    page.get_by_role("button", name="Show as a table").first.click()
    numbers = page.eval_on_selector_all(
        "#view-map .numbers tbody tr",
        NUMBERS,
    )
    wanted = over_words(
        layer_of("cross", 2).weights[1].double(),
        [each.word for each in RECORD.source],
        [each.word for each in RECORD.gold],
    )
    found = torch.tensor(numbers)
    assert found.shape == (wanted.shape[0] + 1, wanted.shape[1] + 1)  # the ends have a row and a column of their own
    assert (found[:-1, :-1] - wanted).abs().max() < 1e-4


@pytest.mark.parametrize("stack", ["cross&layer=2&head=2", "decoder&layer=1&head=2"])
@pytest.mark.parametrize("hidden", [False, True])
def test_the_row_of_a_word_is_named_by_the_whole_word_read_before_it(
    shown: tuple[Page, list[str]], stack: str, hidden: bool
) -> None:
    page = at(shown, f"stack={stack}")
    page.get_by_label("join pieces to words").check()
    if hidden:
        page.get_by_label("hide <s> and </s>").check()
    page.get_by_role("button", name="Show as a table").first.click()
    names = page.locator("#view-map .numbers tbody th").all_inner_texts()
    assert [plain(name) for name in names] == [
        "<s> → two", "two → children", "children → ，", "， → مرحبا", "مرحبا → .", ". → </s>",
    ]  # fmt: skip
    columns = [plain(name) for name in page.locator("#view-map .numbers thead th").all_inner_texts()]
    assert not hidden or not {"<s>", "</s>"} & set(columns)
    if stack.startswith("decoder") and not hidden:  # one word: the mean of its rows, to the sum of its pieces
        weights = layer_of("decoder", 1).weights[1].double()
        found = page.eval_on_selector_all("#view-map .numbers tbody tr", NUMBERS)
        assert columns[:3] == ["<s>", "two", "children"]
        assert found[1][0] == pytest.approx(float(weights[1:3, 0].mean()), abs=1e-4)
        assert found[2][2] == pytest.approx(float(weights[3, 2:4].sum()), abs=1e-4)


def test_the_rule_of_rows_on_a_saved_picture_is_broken_into_lines(shown: tuple[Page, list[str]]) -> None:
    for language in ("zh", "en"):
        whole, lines, widths = shown[0].evaluate("""language => {
          Clearhead.speak(language);
          const [text, font] = [Clearhead.t("shell.rows"), "11px sans-serif"];
          const lines = Clearhead.wrapped(text, 420, font);
          const context = document.createElement("canvas").getContext("2d");
          context.font = font;
          return [text, lines, lines.map((line) => context.measureText(line.trimEnd()).width)];
        }""", language)  # fmt: skip
        assert "".join(lines) == whole and len(lines) > 1 and max(widths) <= 420
        assert "<s>" in whole


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0043, 0, "<1 %"), (0.0099, 0, "<1 %"), (0.0101, 0, "1 %"), (0.0, 0, "0 %"), (0.437, 0, "44 %"),
        (1.0, 0, "100 %"), (0.0004, 1, "<0.1 %"), (0.437, 1, "43.7 %"), (-0.0621, 1, "−6.2 %"), (-0.0001, 1, "0 %"),
    ],
)  # fmt: skip
def test_per_cents_are_never_powers_of_ten(shown: tuple[Page, list[str]], value: float, digits: int, text: str) -> None:
    assert shown[0].evaluate("([value, digits]) => Clearhead.percent(value, digits)", [value, digits]) == text


@pytest.mark.parametrize(
    ("score", "words"),
    [(-0.21, "led astray"), (-0.2, "told nothing"), (0.0, "told nothing"), (0.2, "told nothing"), (0.21, None)],
)
def test_a_rank_correlation_misleads_below_and_tells_nothing_around_zero(
    shown: tuple[Page, list[str]], score: float, words: str | None
) -> None:
    told = shown[0].evaluate("""score => {
      const { report } = Clearhead;
      const kept = [report.calibration, report.measures];
      [report.calibration, report.measures] = [{ x: { copy: score }, y: { copy: 0.21 } }, { x: "rank-correlation" }];
      const text = report.calibrated("x").textContent;
      [report.calibration, report.measures] = kept;
      return text;
    }""", score)  # fmt: skip
    assert [each for each in ("led astray", "told nothing") if each in told] == [words] * (words is not None)


@pytest.mark.parametrize("width", [1300, 390])
def test_long_words_of_a_finding_stay_within_the_card(browser: Browser, tmp_path: Path, width: int) -> None:
    evidence = evidence_record(RECORD)
    words = {"meaning": "predictions nearly unchanged, one at a time"}
    found = [replace(each, words=words) if each.method == "adversarial" else each for each in evidence.findings]
    evidence = replace(evidence, findings=tuple(found))
    wider = replace(evidence, scope="sample", pairs=20)
    out = write_report(tmp_path / "a.html", RECORD, evidence, wider)
    page = opened(browser, out, [], "#view=map&stack=cross&layer=2&head=1", viewport={"width": width, "height": 900})
    page.eval_on_selector_all(".evidence-card details", "all => all.forEach((each) => { each.open = true; })")
    assert page.locator(".evidence-card", has_text="one at a time").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate("""() => {
      const edge = document.querySelector(".evidence-card").getBoundingClientRect().right;
      const cells = [...document.querySelectorAll(".evidence-card td")];
      return cells.every((each) => each.getBoundingClientRect().right <= edge);
    }""")  # fmt: skip
    page.context.close()


def test_the_worst_of_one_pair_is_not_told(browser: Browser, file: Path) -> None:
    page = opened(browser, file, [], "#view=map&stack=cross&layer=2&head=1")
    table = page.locator(".evidence-card [data-method='ablation-zero'] table").first
    rows = table.locator("tbody tr").all_inner_texts()
    told = {name: cells for name, *cells in (row.split("\t") for row in rows)}
    assert told["the same for the worst pair"] == ["0.500", "–"]  # the sample, this sentence
    assert page.locator(".evidence-card [data-method='ablation-mean']").first.inner_text().count("worst") == 0


def test_the_pointer_reads_what_it_points_at_at_every_zoom(shown: tuple[Page, list[str]]) -> None:
    page = at(shown, "stack=encoder&layer=1&head=4")
    weights = layer_of("encoder", 1).weights[3]
    for zoom in (None, "Larger cells", "Larger cells", "Smaller cells"):
        if zoom:
            page.get_by_role("button", name=zoom).click()
        sizes = page.evaluate("""() => {
          const { arranged, measure, report, selection } = Clearhead;
          const canvas = document.querySelector(".map-space canvas").getBoundingClientRect();
          const space = document.querySelector(".map-space").getBoundingClientRect();
          const model = arranged(report, selection, {});
          const found = [...Array(60).keys()].map((cell) => measure(model, cell, 190)).find(
            (each) => `${each.width}px` === document.querySelector(".map-space").style.width);
          return { x: space.x, y: space.y, ...found };
        }""")
        row, column = 3, 2
        page.mouse.move(sizes["x"] + sizes["left"] + (column + 0.5) * sizes["cell"],
                        sizes["y"] + sizes["top"] + (row + 0.5) * sizes["cell"])  # fmt: skip
        told = page.locator("#readout").inner_text()
        assert weight_of(told) == pytest.approx(float(weights[row, column]), abs=6e-5), zoom


def test_the_evidence_card_holds_what_was_found_and_says_what_was_not(browser: Browser, file: Path, bare: Path) -> None:
    page = opened(browser, file, [], "#view=map&stack=cross&layer=2&head=1")
    card = page.locator(".evidence-card")
    role = card.locator("[data-method=role]").inner_text()
    assert "aligned" in role and "0.675" in role and "0.650" in role
    head = card.locator("[data-method=role] table").first.locator("thead tr").first.locator("th").all_inner_texts()
    assert head == ["Role", "64 pairs", "this sentence"]
    rows = card.locator("[data-method=role] table").first.locator("tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows][:2] == [["Role", "aligned", "aligned"], ["score", "0.675", "0.650"]]
    absent = card.locator("ul").first.locator(".absent")
    assert absent.count() == 1 and absent.get_attribute("data-method") == "seed-null"
    assert "not tested" in absent.inner_text()
    page.get_by_label("Head", exact=True).select_option("")  # the mean of the heads has no evidence of a head
    assert card.locator("[data-method=role]").count() == 0
    page = opened(browser, bare, [], "#view=map")
    card = page.locator(".evidence-card")
    assert "A picture alone does not say" in card.inner_text()
    first = card.locator("ul").first.locator("li")
    assert first.count() == first.filter(has_text="not tested").count() == 10
    assert set(page.locator("#view-overview .role").all_text_contents()) <= {"not tested"}


def test_what_a_calibration_score_is_of_is_said_and_where_it_misled(browser: Browser, file: Path) -> None:
    page = opened(browser, file, [], "#view=map&stack=cross&layer=2&head=1")
    card = page.locator(".evidence-card")
    told = card.locator("[data-method='ablation-zero']").first.locator(".badge-cell")
    assert told.inner_text().replace("\n", " ") == (
        "ρ with right links, where known: reverse 0.90, sort −0.38, copy 0.00 "
        "On sort the number led astray. On copy the number told nothing."
    )  # the made-up language has no number
    assert "Spearman" in (told.locator("[title]").get_attribute("title") or "")
    assert "not calibrated" in card.locator("[data-method=importance]").first.inner_text()  # tried, without a number
    assert "describes" in card.locator("[data-method=statistics]").first.inner_text()
    page.locator("#tab-tokens").click()
    names = page.locator("#view-tokens .heat th .badge").all_inner_texts()
    assert (
        "Attention weight" in names[0]
        and "right word first, where known: copy 98\u00a0%, reverse 95\u00a0%" in names[0]
    )
    rollout = next(name for name in names if "rollout" in name)
    assert "where the answer is known: copy 0.60" in rollout  # of what it is a score was not said
    assert not any("astray" in name for name in names)
    page.evaluate("Clearhead.speak('zh')")
    told_zh = page.locator("#view-heads, .evidence-card").first.text_content()
    assert "在排序任务上，该数值起了误导作用。 在复制任务上，该数值毫无信息。" in told_zh


@pytest.mark.parametrize(("width", "height"), [(1200, 900), (390, 844)])
def test_maps_up_to_forty_rows_are_seen_whole(browser: Browser, tmp_path: Path, width: int, height: int) -> None:
    for rows, whole in ((40, True), (41, False)):
        out = write_report(tmp_path / f"{rows}.html", planted(rows, 12, 3, 4))
        page = opened(browser, out, [], "#view=map", viewport={"width": width, "height": height})
        inner, outer, canvas, space = page.evaluate("""() => {
          const box = document.querySelector(".map-scroll");
          const [canvas, space] = ["canvas", ".map-space"].map((each) => box.querySelector(each).clientHeight);
          return [box.scrollHeight, box.clientHeight, canvas, space];
        }""")
        assert (inner <= outer and canvas == space) == whole, (inner, outer, canvas, space)
        page.locator(".map-scroll").focus()
        for _ in range(4):
            page.keyboard.press("PageDown")
        assert f"row {rows}" in page.locator("#readout").inner_text()
        bottom = page.evaluate("""() => {
          const box = document.querySelector(".map-scroll");
          return box.querySelector(".map-space").getBoundingClientRect().bottom;
        }""")
        told = page.locator("#readout").bounding_box()
        assert bottom - 3 <= height and told is not None and 0 <= told["y"] < height  # the cell, but for the map's edge
        page.context.close()


def test_a_long_map_is_read_by_windows_with_the_error_of_each_number(browser: Browser, tmp_path: Path) -> None:
    words = [f"▁w{number}" for number in range(99)]
    record = attention_record(words, words, depths={"cross": (2,)})
    faults: list[str] = []
    page = opened(
        browser, write_report(tmp_path / "a.html", record), faults, "#view=map&stack=cross&layer=1&head=1&row=40"
    )
    page.get_by_role("button", name="Show as a table").first.click()
    page.get_by_role("button", name="Later rows").click()
    cells = page.locator("#view-map .numbers tbody tr").nth(8).locator("td").all_inner_texts()  # row 41
    weights = record.layers[0].weights[0, 40]
    assert len(cells) == 32
    for text, weight in zip(cells, weights[:32].tolist(), strict=True):
        parts = [float(each) for each in re.findall(r"\d+\.\d+", text)]
        assert abs(parts[0] - weight) <= (parts[1] if "≈" in text else 0) + 1e-4
    exact = [place for place, text in enumerate(cells) if "≈" not in text]
    assert set(weights.topk(3).indices.tolist()) & set(range(32)) <= set(exact)
    page.get_by_role("button", name="Later rows").click()
    page.get_by_role("button", name="Later rows").click()
    assert page.get_by_role("button", name="Later rows").is_disabled()
    assert faults == []


def test_picture_and_numbers_can_be_saved(shown: tuple[Page, list[str]], tmp_path: Path) -> None:
    page = at(shown, "stack=decoder&layer=1&head=3")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    assert download.value.suggested_filename == "attention-decoder-1-3.csv"
    download.value.save_as(tmp_path / "map.csv")
    with (tmp_path / "map.csv").open(encoding="utf-8", newline="") as saved:
        rows = list(csv.DictReader(saved))
    layer = layer_of("decoder", 1)
    assert len(rows) == layer.visible.numel()
    for row in rows:
        cell = int(row["row"]) - 1, int(row["column"]) - 1
        assert abs(float(row["weight"]) - float(layer.weights[2][cell])) <= float(row["error"]) + 1e-7
        assert row["visible"] == str(int(layer.visible[cell]))
        assert (row["query"], row["predicts"]) == (RECORD.prefix[cell[0]].text, RECORD.gold[cell[0]].text)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as PNG").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


# ------------------------------------------------------------------------------------------------------ the whole page


@pytest.mark.parametrize(
    ("width", "scheme", "language"), [(390, "dark", "zh"), (320, "light", "en"), (1200, "light", "en")]
)
def test_every_view_fits_its_window(browser: Browser, file: Path, width: int, scheme: Any, language: str) -> None:
    faults: list[str] = []
    page = opened(
        browser, file, faults, f"?lang={language}", viewport={"width": width, "height": 844}, color_scheme=scheme
    )
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        assert page.locator(f"#view-{view}").is_visible()
        apart = page.eval_on_selector_all(  # the arrow stands in the line of what it opens
            f"#view-{view} summary > .badge > b",
            "all => all.map(e => e.getBoundingClientRect().top - e.closest('summary').getBoundingClientRect().top)",
        )
        assert max(apart, default=0) < 12
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0, f"{view} is {over} pixels too wide"
        unnamed = page.eval_on_selector_all(
            "[role=img]",
            "all => all.filter(e => e.ariaHidden !== 'true' && e.checkVisibility() && !(e.ariaLabel "
            "|| e.getAttribute('aria-labelledby'))).length",
        )
        assert unnamed == 0
    assert faults == []


def test_the_languages_change_without_loading(browser: Browser, file: Path) -> None:
    faults: list[str] = []
    page = opened(browser, file, faults, "#view=map&stack=cross&layer=1&head=2")
    page.evaluate("window.same = true")
    before = {view: set(english(page, view)) for view in VIEWS}
    assert all(before.values())
    page.locator("#language").click()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    left = {view: before[view] & set(english(page, view)) for view in VIEWS}
    assert not any(left.values()), left
    assert page.evaluate("window.same") is True
    page.locator("#tab-map").click()
    assert "证据：交叉 1.2" in page.locator(".evidence-card").inner_text()
    page.reload()
    page.wait_for_selector(READY, state="attached")
    assert page.locator("#view-map h2").inner_text() == "注意力图"
    assert page.evaluate("document.getElementById('language').textContent") == "English"
    assert faults == []


def english(page: Page, view: str) -> list[str]:
    """Runs of two English words that a view shows outside of what it quotes, in texts and in names for the ear."""
    page.locator(f"#tab-{view}").click()
    texts: list[str] = page.evaluate(
        """view => {
          const found = [];
          const section = document.getElementById(`view-${view}`);
          const quoted = (node) => node.closest("[translate=no], code, [hidden]");
          for (const node of section.querySelectorAll("*")) {
            if (quoted(node)) continue;
            for (const child of node.childNodes) if (child.nodeType === 3) found.push(child.textContent);
            for (const name of ["aria-label", "title"]) found.push(node.getAttribute(name) || "");
          }
          return found;
        }""",
        view,
    )
    return [text for text in texts if re.search(r"\b[a-z]{3,} [a-z]{2,}\b", text)]


def test_attacks_stay_text(browser: Browser, tmp_path: Path) -> None:
    out, faults = write_report(tmp_path / "a.html", *hostile_records()), []
    page = opened(browser, out, faults, "#view=map&stack=cross&layer=1&head=1")
    assert page.locator(".origin").inner_text() == "given target, teacher forcing"
    told = page.locator(".evidence-card").inner_text()
    assert HOSTILE[0] in told and HOSTILE[1] in told
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        for summary in page.locator(f"#view-{view} summary").all():
            if summary.is_visible():
                summary.click()
        for button in page.locator(f"#view-{view} .twin > button").all():
            if button.is_visible():
                button.click()
    page.locator("#language").click()
    page.mouse.move(300, 500)
    assert page.locator("img").count() == 0 and page.locator("svg[onload], [onerror]").count() == 0
    assert page.locator("script").count() == 5
    assert page.locator("#about .model").inner_text() == HOSTILE[0]
    assert faults == []


def test_a_model_without_attention_is_told_so(browser: Browser, tmp_path: Path) -> None:
    faults: list[str] = []
    page = opened(browser, write_report(tmp_path / "a.html", attention_record(depths={})), faults)
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
    assert "no attention" in page.locator("#view-overview").text_content()
    assert faults == []


def test_a_broken_file_says_so(browser: Browser, file: Path, tmp_path: Path) -> None:
    text = file.read_text(encoding="utf-8")
    cut = re.sub(r'(id="arrays">.{200})[^<]*', r"\1", text)
    (tmp_path / "cut.html").write_text(cut, encoding="utf-8")
    page = browser.new_context(offline=True).new_page()
    page.goto((tmp_path / "cut.html").as_uri())
    page.wait_for_selector("#wait.caution")
    assert "cannot be shown" in page.locator("#wait").inner_text()


def test_a_notebook_shows_it_without_a_network(browser: Browser, tmp_path: Path) -> None:
    frame = ReportDisplay(RECORD, evidence_record(RECORD))._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{frame}", encoding="utf-8")
    faults: list[str] = []
    page = browser.new_context(offline=True).new_page()
    page.on("console", lambda message: faults.append(message.text))
    page.on("request", lambda request: request.url.startswith("file:") or faults.append(request.url))
    page.goto((tmp_path / "notebook.html").as_uri())
    inner = page.frames[1]
    inner.wait_for_selector(READY, state="attached")
    inner.locator("#tab-map").click()
    assert "attention weight" in inner.locator("#readout").inner_text()
    assert faults == []


def test_128_tokens_and_144_heads_are_below_two_megabytes_and_open_within_a_second(
    browser: Browser, tmp_path: Path
) -> None:
    words = [f"▁word{number}" for number in range(127)]
    eight = (8,) * 6
    record = attention_record(words, words, depths={"encoder": eight, "decoder": eight, "cross": eight})
    out = write_report(tmp_path / "a.html", record, evidence_record(record), sample_record(record))
    assert out.stat().st_size < 2_000_000  # rows drawn at random cost more than those of a trained model
    page = browser.new_context(offline=True, viewport={"width": 1200, "height": 900}).new_page()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # processor time: others run beside the test
    page.goto(out.as_uri())
    page.wait_for_selector(READY, state="attached")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    assert page.locator(".thumb").count() == 144
    assert 0 < metrics["TaskDuration"] < 1.0

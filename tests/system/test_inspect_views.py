"""The token, heads and tests views of the inspection report, in a real browser without a network."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from clearhead.explorer.html import figure
from clearhead.explorer.inspect_page import write_report
from clearhead.inspection.records import AttentionRecord, Curve, EvidenceRecord, Finding, TokenScores, Unit
from tests.system.test_walk import opened
from tests.unit.explorer.inspect_records import (
    CALIBRATION,
    attention_record,
    evidence_record,
    hostile_records,
    lens,
    sample_record,
    units,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RECORD = attention_record()
T, S = len(RECORD.gold), len(RECORD.source)
DOUBTFUL = 3
"""The prediction whose integrated gradients did not converge."""
HEADS = [unit for unit in units(RECORD) if unit.stack == "cross"]


def signed(rows: int, columns: int) -> torch.Tensor:
    """Different numbers of either sign; the largest of row t is at t, and negative where t is odd."""
    found = torch.arange(rows * columns).view(rows, columns).remainder(11).sub(5).div(100)
    for row in range(rows):
        found[row, min(row, columns - 1)] = 0.8 * (-1) ** row
    return found


def scores() -> tuple[TokenScores, ...]:
    """Attention (of two layers), gradients, integrated gradients, and occlusion of the source alone."""
    attention = [
        TokenScores("attention", each.weights.mean(0), None, False, Unit(each.stack, each.layer))
        for each in RECORD.layers
        if each.stack == "cross"
    ]
    series = {
        "completeness_error": tuple(0.2 if t == DOUBTFUL else 0.004 for t in range(T)),
        "steps": tuple(1024.0 if t == DOUBTFUL else 64.0 for t in range(T)),
        "converged": tuple(float(t != DOUBTFUL) for t in range(T)),
        "difference": (-2.5,) * T,
    }
    settings = {"tolerance": 0.01}
    return (
        *attention,
        TokenScores("gradient-input", signed(T, S), signed(T, T).tril(), True),
        TokenScores("integrated-gradients", signed(T, S), signed(T, T).tril(), True, None, series, settings),
        TokenScores("occlusion", signed(T, S).flip(1), None, True),
    )


def findings() -> tuple[Finding, ...]:
    """Tests of the cross-attention: head h of layer l has TVD l/10 + h/100, a layer 0.6, the stack 0.9."""
    found = []
    for unit in [*HEADS, Unit("cross", 1), Unit("cross", 2), Unit("cross")]:
        layer, head = unit.layer or 0, unit.head or 0
        value = layer / 10 + head / 100 if head else 0.6 if layer else 0.9
        found.append(Finding("permutation", unit, {"median_tvd": value, "max_tvd": 1.0}, settings={"shuffles": 100.0}))
    for unit in HEADS:
        found.append(Finding("adversarial", unit, {"max_jsd": 0.5, "far": 0.75, "tvd": 0.04}, {}, {"epsilon": 0.05}))
        found.append(Finding("agreement", unit, {"occlusion_tau": 0.25, "occlusion_rho": 0.5}))
    found.append(Finding("ablation-zero", HEADS[0], {"delta_nll": 99.0, "worst": 99.0}))  # the sample goes before this
    found.append(Finding("seed-null", Unit("cross", 1), {"matched": 0.2}, settings={"models": 3.0}))
    return tuple(found)


def cost(place: int) -> float:
    """What closing head number `place` costs, in nats a token: the first ones help."""
    return (place / 10) ** 2 - 0.05


def sample() -> EvidenceRecord:
    """Of 64 pairs: head number n has importance n/100, and `cost(n)`."""
    found = []
    for place, unit in enumerate(units(RECORD)):
        role = "previous" if place % 2 else "mixed"
        values = {"previous_score": 0.9, "previous_baseline": 0.2, "previous_threshold": 0.6}
        found += [
            Finding("role", unit, values, {"role": role}),
            Finding("importance", unit, {"importance": place / 100, "within_layer": 0.5}),
            Finding("ablation-zero", unit, {"delta_nll": cost(place), "worst": 1.0}),
        ]
    few = {"epsilon": 0.05, "pairs": 5.0}
    found.append(Finding("adversarial", Unit("cross", 1), {"max_jsd": 0.3, "far": 0.1, "tvd": 0.02}, {}, few))
    left = (1.0, 0.6, 0.0)
    series = {"delta_nll": (0.0, 0.25, 4.0), "share_left": left, "score": (30.0, 20.0, 1.0)}
    curve = Curve("pruning", "cross", "heads left", tuple(6 * each for each in left), series)
    return replace(sample_record(RECORD), findings=tuple(found), curves=(curve,))


EVIDENCE = EvidenceRecord(RECORD.provenance, "sentence", 1, T, findings(), scores(), lens(RECORD))


def shown(
    browser: Browser, directory: Path, record: AttentionRecord, *evidence: Any, view: str, **options: Any
) -> Page:
    """The report of these records at a view; what its browser complains of is in `page.faults`."""
    out, faults = directory / "report.html", []
    write_report(out, record, *evidence, calibration=CALIBRATION)
    page = opened(browser, out, faults, f"#view={view}&stack=cross&layer=2&head=3&row=0", **options)
    page.faults = faults  # type: ignore[attr-defined]
    page.wait_for_selector("html[data-ready]")
    return page


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """One page for all tests that leave it as they found it, but for the view and the selection."""
    directory = tmp_path_factory.mktemp("views")
    return shown(browser, directory, RECORD, EVIDENCE, sample(), view="tokens", viewport={"width": 1200, "height": 900})


def at(page: Page, view: str, **selection: Any) -> None:
    """Go to a view with this selected, and wait until its pictures are drawn to their width."""
    page.evaluate(
        """([view, selection]) => {
          Clearhead.select(selection);
          Clearhead.show(view);
          return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        }""",
        [view, selection],
    )


def cells(page: Page, side: int, method: str, nth: int = 0) -> list[tuple[str, str]]:
    """(label, class) of the cells of one method's row: the side is 0 for the source, 1 for the prefix."""
    rows = page.locator("#view-tokens table.heat").nth(side).locator("tbody tr").filter(has_text=method)
    found: list[tuple[str, str]] = (
        rows.nth(nth)
        .locator(".cell")
        .evaluate_all("cells => cells.map((cell) => [cell.getAttribute('aria-label'), cell.className])")
    )
    return [(label, kind) for label, kind in found]


def value(label: str) -> float:
    return float(label.rpartition(": ")[2].partition(" ±")[0].replace("−", "-"))


# --------------------------------------------------------------------------------------------------------------- tokens


def test_the_rows_are_the_numbers_of_the_methods(page: Page) -> None:
    at(page, "tokens", row=2)
    matrix = signed(T, S)
    for method, expected in (("Gradient × input", matrix), ("Occlusion", matrix.flip(1))):
        found = cells(page, 0, method)
        assert [value(label) for label, _ in found] == pytest.approx(expected[2].tolist(), abs=5e-5)
        top = [place for place, (_, kind) in enumerate(found) if " top" in kind]
        assert top == [int(expected[2].abs().argmax())]
    means = [each.weights.mean(0)[2] for each in RECORD.layers if each.stack == "cross"]
    for layer, mean in enumerate(means, start=1):
        found = cells(page, 0, f"cross {layer}", -1)  # the last: above it stands the chosen head of that layer
        assert [value(label) for label, _ in found] == pytest.approx(mean.tolist(), abs=1e-4)


def test_the_chosen_head_has_a_row_of_its_own(page: Page) -> None:
    at(page, "tokens", row=1, stack="cross", layer=2, head=3)
    weights = next(each for each in RECORD.layers if (each.stack, each.layer) == ("cross", 2)).weights
    found = cells(page, 0, "the chosen head cross 2.3")
    assert [value(label) for label, _ in found] == pytest.approx(weights[2, 1].tolist(), abs=2e-4)
    at(page, "tokens", stack="encoder", layer=1, head=1)
    assert not page.locator("#view-tokens tbody tr").filter(has_text="the chosen head").count()
    at(page, "tokens", stack="cross", layer=2, head=3)


def test_what_is_not_yet_read_has_no_value(page: Page) -> None:
    at(page, "tokens", row=2)
    found = cells(page, 1, "Gradient × input")
    assert len(found) == T
    assert [value(label) for label, _ in found[:3]] == pytest.approx(signed(T, T)[2, :3].tolist(), abs=5e-5)
    assert all("unread" in kind and "not yet read" in label for label, kind in found[3:])
    assert not any("unread" in kind for _, kind in found[:3])


def test_a_row_that_did_not_converge_says_so_and_no_other(page: Page) -> None:
    for row in range(T):
        at(page, "tokens", row=row)
        said = page.locator("#view-tokens tbody tr").filter(has_text="Integrated gradients").first.inner_text()
        assert ("not converged: completeness error 20 % at 1024 steps" in said) == (row == DOUBTFUL)
        assert ("completeness error 0.40 % at 64 steps" in said) == (row != DOUBTFUL)
        assert page.locator("#view-tokens tr.doubtful").count() == 2 * (row == DOUBTFUL)  # source and prefix


def test_each_row_has_a_scale_of_its_own_and_zero_is_the_middle(page: Page) -> None:
    at(page, "tokens", row=0)
    painted = """([row, place]) => getComputedStyle(document.querySelectorAll('#view-tokens table.heat')[0]
        .tBodies[0].rows[row].querySelectorAll('.cell')[place]).backgroundColor"""
    names = page.locator("#view-tokens table.heat").first.locator("tbody th").all_inner_texts()
    row = next(place for place, name in enumerate(names) if "Gradient × input" in name)
    asked = "(share) => `rgb(${Clearhead.colour.diverging(share).join(', ')})`"
    numbers = signed(T, S)[0]
    for place in range(S):
        share = float(numbers[place] / numbers.abs().max())
        assert page.evaluate(painted, [row, place]) == page.evaluate(asked, share)
    attention = next(place for place, name in enumerate(names) if "the chosen head" in name)
    weights = next(each for each in RECORD.layers if (each.stack, each.layer) == ("cross", 2)).weights[2, 0]
    brightest = page.evaluate("() => `rgb(${Clearhead.colour.sequential(1).join(', ')})`")
    assert page.evaluate(painted, [attention, int(weights.argmax())]) == brightest


@pytest.mark.parametrize("size", [25.0, 0.8, 0.042, 0.0021, 3.3e-5])
def test_numbers_have_two_digits_on_the_scale_of_their_row(browser: Browser, tmp_path: Path, size: float) -> None:
    shares = torch.tensor([1.0, -1.0, 0.5, -0.123, 0.0123, -0.0049, 0.00012, -0.00012, 0.0])[:S]
    values = (size * shares).expand(T, S).contiguous()
    evidence = replace(EVIDENCE, scores=(TokenScores("gradient-input", values, None, True),))
    page = shown(browser, tmp_path, RECORD, evidence, view="tokens")
    row = page.locator("#view-tokens table.heat").first.locator("tbody tr").filter(has_text="Gradient × input")
    texts = row.locator(".cell").evaluate_all("all => all.map((cell) => cell.dataset.text)")
    if size < 10:  # the formula of the walk, which another language has another form of
        wanted = [figure(value, size).removesuffix(".00") for value in values[0].tolist()]
        assert texts == [re.sub(r"^(−?)0\.(?=\d)", r"\1.", text) if set(text) - set("0.") else "0" for text in wanted]
    else:
        assert texts == ["25.0", "−25.0", "12.5", "−3.1", ".3", "−.1", "0", "0", "0"][:S]
    assert row.locator("td.scale").inner_text() == f"±{figure(size, size) if size < 10 else '25.0'}"
    page.close()


def test_the_keyboard_chooses_predictions_and_cells(page: Page) -> None:
    at(page, "tokens", row=0)
    page.locator("#view-tokens .choice").first.focus()
    for key, row in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", T - 1), ("Home", 0)):
        page.keyboard.press(key)
        assert page.evaluate("Clearhead.selection.row") == row
        assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"
    page.keyboard.press("ArrowRight")
    told = page.locator("#view-tokens .statement").inner_text()
    probability = math.exp(float(RECORD.log_probs[1]))
    assert "Row 2" in told and "“▁two” and predicts “▁chil”" in told and f"{probability:.0%}".replace("%", " %") in told
    assert "row=1" in page.evaluate("location.hash")
    at(page, "tokens")  # the rows follow at the next frame
    assert page.locator("#view-tokens table.heat").first.locator(".cell[tabindex='0']").count() == 1
    page.locator("#view-tokens table.heat").first.locator(".cell").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert page.locator("#view-tokens .told").first.inner_text() == label
    assert page.evaluate("document.activeElement.cellIndex") == 3  # name, scale, first token, second token
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "choice"


@pytest.mark.parametrize(
    ("one", "other", "rho"),
    [
        ([1, 2, 3, 4], [1, 3, 2, 4], 0.8),  # 1 − 6·2/(4·15)
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 1, 2], [1, 2, 3], math.sqrt(3) / 2),  # ranks 1.5, 1.5, 3: covariance 1.5, variances 1.5 and 2
        ([5, 5, 5], [1, 2, 3], None),
        ([1, 2], [1, 2], None),
    ],
)
def test_rank_correlation_by_hand(page: Page, one: list[int], other: list[int], rho: float | None) -> None:
    found = page.evaluate("([one, other]) => Clearhead.rankCorrelation(one, other)", [one, other])
    assert found == (None if rho is None else pytest.approx(rho))


def test_where_methods_agree_is_told(page: Page) -> None:
    at(page, "tokens", row=2)
    table = page.locator("#view-tokens details table").first
    page.evaluate("document.querySelector('#view-tokens details').open = true")
    names = table.locator("tbody th").all_inner_texts()
    same = names.index("Gradient × input"), names.index("Integrated gradients")
    found = table.locator("tbody tr").nth(same[0]).locator("td").nth(same[1]).inner_text()
    assert found == "1"  # the same numbers
    reads = [name.startswith("Attention") for name in names]
    numbers = [row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()]
    across = [
        (float(numbers[one][other].replace("−", "-")), names[one], names[other])
        for one in range(len(names))
        for other in range(one + 1, len(names))
        if reads[one] != reads[other]
    ]
    told = page.locator("#view-tokens .agreement").inner_text()
    for (number, one, other), word in ((min(across), "furthest apart are"), (max(across), "closest")):
        told_number = str(number).replace("-", "−")
        assert re.search(
            rf"{word} {re.escape(one)} and {re.escape(other)} \((?:rank correlation )?{told_number}0?\)", told
        )
    assert page.locator("#view-tokens table.heat").first.locator("tbody tr").count() == 6  # with the chosen head's
    assert re.search(r"\d of 6 rows have token \d, “[^”]+”, on top", told)


def test_the_lens_shows_every_layer_at_this_prediction(page: Page) -> None:
    at(page, "tokens", row=1)
    rows = page.locator("#view-tokens table").filter(has_text="KL to the output").locator("tbody tr")
    assert rows.count() == 3
    ranks = [row.split("\t")[2] for row in rows.all_inner_texts()]
    assert ranks == ["3", "2", "1"]
    assert "✓" in rows.nth(2).inner_text() and "▁chil" in rows.nth(2).inner_text().replace("\n", "")


# ---------------------------------------------------------------------------------------------------------------- heads


def test_every_head_has_its_row_and_the_sample_goes_first(page: Page) -> None:
    at(page, "heads")
    part = page.locator("#view-heads .part").first
    rows = part.locator("tbody tr")
    assert rows.count() == len(units(RECORD))
    assert "from a sample of 64 pairs (900 target tokens)" in part.inner_text()
    assert "¹ From this one sentence" in part.inner_text() and part.locator("th").filter(has_text="¹").count() == 1
    assert "Permuted" in part.locator("th").filter(has_text="¹").inner_text()
    part.get_by_role("button", name="ΔNLL, zero").click()
    assert rows.first.inner_text().split()[:2] == ["cross", "2.4"]  # the last head costs most
    last = f"{cost(len(units(RECORD)) - 1):+.4f}"
    assert last in rows.first.inner_text()
    part.locator("select").first.select_option("decoder")
    assert rows.count() == 5 and all(text.startswith("decoder") for text in rows.all_inner_texts())
    part.locator("select").nth(1).select_option("previous")
    assert 0 < rows.count() < 5 and all("previous token" in text for text in rows.all_inner_texts())
    assert f"{rows.count()} of {len(units(RECORD))} heads are shown" in part.inner_text()
    rows.first.locator("button").click()
    assert re.search("view=map&stack=decoder&layer=1", page.evaluate("location.hash"))
    at(page, "heads", stack="cross", layer=2, head=3)
    for each in (0, 1):
        part.locator("select").nth(each).select_option("")


def test_importance_lies_along_the_picture_and_can_be_reached(page: Page) -> None:
    at(page, "heads")
    part = page.locator("#view-heads .part").nth(1)
    spots = part.locator(".spot")
    assert spots.count() == len(units(RECORD))
    left = spots.evaluate_all("spots => spots.map((spot) => parseFloat(spot.style.left))")
    top = spots.evaluate_all("spots => spots.map((spot) => parseFloat(spot.style.top))")
    steps = [b - a for a, b in zip(left, left[1:])]  # equal steps of importance are equal steps along the picture
    assert steps[0] > 1 and steps == pytest.approx([steps[0]] * len(steps), abs=0.02)
    assert top == sorted(top, reverse=True)  # what costs more lies higher
    summary = part.locator("svg[role=img]").first.get_attribute("aria-label")
    assert summary and "Closing cross 2.4 costs most" in summary and "is 1." in summary
    spots.first.focus()
    page.keyboard.press("ArrowRight")
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label.startswith("encoder 1.2") and "0.0100" in label and part.locator(".told").inner_text() == label
    assert part.locator(".spot[tabindex='0']").count() == 1
    part.get_by_role("button", name="Show as a table").click()
    assert part.locator(".twin-table tbody tr").count() == len(units(RECORD))
    part.get_by_role("button", name="Hide the table").click()


def test_curves_and_probes(page: Page) -> None:
    at(page, "heads")
    names = (
        page.locator("#view-heads .part")
        .nth(2)
        .locator(".spot")
        .evaluate_all("spots => spots.map((spot) => spot.getAttribute('aria-label'))")
    )
    assert len(names) == 6  # three points of the loss, three of the score
    assert "cross" in names[1] and "0.40" in names[1] and "0.250" in names[1] and names[3].endswith("30")
    assert "not tested" in page.locator("#view-heads .part").nth(3).inner_text().lower()  # no temperature curve
    probes = page.locator("#view-heads .part").nth(4).locator("tbody tr").all_inner_texts()
    assert all(f"{share} %" in probes[0] for share in (90, 30, 60, 10, 50))  # selectivity 0.9 − 0.3
    assert "not tested" in probes[1]  # no untrained model


# ---------------------------------------------------------------------------------------------------------------- tests


def test_units_lie_where_their_numbers_are(page: Page) -> None:
    at(page, "tests")
    part = page.locator("#view-tests .part").first
    spots = part.locator(".spot").evaluate_all(
        "spots => spots.map((spot) => [spot.getAttribute('aria-label'), parseFloat(spot.style.left)])"
    )
    assert len(spots) == len(HEADS) + 3
    known = {name.partition(":")[0]: (float(name.rpartition(" ")[2]), left) for name, left in spots}
    (low, start), (high, end) = known["cross 1.1"], known["cross"]
    assert (low, high) == (0.11, 0.9)
    for number, left in known.values():
        assert left == pytest.approx(start + (number - low) / (high - low) * (end - start), abs=0.1)
    assert "a whole layer by 0.60, a whole stack by 0.90" in part.inner_text()
    assert "Settings: shuffles 100" in part.inner_text()


def test_what_adversarial_weights_found_is_told_as_a_distance_of_weights(browser: Browser, tmp_path: Path) -> None:
    values = {Unit("cross", 1, 1): 0.64, Unit("cross", 1): 0.66, Unit("cross"): 0.68}
    found = [Finding("adversarial", unit, {"max_jsd": jsd, "far": 1.0, "tvd": 0.04}) for unit, jsd in values.items()]
    found += [Finding("permutation", unit, {"median_tvd": jsd / 2}) for unit, jsd in values.items()]
    sample = replace(sample_record(RECORD), findings=tuple(found), pairs=2)
    page = shown(browser, tmp_path, RECORD, EVIDENCE, sample, view="tests")
    part = page.locator("#view-tests .part").nth(2).inner_text()
    assert "the weights found lie on average 0.64 nats (JSD) from the model's own where one head was changed" in part
    assert "0.66 where a whole layer was, 0.68 where a whole stack was" in part
    assert "move predictions" not in part and "moves predictions" not in part
    assert "moves predictions by 0.32" in page.locator("#view-tests .part").first.inner_text()
    page.evaluate("Clearhead.speak('zh')")
    part = page.locator("#view-tests .part").nth(2).inner_text()
    assert "只改一个头 0.64 nat" in part and "使预测移动" not in part
    page.close()


def test_the_caution_about_one_sentence_stands_over_its_numbers_alone(browser: Browser, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, RECORD, EVIDENCE, view="tests")
    cautions = page.locator("#view-tests .caution", has_text="from one sentence")
    assert cautions.count() == 1 and not page.locator("#view-tests .part .caution").count()  # over the page
    page.close()
    found = [replace(each, values={**each.values}) for each in findings() if each.method == "permutation"]
    page = shown(
        browser, tmp_path, RECORD, EVIDENCE, replace(sample_record(RECORD), findings=tuple(found)), view="tests"
    )
    parts = page.locator("#view-tests .part")
    assert cautions_in(page, "#view-tests > div > .caution") == 0
    assert parts.first.locator(".caution").count() == 1 == parts.first.locator("details .caution").count()
    assert not parts.first.locator(".caution").is_visible()  # folded away with the numbers of the sentence
    assert parts.nth(2).locator("> .caution").count() == 1  # adversarial weights: the sentence alone
    page.close()


def cautions_in(page: Page, place: str) -> int:
    return page.locator(place, has_text="from one sentence").count()


@pytest.mark.parametrize(("translated", "examples"), [("20", 400), ("199", 999), ("200", 1000)])
def test_few_translations_and_few_examples_are_cautioned(
    browser: Browser, tmp_path: Path, translated: str, examples: int
) -> None:
    probes = tuple(replace(each, examples=examples) for each in sample_record(RECORD).probes)
    few = replace(sample(), settings={"translated": translated}, probes=probes)
    page = shown(browser, tmp_path, RECORD, EVIDENCE, few, view="heads")
    pruning, probed = (page.locator("#view-heads .part").nth(place).locator("> h3 + .caution") for place in (2, 4))
    assert pruning.all_inner_texts() == (
        [f"BLEU of {translated} translations: differences of a few points mean nothing."] * (int(translated) < 200)
    )
    assert probed.count() == (examples < 1000)
    page.close()


def test_what_was_not_run_says_so(page: Page) -> None:
    at(page, "tests")
    parts = page.locator("#view-tests .part")
    uniform = parts.nth(1).inner_text()
    assert "Not tested" in uniform and not parts.nth(1).locator("svg").count()
    assert "Not tested" not in parts.first.inner_text()


def test_adversarial_weights_stand_beside_the_seeds_and_the_sample_before_the_sentence(page: Page) -> None:
    at(page, "tests")
    part = page.locator("#view-tests .part").nth(2)
    assert "Predictions are nearly unchanged (TVD at most 0.05" in part.inner_text()
    assert "identical" in part.inner_text() and "No other seed" not in part.inner_text()
    assert "from 5 of the sample's 64 pairs" in part.inner_text()
    spots = part.locator(".spot")
    assert spots.evaluate_all("all => all.map((spot) => spot.getAttribute('aria-label'))") == ["cross 1: 0.300"]
    part.locator("summary").first.click()  # the sentence, in which single heads were tried
    at(page, "tests")
    found = spots.evaluate_all("all => all.map((spot) => [spot.getAttribute('aria-label'), spot.style.top])")
    assert len(found) == 1 + len(HEADS)
    marks = part.locator("svg[role=img] line.seed")
    assert marks.count() == 2  # in either picture the one layer that was compared with other seeds
    line = sum(float(marks.last.get_attribute(name) or 0) for name in ("y1", "y2")) / 2
    beside = {name.split(".")[0] for name, top in found[1:] if float(top.removesuffix("px")) == line}
    assert beside == {"cross 1"}


def test_convergence_is_counted(page: Page) -> None:
    at(page, "tests")
    part = page.locator("#view-tests .part").nth(4)
    assert f"{T - 1} of {T} predictions converged; the largest error is 20 %" in part.inner_text()
    part.get_by_role("button", name="Show as a table").click()
    rows = part.locator(".twin-table tbody tr").all_inner_texts()
    assert ["not converged" in row for row in rows] == [t == DOUBTFUL for t in range(T)]
    part.get_by_role("button", name="Hide the table").click()


# ------------------------------------------------------------------------------------------------------------ all views


def test_every_picture_has_a_summary_and_a_table(page: Page) -> None:
    for view in ("heads", "tests"):
        at(page, view)
        for picture in page.locator(f"#view-{view} .picture").all():
            drawing = picture.locator("svg")
            assert drawing.get_attribute("role") == "img" and len(drawing.get_attribute("aria-label") or "") > 20
            assert not drawing.locator("[tabindex], button, a").count()  # what is an image holds nothing to reach
            assert picture.locator("xpath=ancestor::*[contains(@class,'twin')]").locator("> button").count() == 1


def test_the_language_changes_without_loading_and_nothing_is_left_behind(page: Page) -> None:
    for view in ("tokens", "heads", "tests"):
        at(page, view, row=2)
    page.evaluate("Clearhead.speak('zh')")
    for view in ("tokens", "heads", "tests"):
        at(page, view)
        text = page.locator(f"#view-{view}").inner_text()
        for label in page.locator(f"#view-{view} [aria-label]").all()[:400:7]:
            text += " " + (label.get_attribute("aria-label") or "")
        for token in (*RECORD.source, *RECORD.gold, *RECORD.prefix):
            text = text.replace(token.text.strip("▁"), "")
        cited = r"et al\.|and Pinter|and Wallace|and Liang|and Zuidema|nostalgebraist|nat\b"
        assert not re.findall(r"\b[a-z]{4,}(?: [a-z]{3,})+", re.sub(cited, "", text)), view
    assert page.evaluate("Clearhead.selection.row") == 2
    page.evaluate("Clearhead.speak('en')")
    assert page.faults == []  # type: ignore[attr-defined]


def test_a_phone_shows_every_view_within_its_width(browser: Browser, tmp_path: Path) -> None:
    options: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
    page = shown(browser, tmp_path, RECORD, evidence_record(RECORD), sample(), view="tokens", **options)
    for view in ("tokens", "heads", "tests"):
        at(page, view)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
        for picture in page.locator(f"#view-{view} .picture svg").all():
            assert float(picture.get_attribute("width") or 0) <= 390
    assert page.faults == []  # type: ignore[attr-defined]


def test_without_attention_or_evidence_little_is_left_and_it_is_said(browser: Browser, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, replace(RECORD, layers=()), view="tokens")
    assert page.locator("#view-tokens").inner_text().count("No method says anything of this side") == 2
    at(page, "heads")
    assert "no attention: there are no heads" in page.locator("#view-heads").inner_text()
    at(page, "tests")
    assert page.locator("#view-tests").inner_text().count("Not tested") == 6
    assert page.faults == []  # type: ignore[attr-defined]


def test_hostile_texts_do_nothing(browser: Browser, tmp_path: Path) -> None:
    page = shown(browser, tmp_path, *hostile_records(), view="tokens")
    for view in ("tokens", "heads", "tests"):
        at(page, view)
        page.evaluate("document.querySelectorAll('.twin > button').forEach((button) => button.click())")
    assert not page.locator("main img").count() and page.faults == []  # type: ignore[attr-defined]

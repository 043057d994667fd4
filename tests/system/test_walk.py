"""`clearhead walk` from the command line, and its page in a real browser without a network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clearhead.explorer.walk_page import write_page
from clearhead.recipes.translator import decoding_config
from clearhead.recipes.walk import walk
from tests.system.program import clearhead
from tests.unit.explorer.test_page import HOSTILE, hostile_translator

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MODEL = Path(__file__).parents[2] / "docs" / "transformer" / "site" / "model"
SENTENCE = "他 每天 爱 小 猫"


def test_walk_shows_what_translate_finds(tmp_path: Path) -> None:
    for number, options in enumerate(([], ["--beam", 1], ["--beam", 2, "--max-length", 3], ["--penalty", "none"])):
        out = tmp_path / f"{number}.html"
        ran = clearhead("walk", MODEL, SENTENCE, "-o", out, *options)
        told = clearhead("translate", MODEL, "--json", *options, stdin=f"{SENTENCE}\n".encode()).objects[0]
        assert ran.out == b"" and str(out) in ran.log
        html = out.read_text(encoding="utf-8")
        finals = re.search(r'id="finals".*?</section>', html, re.S)
        assert finals
        best = re.search(r"<tr class=chosen>.*?</tr>", finals[0], re.S)
        assert best
        pieces = re.findall(r"<bdi>(.*?)</bdi>", best[0])
        assert pieces == list(told["tokens"])
        figures = [each.replace("−", "-") for each in re.findall(r"<td>([^<]*)</td>", best[0])]
        assert figures[0] == f"{told['log_prob']:.4f}" and figures[3] == f"{told['score']:.4f}"


def test_a_target_can_be_walked_in_its_place(tmp_path: Path) -> None:
    out = tmp_path / "walk.html"
    clearhead("walk", MODEL, SENTENCE, "-o", out, "--target", "she sees old fish now", "--language", "zh")
    html = out.read_text(encoding="utf-8")
    assert '<html lang="zh-CN" data-language="zh">' in html
    data = re.search(r'id="data">(.*?)</script>', html, re.S)
    assert data
    rows = json.loads(data[1])["matrices"]["decoder.hidden"]["rows"]
    assert "".join(rows) == "<s>▁she▁sees▁old▁fish▁now"


def test_mistakes_are_told_without_a_traceback(tmp_path: Path) -> None:
    assert "nothing to translate" in clearhead("walk", MODEL, " ", "-o", tmp_path / "a.html", code=2).log
    assert "neither a bundle" in clearhead("walk", tmp_path, "我", "-o", tmp_path / "a.html", code=2).log
    assert "not to standard output" in clearhead("walk", MODEL, "我", "-o", "-", code=2).log
    assert not list(tmp_path.iterdir())


def test_unknown_tokens_are_told(tmp_path: Path) -> None:
    log = clearhead("walk", MODEL, "Hello 他 Hans", "-o", tmp_path / "a.html", "--target", "zebra quux Ü").log
    told = [line for line in log.splitlines() if line.startswith("warning")]
    assert len(told) == 2
    assert "the text has 2 tokens that the vocabulary has no piece for ('H')" in told[0]
    assert "--target has 4 tokens that the vocabulary has no piece for ('z', 'q', 'x', 'Ü')" in told[1]
    assert "warning" not in clearhead("walk", MODEL, SENTENCE, "-o", tmp_path / "b.html").log


# --------------------------------------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("walk") / "walk.html"
    clearhead("walk", MODEL, SENTENCE, "-o", out)
    return out


def opened(browser: Browser, file: Path, faults: list[str], step: str = "", **options: Any) -> Page:
    """The page, offline; whatever it complains of or asks for is noted in `faults`."""
    page = browser.new_context(offline=True, **options).new_page()
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: request.url.startswith("file:") or faults.append(request.url))
    page.goto(f"{file.as_uri()}{step}")
    return page


def shown(page: Page) -> list[str]:
    """The steps that can be seen."""
    found: list[str] = page.eval_on_selector_all(
        ".step", "steps => steps.filter(step => step.offsetParent !== null).map(step => step.id)"
    )
    return found


def test_the_keyboard_alone_is_enough(browser: Browser, file: Path) -> None:
    faults: list[str] = []
    page = opened(browser, file, faults)
    every = page.eval_on_selector_all(".step", "steps => steps.map(step => step.id)")
    assert shown(page) == ["overview"] == every[:1]
    for step in every[1:]:
        page.keyboard.press("ArrowRight")
        assert shown(page) == [step]
        assert page.evaluate("document.activeElement.id") == f"{step}-title"
        assert page.evaluate("location.hash") == f"#{step}"
    page.keyboard.press("ArrowRight")
    assert shown(page) == [every[-1]]
    page.keyboard.press("ArrowLeft")
    assert shown(page) == [every[-2]]

    page.evaluate("location.hash = 'encoder-1-attention'")
    page.wait_for_selector("#encoder-1-attention-title:focus")
    page.keyboard.press("Tab")  # the tabs of the heads
    assert page.evaluate("document.activeElement.getAttribute('role')") == "tab"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
    assert page.locator("#encoder-1-attention-2").is_visible() and page.locator("#encoder-1-attention-1").is_hidden()
    page.keyboard.press("Tab")  # the first cell of the scores of head 2
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert shown(page) == ["encoder-1-attention"]
    values = page.evaluate(
        "JSON.parse(document.getElementById('data').textContent).matrices"
        "['encoder.layers.0.attention.head-2.scores'].values"
    )
    told = page.locator("#readout").inner_text()
    assert told.startswith("▁每天 · ▁每天 = ")
    assert float(told.rpartition("= ")[2].replace("−", "-")) == values[1][1]
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # one sees where one is
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "encoder-1-attention-title"
    assert faults == []


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_step_fits_its_window(browser: Browser, file: Path, width: int, scheme: Any) -> None:
    faults: list[str] = []
    page = opened(browser, file, faults, viewport={"width": width, "height": 844}, color_scheme=scheme)
    every = page.eval_on_selector_all(".step", "steps => steps.map(step => step.id)")
    for step in every:
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0, f"{step} is {over} pixels too wide"
        page.evaluate("document.getElementById('next').click()")
    lowest = page.evaluate(CONTRAST)  # numbers on their colours can be read: WCAG 2.2, success criterion 1.4.3
    assert lowest >= 4.5, lowest
    assert faults == []


CONTRAST = """() => {
  document.querySelectorAll('.step, .variant').forEach((each) => each.classList.add('current'));
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const light = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  let lowest = 99;
  const seen = new Set();
  for (const cell of document.querySelectorAll('.matrix td[class]:not(.hidden)')) {
    if (seen.has(cell.className)) continue;
    seen.add(cell.className);
    const style = getComputedStyle(cell);
    const pair = [light(style.color), light(style.backgroundColor)].sort((a, b) => b - a);
    lowest = Math.min(lowest, (pair[0] + 0.05) / (pair[1] + 0.05));
  }
  return lowest;
}"""


def test_the_languages_change_without_loading(browser: Browser, file: Path) -> None:
    faults: list[str] = []
    page = opened(browser, file, faults, "#search")
    assert "Beam search" in page.locator("h2:visible").inner_text()
    page.locator("#language").click()
    assert page.locator("h2:visible").inner_text() == "束搜索逐步看"
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert not page.locator(".l-en:visible").count()
    page.reload()  # and stays, as does the step
    assert page.locator("h2:visible").inner_text() == "束搜索逐步看"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("location.href").endswith("?language=zh#finals")
    page.locator("#language").click()
    page.reload()
    assert page.locator("h2:visible").inner_text() == "Length penalty and choice"
    assert faults == []


def test_the_bar_never_hides_the_current_step(browser: Browser, file: Path) -> None:
    page = opened(browser, file, [], viewport={"width": 1280, "height": 800})
    for _ in range(page.locator(".step").count() - 1):
        page.keyboard.press("ArrowRight")
        link, bar = page.locator("nav a[aria-current]").bounding_box(), page.locator("#bar").bounding_box()
        assert link and bar and link["y"] + link["height"] <= bar["y"]


def test_without_a_script_it_is_a_page_to_read(browser: Browser, file: Path) -> None:
    page = opened(browser, file, [], java_script_enabled=False)
    assert page.locator(".step").count() == page.locator(".step:visible").count() > 15
    assert page.locator(".variant:visible").count() == page.locator(".variant").count()
    assert page.locator("#bar").is_hidden()


def test_hostile_tokens_do_nothing(browser: Browser, tmp_path: Path) -> None:
    out, faults = tmp_path / "walk.html", []
    write_page(walk(hostile_translator(), " ".join(HOSTILE), decoding_config(max_length=3), " ".join(HOSTILE)), out)
    page = opened(browser, out, faults)
    count = page.locator(".step").count()
    for _ in range(count):
        page.keyboard.press("ArrowRight")
    page.evaluate("location.hash = 'tokens'")
    page.evaluate("location.hash = 'encoder-1-attention'")
    page.hover("#encoder-1-attention-1 .matrix tbody td >> nth=5")
    assert page.locator("#readout").inner_text().count(HOSTILE[2]) == 1
    assert page.locator("img").count() == 0 and page.locator("script").count() == 2
    assert HOSTILE[0] in page.locator("#tokens").text_content()
    assert faults == []

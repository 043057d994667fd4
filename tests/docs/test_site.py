"""The handbook as readers meet it: built once, then opened from the disk in Chromium, without a network.

Every page of both languages is opened wide and as narrow as a phone, in light and in dark. What a page must not do:
ask for anything but files, complain on the console, or be wider than the screen.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

# The first test waits for the build, which all share.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("site")]

ROOT = Path(__file__).resolve().parents[2]
HANDBOOK = ROOT / "docs/transformer"
LANGUAGES = {"en": "en", "zh": "zh-CN"}
NAMES = sorted(path.stem for path in (HANDBOOK / "en").glob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="the handbook's site needs the docs extra: pip install 'clearhead[docs]'")
    out = tmp_path_factory.mktemp("handbook")
    command = [sys.executable, str(HANDBOOK / "site/build.py"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=out)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return out


class Watch:
    """A page that keeps account of what it asked for and what it complained of."""

    def __init__(self, context: "BrowserContext") -> None:
        self.page: Page = context.new_page()
        self.faults: list[str] = []
        self.page.on("console", lambda message: self.note(f"console: {message.text}", message.type != "log"))
        self.page.on("pageerror", lambda error: self.note(f"error: {error}"))
        self.page.on(
            "request", lambda request: self.note(f"asks for {request.url}", not request.url.startswith("file:"))
        )
        self.page.on("requestfailed", lambda request: self.note(f"does not get {request.url}"))

    def note(self, fault: str, matters: bool = True) -> None:
        if matters and not fault.startswith("asks for data:"):
            self.faults.append(f"{self.page.url.rpartition('/')[2]} {fault}")


def opened(browser: "Browser", **options: object) -> "BrowserContext":
    return browser.new_context(offline=True, **options)  # type: ignore[arg-type]


def test_a_wrong_number_stops_the_build(tmp_path: Path) -> None:
    copy = tmp_path / "docs/transformer"
    shutil.copytree(HANDBOOK, copy, ignore=shutil.ignore_patterns("__pycache__", "model"))
    lock = Path("src/clearhead/recipes/handbook/facts.lock.json")
    (tmp_path / lock).parent.mkdir(parents=True)
    shutil.copyfile(ROOT / lock, tmp_path / lock)
    page = copy / "en/04-attention.md"
    text = page.read_text(encoding="utf-8")
    assert "0.401112" in text
    page.write_text(text.replace("0.401112", "0.401212", 1), encoding="utf-8")
    out = tmp_path / "out"
    command = [sys.executable, str(copy / "site/build.py"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    told = done.stdout + done.stderr
    assert done.returncode == 1 and "en/04-attention.md" in told and "0.401212" in told and not out.exists(), told
    assert "older site" not in told

    out.mkdir()
    (out / "index.html").write_text("before", encoding="utf-8")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "an older site, left as it was" in done.stderr
    assert [path.name for path in out.iterdir()] == ["index.html"] and (out / "index.html").read_text() == "before"


def test_a_model_that_computes_otherwise_stops_the_build(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "model")
    shutil.copytree(HANDBOOK, tmp_path / "docs/transformer", ignore=ignored)
    shutil.copytree(ROOT / "src/clearhead", tmp_path / "src/clearhead", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "README.zh.md", "LICENSE", "pyproject.toml", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "docs/guide", tmp_path / "docs/guide")
    cores = tmp_path / "src/clearhead/nn/cores.py"
    text = cores.read_text(encoding="utf-8")
    scale = "1.0 / math.sqrt(query.shape[-1])"
    assert scale in text
    # As many lines and the same name: the pages read as before, and road 1 has nothing to object to.
    cores.write_text(text.replace(scale, "1.0 / math.sqrt(query.shape[-2])"), encoding="utf-8")
    out = tmp_path / "out"
    command = [sys.executable, str(tmp_path / "docs/transformer/site/build.py"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    told = done.stdout + done.stderr
    assert done.returncode == 1 and not out.exists(), told
    assert any(line.startswith("attn.weights: expected") for line in told.splitlines()), told


# ---------------------------------------------------------------------------------------------------- the files alone


class Document(HTMLParser):
    """The ids, the links and the language of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.language = ""
        self.current: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if identifier := values.get("id"):
            self.ids.append(identifier)
        self.links += [value for key in ("href", "src") if (value := values.get(key)) and tag != "use"]
        if tag == "html":
            self.language = values.get("lang") or ""
        if values.get("aria-current") == "true":
            self.current.append(values.get("hreflang") or "")


@pytest.fixture(scope="module")
def documents(site: Path) -> dict[Path, Document]:
    return {path: Document(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_both_languages_have_every_page_and_say_which_they_are(site: Path, documents: dict[Path, Document]) -> None:
    for folder, language in LANGUAGES.items():
        for name in NAMES:
            document = documents[site / folder / f"{name}.html"]
            assert document.language == language and document.current == [language], (folder, name)
            other = "en" if folder == "zh" else "zh"
            assert f"../{other}/{name}.html" in document.links
        assert (site / folder / "walkthrough.html").stat().st_size > 20_000
        assert "walk.html" in documents[site / folder / "walkthrough.html"].links


def test_ids_are_unique_in_every_page(documents: dict[Path, Document]) -> None:
    twice = {path.name: [i for i, n in Counter(document.ids).items() if n > 1] for path, document in documents.items()}
    assert {name: ids for name, ids in twice.items() if ids} == {}


def test_the_foot_of_a_page_says_what_it_is_and_how_it_was_checked(site: Path, documents: dict[Path, Document]) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    facts = json.loads((ROOT / "src/clearhead/recipes/handbook/facts.lock.json").read_text(encoding="utf-8"))["facts"]
    assert (site / "LICENSE.txt").read_bytes() == (ROOT / "LICENSE").read_bytes()
    for folder in LANGUAGES:
        texts = [(site / folder / f"{name}.html").read_text(encoding="utf-8") for name in NAMES]
        foot = texts[3].partition('<div class="handbook-foot">')[2].partition("</div>")[0]
        assert f"clearhead {version}" in foot and "docs/guide" in foot
        assert "../LICENSE.txt" in documents[site / folder / "04-attention.html"].links
        shown = sum(text.count('data-fact="') for text in texts)
        told = list(map(int, re.findall(r"\d+", re.sub("<[^>]*>", "", foot.partition("</p>")[2]).replace(".py", ""))))
        assert told[:2] == [shown, len(facts)] and sum(told[2:]) == len(facts)


def test_every_link_finds_its_file_and_anchor(site: Path, documents: dict[Path, Document]) -> None:
    checked = 0
    broken: list[str] = []
    for path, document in documents.items():
        for link in document.links:
            address, anchor = urldefrag(link)
            if "://" in address or address.startswith(("data:", "mailto:")):
                continue
            target = (path.parent / unquote(address.partition("?")[0])).resolve() if address else path
            checked += 1
            if (
                not target.exists()
                or anchor
                and target.suffix == ".html"
                and unquote(anchor) not in documents[target].ids
            ):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == [] and checked > 1000


# ----------------------------------------------------------------------------------------------------- in the browser


@pytest.mark.parametrize("folder", LANGUAGES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_no_page_complains_asks_or_overflows(
    site: Path, browser: "Browser", folder: str, scheme: str, width: int
) -> None:
    with opened(browser, color_scheme=scheme, viewport={"width": width, "height": 844}) as context:
        watch = Watch(context)
        for name in [*NAMES, "search", "walkthrough"]:
            watch.page.goto((site / folder / f"{name}.html").as_uri(), wait_until="load")
            wide = watch.page.evaluate("document.documentElement.scrollWidth")
            watch.note(f"is {wide} wide on a screen of {width}", wide > width)
            # What sticks out to the left can never be scrolled to.
            lost = watch.page.evaluate(
                "[...document.querySelectorAll('article svg, article table, article math')]"
                ".filter((e) => e.getBoundingClientRect().left < -1).length"
            )
            watch.note(f"loses {lost} figures on the left", lost > 0)
        assert watch.faults == []


GLYPHS = """
(text) => {
  const drawn = (letter) => {
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 32;
    const brush = canvas.getContext('2d', { willReadFrequently: true });
    brush.font = '24px ' + getComputedStyle(document.querySelector('article')).fontFamily;
    brush.fillText(letter, 2, 26);
    return brush.getImageData(0, 0, 32, 32).data.join();
  };
  const missing = drawn('\\uffff'), blank = drawn(' '), seen = new Map(), wrong = [];
  for (const letter of text) {
    const image = drawn(letter);
    if (image === missing || image === blank || seen.has(image)) wrong.push(letter);
    seen.set(image, letter);
  }
  return wrong;
}
"""


def test_chinese_characters_are_really_drawn(site: Path, browser: "Browser") -> None:
    with opened(browser) as context:
        page = context.new_page()
        letters: set[str] = set()
        for name in ("index", "04-attention", "errata"):
            page.goto((site / "zh" / f"{name}.html").as_uri())
            letters |= {letter for letter in page.inner_text("article") if "\u4e00" <= letter <= "\u9fff"}
        assert len(letters) > 300
        assert page.evaluate(GLYPHS, "".join(sorted(letters))) == []
        # The check would notice: neither U+FFFF nor a letter that comes twice passes.
        assert page.evaluate(GLYPHS, "把\uffff书把") == ["\uffff", "把"]


def test_maths_is_drawn_in_the_font_beside_the_page(site: Path, browser: "Browser") -> None:
    with opened(browser) as context:
        page = context.new_page()
        page.goto((site / "en/04-attention.html").as_uri())
        fonts = "document.fonts.ready.then((set) => [...set].map((face) => `${face.family} ${face.status}`))"
        assert "STIX Two Math loaded" in page.evaluate(fonts)
        root = page.evaluate("document.querySelector('math msqrt').getBoundingClientRect().height")
        line = page.evaluate("parseFloat(getComputedStyle(document.querySelector('math msqrt')).fontSize)")
        assert root > 0.8 * line


def test_a_tap_on_a_number_tells_its_name_and_exact_value(site: Path, browser: "Browser") -> None:
    exact = json.loads((ROOT / "src/clearhead/recipes/handbook/facts.lock.json").read_text(encoding="utf-8"))["facts"]
    with opened(browser, viewport={"width": 390, "height": 844}, has_touch=True) as context:
        page = context.new_page()
        page.goto((site / "zh/04-attention.html").as_uri())
        tip = page.locator(".number-tip")
        for where in ("span.fact[data-fact^='attn.weights.']", "g.cell:has([data-fact='attn.weights.0.0'])"):
            assert not tip.is_visible()
            page.locator(where).first.tap()
            name, _, value = tip.inner_text().partition(" = ")
            row, column = map(int, name.removeprefix("attn.weights.").split("."))
            shown = float(value.partition("（")[0])
            assert shown == pytest.approx(exact["attn.weights"][row][column], abs=1e-11)
            box = tip.bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390
            page.keyboard.press("Escape")


def test_screens_are_light_or_dark_and_paper_is_white(site: Path, browser: "Browser") -> None:
    shade = "getComputedStyle(document.querySelector(place)).backgroundColor.match(/[0-9]+/g).slice(0, 3).map(Number)"
    colour = f"(place) => {shade}"
    places = ("body", ".matrices", ".diagrams", ".misconception", ".symbol .highlight")
    with opened(browser, color_scheme="dark") as context:
        page = context.new_page()
        page.goto((site / "en/04-attention.html").as_uri())
        assert all(max(page.evaluate(colour, place)) < 90 for place in places)
        page.emulate_media(color_scheme="light")
        assert all(min(page.evaluate(colour, place)) > 200 for place in places)
        page.emulate_media(color_scheme="dark", media="print")
        assert all(min(page.evaluate(colour, place)) > 200 for place in places)


@pytest.mark.parametrize(("folder", "words"), [("en", "softmax"), ("zh", "注意力")])
def test_search_works_from_the_disk(site: Path, browser: "Browser", folder: str, words: str) -> None:
    with opened(browser) as context:
        watch = Watch(context)
        watch.page.goto((site / folder / "search.html").as_uri() + f"?q={words}")
        watch.page.wait_for_selector("#search-results li a", timeout=30_000)
        found = watch.page.eval_on_selector_all("#search-results li a", "(links) => links.map((link) => link.href)")
        assert any("04-attention.html" in link for link in found), found
        assert watch.faults == []


@pytest.mark.parametrize(
    ("folder", "words", "first"),
    [
        ("en", "multi-head", ["07-heads"]),
        ("en", "softmax", ["05-softmax"]),
        ("en", "0.401112", ["04-attention", "01-motivation"]),
        ("en", "63045632", ["l8-accounts"]),
        ("zh", "多头", ["07-heads"]),
        ("zh", "注意力", ["01-motivation", "04-attention", "l5-luong", "l7-cost"]),
        ("zh", "0.401112", ["04-attention", "01-motivation"]),
    ],
)
def test_search_puts_titles_and_headings_first(
    site: Path, browser: "Browser", folder: str, words: str, first: list[str]
) -> None:
    pages = found(site, browser, folder, words)
    assert pages[: len(first)] == first, pages


@pytest.mark.parametrize(("folder", "words"), [("en", "beam search"), ("zh", "束搜索")])
def test_search_puts_what_only_collects_last(site: Path, browser: "Browser", folder: str, words: str) -> None:
    pages = found(site, browser, folder, words)
    assert pages.index("11-training") < pages.index("index") < pages.index("errata")


def found(site: Path, browser: "Browser", folder: str, words: str) -> list[str]:
    """The pages of a search in their order, the first find of each; under some of them stands a line with the words."""
    with opened(browser) as context:
        watch = Watch(context)
        watch.page.goto((site / folder / "search.html").as_uri() + f"?q={words}")
        watch.page.wait_for_selector("#search-results .search-summary:not(:empty)")
        links = watch.page.eval_on_selector_all(
            "#search-results li a", "(links) => links.map((link) => link.getAttribute('href'))"
        )
        if not words[0].isdigit():
            assert watch.page.locator("#search-results li .context mark").first.is_visible()
        assert watch.faults == []
        return list(dict.fromkeys(link.partition(".html")[0] for link in links))


def test_the_language_switch_keeps_the_place(site: Path, browser: "Browser") -> None:
    with opened(browser) as context:
        page = context.new_page()
        page.goto((site / "en/04-attention.html").as_uri() + "#attn-formula")
        page.click("nav.language-switch a[hreflang=zh-CN]")
        page.wait_for_url("**/zh/04-attention.html#attn-formula")
        page.goto((site / "zh/04-attention.html").as_uri())
        page.evaluate("location.hash = '#attn-formula'")
        page.click("nav.language-switch a[hreflang=en]")
        page.wait_for_url("**/en/04-attention.html#attn-formula")
        page.goto((site / "en/search.html").as_uri() + "?q=softmax")
        page.click("nav.language-switch a[hreflang=zh-CN]")
        page.wait_for_url("**/zh/search.html?q=softmax")


def test_numbers_are_reached_by_the_keyboard(site: Path, browser: "Browser") -> None:
    focused = "document.activeElement.getAttribute('data-fact') ?? document.activeElement.getAttribute('class')"
    with opened(browser) as context:
        page = context.new_page()
        page.goto((site / "en/04-attention.html").as_uri())
        tip = page.locator(".number-tip")
        stops = page.evaluate(
            "[...document.querySelectorAll('article section')].map((section) => "
            '[...section.querySelectorAll(\'.fact[tabindex="0"], .cell[tabindex="0"]\')]'
            ".filter((number) => number.closest('section') === section).length)"
        )
        assert max(stops) == 1 < sum(stops) < 20
        page.locator("[tabindex='0'].fact, [tabindex='0'].cell").first.focus()
        seen = []
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
            page.keyboard.press(key)
            assert tip.is_visible()
            seen.append((page.evaluate(focused), tip.inner_text()))
        assert seen[0] == seen[2] != seen[1] and " = " in seen[0][1]
        page.keyboard.press("Escape")
        assert not tip.is_visible()


def test_wide_things_show_that_they_go_on_and_code_wraps(site: Path, browser: "Browser") -> None:
    wide = (
        "[...document.querySelectorAll('article *')].filter((e) => e.scrollWidth > e.clientWidth + 1 && "
        "/auto|scroll/.test(getComputedStyle(e).overflowX)).map((e) => "
        "[e.className, getComputedStyle(e).backgroundAttachment.split(', ').filter((a) => a === 'local').length])"
    )
    cut = "[...document.querySelectorAll('.symbol pre')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
    seen = 0
    for width in (390, 1280):
        with opened(browser, viewport={"width": width, "height": 844}) as context:
            page = context.new_page()
            for name in NAMES:
                page.goto((site / f"zh/{name}.html").as_uri())
                assert page.evaluate(cut) == 0, (name, width)
                for kind, local in page.evaluate(wide):
                    seen += 1
                    assert local == 2, (name, width, kind)
    assert seen > 10


def test_a_finger_can_tell_the_icons_and_the_neighbouring_pages_apart(site: Path, browser: "Browser") -> None:
    with opened(browser, viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        page.goto((site / "zh/07-heads.html").as_uri())
        for left, right in (
            (".mobile-header .theme-toggle", ".mobile-header .toc-header-icon"),
            (".related-pages .prev-page .title", ".related-pages .next-page .title"),
        ):
            one, other = page.locator(left).bounding_box(), page.locator(right).bounding_box()
            assert one is not None and other is not None
            assert one["x"] + one["width"] + 8 <= other["x"]
            assert min(one["width"], one["height"], other["width"], other["height"]) >= 24


MARKS = """
() => {
  const parted = [], loose = [];
  const box = (text, at) => {
    const range = document.createRange();
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    return range.getBoundingClientRect();
  };
  let seen = 0;
  for (const maths of document.querySelectorAll('article math:not([display=block])')) {
    const own = maths.getBoundingClientRect(), keeps = maths.parentElement.matches('.keep');
    const after = maths.nextSibling, before = maths.previousSibling;
    if (after?.nodeType === 3 && /^[，。；：、？！）”’,.;:?!)]/.test(after.data)) {
      seen++;
      const mark = box(after, 0);
      if (mark.width && mark.left < own.left) parted.push(after.data);
      const root = maths.querySelector(':scope > mrow > msqrt:last-child > :last-child');
      if (root && mark.left - root.getBoundingClientRect().right > 4) loose.push(maths.getAttribute('alttext'));
    }
    if (before?.nodeType === 3 && /[（“‘(]$/.test(before.data) && own.width) {
      if (box(before, before.length - 1).left > own.left) parted.push(before.data);
    }
  }
  return [parted, loose, seen];
}
"""


@pytest.mark.parametrize("folder", LANGUAGES)
def test_punctuation_stays_close_to_its_maths(site: Path, browser: "Browser", folder: str) -> None:
    with opened(browser, viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        total = 0
        for name in ("03-projections", "04-attention", "07-heads", "10-model", "12-changed", "14-after", "errata"):
            page.goto((site / folder / f"{name}.html").as_uri())
            page.evaluate("document.fonts.ready.then(() => new Promise(requestAnimationFrame))")
            parted, loose, seen = page.evaluate(MARKS)
            assert (parted, loose) == ([], []), name
            total += seen
        assert total > 20


@pytest.mark.parametrize(("locale", "folder"), [("zh-TW", "zh"), ("en-GB", "en"), ("fr-FR", "en")])
def test_the_first_page_picks_the_language_of_the_reader(
    site: Path, browser: "Browser", locale: str, folder: str
) -> None:
    with opened(browser, locale=locale) as context:
        page = context.new_page()
        page.goto((site / "index.html").as_uri())
        page.wait_for_url(f"**/{folder}/index.html")


def test_without_scripts_everything_can_be_reached_and_read(site: Path, browser: "Browser") -> None:
    with opened(browser, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto((site / "index.html").as_uri())
        page.click("a[hreflang=zh-CN]")
        page.click("article a[href='04-attention.html']")
        answer = page.locator("details.solution").first
        assert not answer.locator("p").first.is_visible()
        answer.locator("summary").click()
        assert answer.locator("p").first.is_visible()
        assert page.locator("article math").first.is_visible() and page.locator("article svg").first.is_visible()
        page.click("nav.language-switch a[hreflang=en]")
        assert page.url.endswith("/en/04-attention.html")

"""The handbook's Sphinx extension: what it draws, reads and refuses."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("sphinx", reason="the handbook's site needs the docs extra: pip install 'clearhead[docs]'")

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs/transformer/site"
sys.path.insert(0, str(SITE))

from handbook import chinese, diagram, maths, matrices, numbers, searching, svg, symbol  # noqa: E402


def drawn(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(markup)


def texts(root: ElementTree.Element) -> list[str]:
    return [text.strip() for node in root.iter("text") for text in ["".join(node.itertext())]]


# ------------------------------------------------------------------------------------------------------------ matrices


def test_blocks_and_operators_are_read_as_they_stand() -> None:
    body = ["S <attn.scores>", "0.5 -1", "2 -∞", "", "[row softmax]", "", "A B <attn.weights.0>", "1 0"]
    first, operator, second = matrices.read_blocks(body)
    assert (first.label, first.fact, first.rows) == ("S", "attn.scores", [["0.5", "-1"], ["2", "-∞"]])
    assert operator.is_operator and operator.label == "row softmax"
    assert (second.label, second.fact, second.rows) == ("A B", "attn.weights.0", [["1", "0"]])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (["S <a.b>", "1 2", "3"], "differ in length"),
        (["S", "1 2"], "label <fact>"),
        (["S <a.b>"], "rows below"),
    ],
)
def test_a_block_of_no_known_form_is_refused(body: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        matrices.read_blocks(body)


def test_a_matrix_shows_every_cell_and_colours_by_size_and_sign() -> None:
    block = matrices.Block("S", "no.such", [["0", "-4"], ["2", "-∞"]])
    root = drawn(matrices.draw_block(block, (["把", "书"], ["a", "b"]), "en"))
    cells = [group for group in root.iter("g") if group.get("class") == "cell"]
    assert [cell.findtext("text") for cell in cells] == ["0", "−4", "2", "−∞"]
    kinds = [(cell.find("rect").get("class"), float(cell.find("rect").get("fill-opacity"))) for cell in cells]  # type: ignore
    assert [kind for kind, _ in kinds] == ["positive", "negative", "positive", "forbidden"]
    assert kinds[0][1] == 0 < kinds[2][1] < kinds[1][1]
    assert {"把", "书", "a", "b", "S2 × 2"} <= set(texts(root))
    assert root.findtext("title") == "S, 2 × 2" and "−4" not in (root.findtext("desc") or "")


def test_names_are_used_only_where_their_number_fits() -> None:
    block = matrices.Block("S", "no.such", [["1", "2", "3"]])
    assert "把" not in "".join(texts(drawn(matrices.draw_block(block, (["把", "书"], ["把", "书"]), "en"))))


def test_every_cell_lies_inside_the_drawing() -> None:
    block = matrices.Block("a long label in 中文", "no.such", [["0.123456789", "-12345.5"]])
    root = drawn(matrices.draw_block(block, (["小王和小李"], ["x", "y"]), "zh_CN"))
    left, top, width, height = map(float, (root.get("viewBox") or "").split())
    for rect in root.iter("rect"):
        x, y, w, h = (float(rect.get(name) or "nan") for name in ("x", "y", "width", "height"))
        assert left <= x and x + w <= left + width and top <= y and y + h <= top + height


# ------------------------------------------------------------------------------------------------------------- diagram


def boxes_of(body: list[str]) -> dict[str, tuple[float, float, float, float]]:
    items, arrows = diagram.read_diagram(body)
    root = drawn(diagram.draw_diagram(items, arrows, "alt", {"accent": set(), "quiet": set()}, 0, 32))
    frames = [
        tuple(float(rect.get(key) or "nan") for key in ("x", "y", "width", "height")) for rect in root.iter("rect")
    ]
    return dict(zip([item.name for item in items], frames, strict=True))  # type: ignore[arg-type]


def test_boxes_stand_on_their_grid_and_do_not_meet() -> None:
    boxes = boxes_of(["a @ 0,0 : one", "b @ 1,0 : a much longer text here", "c @ 0,1 : 中文|两行", "d @ 1,1 : x"])
    for first, (x, y, w, h) in boxes.items():
        for second, (x2, y2, w2, h2) in boxes.items():
            assert first == second or x + w < x2 or x2 + w2 < x or y + h < y2 or y2 + h2 < y, (first, second)
    assert boxes["a"][0] < boxes["b"][0] and boxes["a"][1] < boxes["c"][1]
    assert boxes["a"][0] + boxes["a"][2] / 2 == pytest.approx(boxes["c"][0] + boxes["c"][2] / 2, abs=0.2)


def test_a_box_that_spans_covers_its_columns() -> None:
    boxes = boxes_of(["wide @ 0,1 @ 2,1 : all of them", "a @ 0,0 : a", "b @ 1,0 : b", "c @ 2,0 : c"])
    assert boxes["wide"][0] <= boxes["a"][0] and boxes["wide"][0] + boxes["wide"][2] >= boxes["c"][0] + boxes["c"][2]


def test_arrows_go_from_border_to_border() -> None:
    items, arrows = diagram.read_diagram(["a @ 0,0 : one", "b @ 1,0 : two", "a -> b : why", "b --> a"])
    root = drawn(diagram.draw_diagram(items, arrows, "alt", {}, 0, 32))
    a, b = [(float(r.get("x") or 0), float(r.get("width") or 0)) for r in root.iter("rect")]
    lines = [path for path in root.iter("path") if "arrow" in (path.get("class") or "")]
    start = float(re.findall(r"-?[\d.]+", lines[0].get("d") or "")[0])
    assert start == pytest.approx(a[0] + a[1], abs=0.2)
    heads = [re.findall(r"-?[\d.]+", p.get("d") or "")[:2] for p in root.iter("path") if p.get("class") == "head"]
    assert float(heads[0][0]) == pytest.approx(b[0], abs=0.2)
    assert float(heads[1][0]) == pytest.approx(a[0] + a[1], abs=0.2)
    assert heads[0][1] != heads[1][1], "there and back are two lines"
    assert "dashed" in (lines[1].get("class") or "") and "why" in texts(root)


def test_an_arrow_over_a_box_between_goes_around_it() -> None:
    items, arrows = diagram.read_diagram(["a @ 0,0 : a", "b @ 1,0 : b", "c @ 2,0 : c", "a -> c"])
    root = drawn(diagram.draw_diagram(items, arrows, "alt", {}, 0, 32))
    top = float((root.get("viewBox") or "").split()[1])
    assert top < min(float(rect.get("y") or 0) for rect in root.iter("rect")) - 10


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("a -> nobody", "nobody"),
        ("a @ 0,0 : twice", "'a'"),
        ("what is this", "what is this"),
        (r"x .. $\foo$ @ 1,1", "foo"),
    ],
)
def test_a_diagram_that_cannot_be_drawn_says_why(line: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        diagram.read_diagram(["a @ 0,0 : one", line])


def test_text_of_figures_knows_indices_and_escapes() -> None:
    runs = svg.read_runs("$W^{QK}_h$ & d_k <b> file_name_x")
    assert [(run.text, run.shift) for run in runs if run.shift] == [("Q", 1), ("K", 1), ("h", -1), ("k", -1)]
    assert svg.plain(runs) == "WQKh & dk <b> file_name_x"
    assert "".join(drawn(svg.draw(runs, 0, 0, 15)).itertext()) == "WQKh & dk <b> file_name_x"


@pytest.mark.parametrize(
    ("written", "printed"),
    [("-0.05", "−0.05"), ("1.3e8", "1.3×10⁸"), ("2.5×10^-24", "2.5×10⁻²⁴"), ("63,045,632", "63,045,632"), ("-∞", "−∞")],
)
def test_numbers_are_printed_with_minus_and_powers(written: str, printed: str) -> None:
    assert numbers.typeset(written) == printed


# -------------------------------------------------------------------------------------------------- symbols and maths


def test_a_symbol_is_its_production_lines() -> None:
    path, statement = symbol.locate("clearhead.nn.cores.ScaledDotProduct.weights")
    lines, first, last = symbol.source_lines(path, statement, False)
    source = path.read_text(encoding="utf-8").splitlines()
    assert [line.strip() for line in lines] == [line.strip() for line in source[first - 1 : last]]
    assert lines[0].startswith("def weights(") and source[first - 2].strip() == ""


def test_a_symbol_without_its_docstring_has_the_rest() -> None:
    path, statement = symbol.locate("clearhead.nn.cores.spread")
    whole, *_ = symbol.source_lines(path, statement, False)
    short, *_ = symbol.source_lines(path, statement, True)
    assert [line for line in whole if '"""' not in line] == short != whole


def test_long_lines_of_code_go_on_further_in(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    page = "# Page\n\n```{symbol} clearhead.nn.cores.ScaledDotProduct.weights\n```\n"
    (tmp_path / "pages/index.md").write_text(page, encoding="utf-8")
    status, told, out = build(tmp_path / "pages")
    assert status == 0, told
    rows = re.findall(
        r'<span class="row" style="--deep:(\d+)ch">(.*)', (out / "index.html").read_text(encoding="utf-8")
    )
    lines, *_ = symbol.source_lines(*symbol.locate("clearhead.nn.cores.ScaledDotProduct.weights"), False)
    assert [int(deep) - 4 for deep, _ in rows] == [len(line) - len(line.lstrip()) for line in lines]
    assert [unescape(re.sub("<[^>]*>", "", row)) for _, row in rows] == lines


@pytest.mark.parametrize("name", ["clearhead.nn.cores.Nothing", "clearhead.nowhere.x", "clearhead.nn.cores"])
def test_a_symbol_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(LookupError):
        symbol.locate(name)


@pytest.mark.parametrize(
    ("latex", "parts"),
    [
        (r"\frac{QK^\top}{\sqrt{d_k}}", ["mfrac", "msqrt", "msup", "msub"]),
        (r"\operatorname{softmax}(x)_i < 1", ["msub", "mi"]),
        (r"\begin{bmatrix} a & b \\ c & d \end{bmatrix}", ["mtable", "mtr", "mtd"]),
        (r"\sum_{j=1}^{n} x_j", ["msubsup", "munderover"]),
    ],
)
def test_maths_becomes_well_formed_mathml(latex: str, parts: list[str]) -> None:
    root = drawn(maths.mathml(latex, block=True))
    found = {element.tag for element in root.iter()}
    assert root.get("display") == "block" and root.get("alttext") == latex and found & set(parts), found
    if len(parts) > 2:
        assert set(parts) <= found


def test_names_of_functions_stand_apart_but_touch_their_bracket() -> None:
    spaced = [element.tag for element in drawn(maths.mathml(r"a \log p", block=False))[0]]
    assert spaced == ["mi", "mspace", "mi", "mspace", "mi"]
    touching = drawn(maths.mathml(r"\operatorname{softmax}(x)", block=False))[0]
    assert [(element.tag, element.text) for element in touching][:2] == [("mi", "softmax"), ("mo", "(")]


@pytest.mark.parametrize(("latex", "form"), [("a = -b", "prefix"), ("a - b", None), ("(a) - b", None)])
def test_a_minus_is_a_sign_only_after_an_operator(latex: str, form: str | None) -> None:
    minus = [element for element in drawn(maths.mathml(latex, block=False)).iter("mo") if element.text == "−"]
    assert [element.get("form") for element in minus] == [form]


def test_an_unknown_command_of_maths_is_an_error() -> None:
    with pytest.raises(ValueError, match="nosuchthing"):
        maths.mathml(r"a + \nosuchthing b", block=False)


def test_chinese_is_indexed_by_pairs() -> None:
    assert list(chinese.pairs("注意力 is 头, 权重")) == ["注意", "意力", "头", "权重"]
    assert chinese.ChineseSearch({}).split("权重是 0.401112，multi-head") == [
        "权重",
        "重是",
        "0.401112",
        "multi",
        "head",
    ]


def test_numbers_are_words_of_the_index() -> None:
    assert searching.split_words("0.401112, 63,045,632 and 10.") == ["0.401112", "63,045,632", "and", "10"]
    assert searching.EnglishSearch({}).split("a 1.5 b") == ["a", "1.5", "b"]


# -------------------------------------------------------------------------------------- a page with faults, and without

FAULTS = {
    "{fact}`1 <no.such_fact>`": "no.such_fact",
    "{cited}`1 <no.such_paper>`": "no.such_paper",
    "{fact}`1`": "must read",
    r"$\nosuchcommand$": "nosuchcommand",
    "```{symbol} clearhead.nn.cores.Gone\n```": "Gone",
    "```{matrices}\nS <attn.scores>\n1\n```": ":alt: is required",
    "```{diagram}\n:alt: x\na -> b\n```": "no box",
    "[text](other.md#nowhere)": "other.md#nowhere",
}


def build(source: Path, *options: str) -> tuple[int, str, Path]:
    out = source.parent / "out"
    command = [sys.executable, "-m", "sphinx", "-n", "-W", "-q", "-c", str(SITE), *options, str(source), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stderr, out


def test_every_fault_of_a_page_fails_the_build_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/index.md").write_text("# Page\n\n" + "\n\n".join(FAULTS) + "\n", encoding="utf-8")
    status, told, _ = build(tmp_path / "pages")
    assert status != 0
    for fault, word in FAULTS.items():
        assert any("index.md" in line and word in line for line in told.splitlines()), f"{fault}\n{told}"


def test_a_chinese_page_has_its_roles_boxes_and_no_blank_at_line_ends(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    page = """\
        # 页

        第一行
        第二行有 {fact}`0.401112 <attn.weights.0.0>`，
        还有 {cited}`28.4 <vaswani.bleu_big_en_de>` 和 {wrong}`25.9 <E01>`。
        The end
        of it, *so* *这样*。（有$x$。又（$y$）。

        ```{exercise} 和
        多少？
        ```

        ```{solution}
        一。
        ```

        ```{exercise}
        再来？
        ```

        ```{misconception} $d_k$ 无用
        有用。
        ```
        """
    page = "\n".join(line.removeprefix("        ") for line in page.splitlines())
    (tmp_path / "pages/index.md").write_text(page, encoding="utf-8")
    status, told, out = build(tmp_path / "pages", "-D", "language=zh_CN")
    assert status == 0, told
    html = (out / "index.html").read_text(encoding="utf-8")
    assert re.search(r'<html[^>]* lang="zh-CN"', html)
    assert "第一行第二行有" in html and "，还有" in html and "The end\nof it," in html
    assert '<em class="latin">so</em> <em>这样</em>' in html
    assert re.search(r'（有<span class="keep"><math.*?</math>。</span>', html)
    assert re.search(r'<span class="keep">（<math.*?</math>）。</span>', html)
    assert re.search(r'<span class="fact" data-fact="attn.weights.0.0" title="[^"]*0\.4011\d+', html)
    assert re.search(r'<a class="[^"]*number[^"]*" href="references.html#ref-vaswani2017"[^>]*>.*?28\.4', html)
    assert re.search(r'<a class="[^"]*number[^"]*" href="errata.html#e01"[^>]*><s class="wrong"[^>]*>25\.9</s>', html)
    assert "练习 1" in html and "练习 2" in html and "<summary>答案</summary>" in html
    assert re.search(r"常见误解</span>\s*<math", html)

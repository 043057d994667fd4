"""Road 1 of the handbook: its values are right, and no fault of a page gets past it."""

import ast
import importlib.util
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import sacrebleu

ROOT = Path(__file__).parents[2]
HANDBOOK = ROOT / "docs" / "transformer"
SCRIPT = HANDBOOK / "verify.py"


def load() -> ModuleType:
    """The script as a module; it lies outside every package."""
    spec = importlib.util.spec_from_file_location("handbook_verify", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


verify = load()
FACTS = verify.FACTS()


def command(*arguments: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-I", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, encoding="utf-8")


# ------------------------------------------------------------------------------------------------------- the real thing


def test_the_handbook_passes_from_any_folder(tmp_path: Path) -> None:
    done = command("--quiet", cwd=tmp_path)
    assert done.stdout + done.stderr == "" and done.returncode == 0


def test_the_script_needs_the_standard_library_alone() -> None:
    nodes = list(ast.walk(ast.parse(SCRIPT.read_text("utf-8"))))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("language", verify.LANGUAGES)
def test_each_of_the_sixteen_sections_has_its_parts(language: str) -> None:
    pages = [verify.Page(path, HANDBOOK) for path in sorted((HANDBOOK / language).glob("[0-9][0-9]-*.md"))]
    assert len(pages) == 16
    for page in pages:
        count = {name: len(page.named(name)) for name in ("misconception", "exercise", "solution", "paper", "symbol")}
        assert count["misconception"] and count["paper"] and count["symbol"], (page.name, count)
        assert 2 <= count["exercise"] == count["solution"], (page.name, count)
        assert page.maths and page.named("matrices") + page.named("diagram"), page.name


def test_every_audited_figure_is_covered_or_excused() -> None:
    coverage = json.loads((HANDBOOK / "coverage.json").read_text("utf-8"))
    assert len(coverage) == 118
    assert all(set(entry) in ({"fact"}, {"reason"}) for entry in coverage.values())
    excused = {figure for figure, entry in coverage.items() if "reason" in entry}
    assert excused == {"B132-code", "B133-028", "B133-16pct", "B133-03", "B151-diff"}


# ----------------------------------------------------------------------------------------------------------- the values

E = math.exp(1 / math.sqrt(2))
HAND = {
    "attn.raw": [[1, 0, 1], [0, 1, 1], [1, 1, 2]],
    "attn.weights.0": [E / (2 * E + 1), 1 / (2 * E + 1), E / (2 * E + 1)],
    "attn.weights.2.2": E / (E + 2),  # scores 1, 1, 2 over √2: e^s, e^s, e^2s
    "attn.output.0": [4 * E / (2 * E + 1), (1 + E) / (2 * E + 1)],
    "causal.weights": [[1, 0, 0], [1 / (1 + E), E / (1 + E), 0], [1 / (E + 2), 1 / (E + 2), E / (E + 2)]],
    "heads.result.0": [2 * math.e / (2 * math.e + 1), 2 * math.e / (2 * math.e + 1) + 2 / 3],
    "pos.pe.1": [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)],
    "pos.rotated": [math.sin(2), math.cos(2)],
    "block.norm": [2 / math.sqrt(4 + 1e-6), -2 / math.sqrt(4 + 1e-6)],
    "block.unbiased_norm": [1 / math.sqrt(2), -1 / math.sqrt(2)],
    "model.gap": math.e,
    "soft.variance_raw_64": 64,
    "train.nll": -math.log(0.4) / 2,
    "train.smoothing_floor": -0.9 * math.log(0.9) - 0.1 * math.log(0.1 / 36999),
    "train.rate_peak": 1 / math.sqrt(512 * 4000),
    "search.length_penalty.1": (10 / 6) ** 0.6,
    "changed.path_causal_convolution": 50,
    "compare.dilated_receptive_field": 3**5,
    "compare.receptive_field": 5 * (3 - 1) + 1,
    "cost.crossovers": [2 * 512, 4 * 512, 6 * 512],
    "cost.mha": 8 * 7 * 16**2 + 4 * 7**2 * 16,
    "params.base_total": 63_045_632,
    "params.big_total": 214_171_648,
    "params.base_total_biases": 63_045_632 + 18 * 4 * 512,
    "rnn.power_norms.0": math.sqrt(2 * 0.9**2 + 1),
    "rnn.power_norms.4": math.sqrt(2 * 0.9**200 + (100 * 0.9**99) ** 2),  # a Jordan block's power in closed form
    "luong.local_sum": sum(math.exp(-((s - 2.4) ** 2) / 2) for s in (1, 2, 3, 4)) / 4,
    "after.optimum.1": 0.3 * math.e / (0.5 + 0.3 * math.e + 0.2),
}


@pytest.mark.parametrize("id", HAND)
def test_values_worked_out_by_hand(id: str) -> None:
    value = verify.part(FACTS, id)
    rows, expected = (one if isinstance(one, list) else [one] for one in (value, HAND[id]))
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected):
        assert row == pytest.approx(wanted, rel=1e-12, abs=1e-15)


def test_bleu_is_that_of_sacrebleu() -> None:
    score = sacrebleu.corpus_bleu(["a b c d e"], [["a b c d f"]], tokenize="none")
    assert FACTS["bleu.score"] == pytest.approx(score.score, rel=1e-12)
    assert [100 * p for p in FACTS["bleu.precisions"]] == pytest.approx(score.precisions, rel=1e-12)


def test_gradients_are_the_slopes_of_the_loss() -> None:
    keys, values = [(1, 0), (0, 1), (1, 1)], [(2, 0), (0, 1), (2, 1)]

    def loss(query: list[float], bump: list[float]) -> float:  # O·[1, −1] for one query, with a bump on each score
        scores = [(query[0] * k[0] + query[1] * k[1]) / math.sqrt(2) + b for k, b in zip(keys, bump)]
        weights = [math.exp(s) / sum(map(math.exp, scores)) for s in scores]
        return sum(w * (v[0] - v[1]) for w, v in zip(weights, values))

    def slope(of: str, at: int) -> float:
        step = [1e-5 if i == at else 0.0 for i in range(3)]
        ends = []
        for sign in (1, -1):
            moved = [sign * s for s in step]
            ends.append(loss([1 + moved[0], moved[1]], [0, 0, 0]) if of == "query" else loss([1, 0], moved))
        return (ends[0] - ends[1]) / 2e-5

    assert FACTS["learn.query_gradient"] == pytest.approx([slope("query", i) for i in range(2)], abs=1e-9)
    assert FACTS["learn.score_gradient"] == pytest.approx([slope("score", j) for j in range(3)], abs=1e-9)


# ----------------------------------------------------------------------------------------------------- numbers as shown


@pytest.mark.parametrize(
    ("text", "value", "tolerance"),
    [
        ("0.401112", 0.401112, 5e-7),
        ("−0.5", -0.5, 0.05),
        (".25", 0.25, 0.005),
        ("12,345", 12345, 0.5),
        ("1.3e8", 1.3e8, 5e6),
        ("1.3×10^8", 1.3e8, 5e6),
        ("3.3 × 10¹⁸", 3.3e18, 5e16),
        ("1.75×10^{−7}", 1.75e-7, 5e-10),
        ("-∞", -math.inf, 0),
    ],
)
def test_numbers_as_authors_write_them(text: str, value: float, tolerance: float) -> None:
    assert verify.parse_number(text) == (pytest.approx(value), pytest.approx(tolerance))


@pytest.mark.parametrize("text", ["", "28.4 BLEU", "1,23", "65%", "about 3", "1.2.3", "x", "1/3"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="is no number"):
        verify.parse_number(text)


@pytest.mark.parametrize(
    ("text", "expected", "ok"),
    [
        ("0.401112", 0.4011120926797859, True),
        ("0.401113", 0.4011120926797859, False),
        ("0.40", 0.4011120926797859, True),
        ("63", 63.045632, True),  # a rounded number, half a unit
        ("65", 63.045632, False),
        ("64", 64.0, True),
        ("65", 64.0, False),  # a whole number that stands for a whole number
        ("63,045,632", 63045632, True),
        ("63,045,633", 63045632, False),
        ("6.3e7", 63045632, True),
        ("6.2e7", 63045632, False),
        ("0", 1.1e-16, True),
        ("-∞", -math.inf, True),
        ("-∞", 0.0, False),
        ("-999", -math.inf, False),
    ],
)
def test_a_number_is_compared_at_its_own_precision(text: str, expected: float, ok: bool) -> None:
    assert verify.agrees(text, expected)[0] is ok


# ------------------------------------------------------------------------------------- a small handbook, and its faults

PAGE = """(topic)=
# A page

See [the formula](#topic-formula), [this page](topic.md#topic), {ref}`here <topic>` and {doc}`the index <index>`.

(topic-formula)=
## The formula

The first weight is {fact}`0.401112 <attn.weights.0.0>`; the paper reached {cited}`28.4 <vaswani.bleu_big_en_de>` and
not {wrong}`25.9 <E01>`. It cost `0.5` in code, which the lint leaves alone.

$$
S = \\frac{QK^\\top}{\\sqrt{d_k}}
$$

```{matrices}
:alt: The scores become weights
:rows: a | b | c

S <attn.scores>
0.707107 0 0.707107
0 0.707107 0.707107
0.707107 0.707107 1.414214

[softmax]

A <attn.weights.0>
0.401112 0.197776 0.401112
```

```{diagram}
:alt: One box
:gap: 2.5
a @ 0,0.5 : a box
```

```{symbol} clearhead.nn.cores.ScaledDotProduct.weights
```

```{exercise}
What is a row sum?
```

````{solution}
{fact}`1 <attn.row_sums.0>`

```python
print(0.123456)
```
````
"""
INDEX = "(home)=\n# Index\n\n```{toctree}\n:hidden:\ntopic\nA title <errata>\nreferences\n```\n"
ERRATA = "(errata)=\n# Errata\n\n(e01)=\n## E01\n\nSee §3.2.1, Table 3, 表 3, arXiv:1706.03762v7, PyTorch 2.13.\n"
SOURCES = sorted({entry["source"] for entry in verify.read_cited().values()})
REFERENCES = "(references)=\n# References\n\n" + "".join(f"(ref-{source})=\n\nA paper.\n\n" for source in SOURCES)
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><text data-fact="model.gap">2.718</text><text>four</text></svg>'


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A handbook in both languages in which nothing is wrong."""
    for language in ("en", "zh"):
        (tmp_path / language).mkdir()
        for name, text in (("topic", PAGE), ("index", INDEX), ("errata", ERRATA), ("references", REFERENCES)):
            (tmp_path / language / f"{name}.md").write_text(text, "utf-8")
        figures = tmp_path / "figures" / language
        figures.mkdir(parents=True)
        (figures / "drawn.svg").write_text(SVG, "utf-8")
    shutil.copy(HANDBOOK / "cited.json", tmp_path)
    (tmp_path / "coverage.json").write_text('{"A04-A": {"fact": "attn.weights"}, "B1": {"reason": "none"}}', "utf-8")
    verify.write_lock(FACTS, tmp_path / "lock.json")
    return tmp_path


def problems(book: Path) -> list[str]:
    report = verify.check(book, book / "lock.json")
    return [f"{one.page}:{one.line} {one.message}" for one in report.problems]


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


def test_a_right_handbook_has_no_problems(book: Path) -> None:
    assert problems(book) == []
    ids = [one.id for one in verify.check(book, book / "lock.json").shown if one.page == "zh/topic.md"]
    assert ids.count("attn.weights.0.0") == 2 and "attn.scores.2.2" in ids and "vaswani.bleu_big_en_de" in ids


BOTH = {  # the same fault in both languages: (old, new) → what is said, with the line in the page
    "wrong digit": (
        "0.401112 <attn",
        "0.401212 <attn",
        "topic.md:9 attn.weights.0.0  expected 0.40111209  shown 0.401212",
    ),
    "cited": ("28.4 <vas", "28.5 <vas", "topic.md:9 vaswani.bleu_big_en_de  expected 28.4  shown 28.5"),
    "cell": ("707107 1.414214", "707107 1.414213", "topic.md:23 attn.scores.2.2  expected 1.4142136  shown 1.414213"),
    "whole": ("`1 <attn.row", "`2 <attn.row", "topic.md:45 attn.row_sums.0  expected 1  shown 2"),
    "unknown id": ("<attn.weights.0.0>", "<attn.weihgts>", "topic.md:9 fact: no fact 'attn.weihgts'; did you mean"),
    "not a cell": ("<attn.weights.0.0>", "<attn.weights.0>", "topic.md:9 fact: 'attn.weights.0' is a list of 3"),
    "beyond": ("<attn.weights.0.0>", "<attn.weights.0.3>", "topic.md:9 fact: 'attn.weights.0.3': cell 3 of 3"),
    "no id": ("0.401112 <attn.weights.0.0>", "0.401112", "topic.md:9 fact: '0.401112' should read NUMBER <id>"),
    "shape": ("0 0.707107 0.707107\n", "", "topic.md:20 matrices: attn.scores is 3×3, shown with rows of [3, 3]"),
    "no label": ("S <attn.scores>\n", "", "should read LABEL <fact.id>"),
    "anchor": (
        "](#topic-formula)",
        "](#topic-formla)",
        "topic.md:4 #topic-formla: no anchor 'topic-formla' in any page",
    ),
    "page": ("](topic.md#topic)", "](topc.md#topic)", "topic.md:4 topc.md#topic: there is no file topc.md"),
    "elsewhere": ("](topic.md#topic)", "](index.md#topic)", "no anchor 'topic' in index.md, which"),
    "reference": ("{ref}`here <topic>`", "{ref}`topik`", "topic.md:4 reference to 'topik', an anchor that no page has"),
    "document": ("<index>`", "<indx>`", "topic.md:4 doc:indx: there is no file indx.md"),
    "anchor twice": ("(topic-formula)=", "(topic)=", "topic.md:6 anchor 'topic' stands in"),
    "anchor in capitals": ("(topic-formula)=", "(Topic-Formula)=", "anchor 'Topic-Formula': use small ASCII letters"),
    "image": ("# A page\n", "# A page\n\n![](no.svg)\n", "topic.md:4 no.svg: there is no file no.svg"),
    "image from the network": (
        "# A page\n",
        "# A page\n\n![](https://x.org/a.png)\n",
        "loads nothing from the network",
    ),
    "decimal": ("## The formula", "## The formula is 0.5 long", "topic.md:7 0.5 stands in no role"),
    "decimal after Chinese": ("## The formula", "## 权重为0.5。", "topic.md:7 0.5 stands in no role"),
    "a table": ("$$\nS", "| a |\n|---|\n| 3.14 |\n\n$$\nS", "topic.md:14 3.14 stands in no role"),
    "maths": ("S = ", "S = 0.25", "topic.md:13 0.25 stands in no role"),
    "alt text": (":alt: One box", ":alt: One box of 1.5", "topic.md:32 1.5 stands in no role"),
    "a box": (": a box", ": a box of 1.5", "topic.md:34 1.5 stands in no role"),
    "a label": ("S <attn.scores>", "S·0.5 <attn.scores>", "topic.md:20 0.5 stands in no role"),
    "five digits": ("## The formula", "## The 37,000 words", "topic.md:7 37,000 stands in no role"),
    "no erratum": ("<E01>", "<E99>", "topic.md:10 wrong: errata.md has no anchor 'e99'"),
    "a role in the opening": ("```{exercise}", "```{exercise} `S`", "topic.md:40 a backtick in the line that opens"),
    "two backticks": (
        "{fact}`0.401112 <attn.weights.0.0>`",
        "{fact}``0.9 <attn.raw.0.0>``",
        "topic.md:9 fact: one backtick",
    ),
    "a blank before": ("{fact}`0.401112", "{fact} `0.401112", "topic.md:9 fact: one backtick has to follow at once"),
    "a digit before": ("{fact}`0.401112", "9{fact}`0.401112", "topic.md:9 fact: '9' touches {fact}`0.401112 <attn"),
    "a minus before": ("{fact}`0.401112", "−{fact}`0.401112", "topic.md:9 fact: '−' touches"),
    "digits after": ("<attn.weights.0.0>`", "<attn.weights.0.0>`999", "topic.md:9 fact: '9' touches"),
    "a power after": ("<attn.weights.0.0>`", "<attn.weights.0.0>` × 10^9", "topic.md:9 fact: '× 10' touches"),
    "zero times a power": ("`1 <attn.row", "`0e9 <attn.row", "topic.md:45 fact: '0e9': zero with a power of ten"),
    "a script": ("# A page\n", "# A page\n\n<script>1</script>\n", "topic.md:4 raw HTML, '<script'"),
    "an address in HTML": ("# A page\n", '# A page\n\n<a href="//x.org">x</a>\n', "topic.md:4 raw HTML, '<a href="),
    "never closed": ("print(0.123456)\n```\n````\n", "print(1)\n", "a fence is never closed"),
}


@pytest.mark.parametrize("fault", BOTH)
def test_each_fault_of_a_page_is_named(book: Path, fault: str) -> None:
    old, new, said = BOTH[fault]
    for language in ("en", "zh"):
        change(book / language / "topic.md", old, new)
    found = problems(book)
    for language in ("en", "zh"):
        page = "" if "topic.md" not in said else f"{language}/"
        assert any(f"{page}{said}" in one for one in found), found


PAIRS = {  # only in one language
    "fact": ("{fact}`1 <attn.row_sums.0>`", "one", "zh/topic.md:1 fact attn.row_sums.0: 1 in en, 0 in zh (numbers)"),
    "maths": ("$$\nS", "$$\nA\n$$\n\n$$\nS", "zh/topic.md:1 blocks of maths: 1 in en, 2 in zh (counts)"),
    "symbol": ("ScaledDotProduct.weights", "ScaledDotProduct", "clearhead.nn.cores.ScaledDotProduct: 0 in en, 1 in zh"),
    "exercise": ("{exercise}", "{note}", "zh/topic.md:1 exercise: 1 in en, 0 in zh (counts)"),
    "anchor": (
        "(topic-formula)=\n## T",
        "(topic-formula)=\n(topic-more)=\n## T",
        "topic-more: 0 in en, 1 in zh (anchors)",
    ),
}


@pytest.mark.parametrize("fault", PAIRS)
def test_the_languages_have_the_same(book: Path, fault: str) -> None:
    old, new, said = PAIRS[fault]
    change(book / "zh" / "topic.md", old, new)
    assert any(said in one for one in problems(book)), problems(book)


def test_pages_come_in_pairs_and_in_the_contents(book: Path) -> None:
    (book / "en" / "alone.md").write_text("(alone)=\n# Alone\n", "utf-8")
    assert problems(book) == ["en/alone.md:1 has no twin zh/alone.md", "en/alone.md:1 stands in no table of contents"]
    (book / "en" / "alone.md").unlink()
    (book / "zh" / "errata.md").unlink()
    assert "en/errata.md:1 has no twin zh/errata.md" in problems(book)
    assert "zh/index.md:7 table of contents: there is no page errata.md" in problems(book)


def test_cited_numbers_have_a_source(book: Path) -> None:
    change(book / "zh" / "references.md", "(ref-vaswani2017)=", "(ref-vaswani2016)=")
    said = "zh/references.md:1 no anchor 'ref-vaswani2017', the source of "
    assert [one.startswith(said) for one in problems(book)].count(True) == 1


def test_names_that_look_like_numbers_are_let_through(tmp_path: Path) -> None:
    allowed = (
        "§3.2.1 and §5.3–5.4, Section 3.2, Table 3, Figure 1-4, Eq. (3), 图 1-4、表 3、式（2）、第 3.2 节、\n"
        "3.5 节, B1.3.2, arXiv:1706.03762v7, 1409.0473, 10.1162/neco.1997.9.8.1735, <https://a.org/1.5/1234>,\n"
        "[x](p.md#a.1234.5),\n"
        "Python 3.11, PyTorch 2.13, GPT-3.5, 2017, 1234, 1. first, ``{fact}`0.5 <x>` ``, `0.5`.\n"
        "<!-- 0.5 -->\n% 0.5\n"
    )
    page = tmp_path / "en" / "page.md"
    page.parent.mkdir()
    page.write_text(allowed, "utf-8")
    assert verify.lint(page) == []
    page.write_text("代表0.5，方式 1.5，Table 0.5, x0.25, about 3.2 sections, .5, 1706.0\n", "utf-8")
    assert [one.message.split()[0] for one in verify.lint(page)] == ["0.5", "1.5", "0.5", "0.25", "3.2", ".5", "1706.0"]


def test_drawn_figures_are_compared_and_linted(book: Path) -> None:
    figure = book / "figures" / "zh" / "drawn.svg"
    change(figure, "2.718<", "2.719<")
    change(figure, ">four<", ">0.44<")
    assert problems(book) == [
        "figures/zh/drawn.svg:1 0.44 stands in no data-fact or data-cited",
        "figures/zh/drawn.svg:1 model.gap  expected 2.7182818  shown 2.719  difference 7.2e-04",
    ]


def test_coverage_wants_facts_that_exist_and_are_shown(book: Path) -> None:
    coverage = {
        "A": {"fact": ["attn.weights", "attn.raw"]},
        "B": {"fact": "attn.nothing"},
        "C": {"fact": "attn.scores.2"},
    }
    (book / "coverage.json").write_text(json.dumps(coverage), "utf-8")
    first, second = problems(book)
    assert first == "coverage.json:1 A: no page shows attn.raw"
    assert second.startswith("coverage.json:1 B: no fact 'attn.nothing'")


def test_a_key_that_stands_twice_is_noticed(book: Path) -> None:
    (book / "coverage.json").write_text('{"A": {"reason": "x"}, "A": {"reason": "y"}}', "utf-8")
    assert problems(book) == ["coverage.json:1 'A' stands 2 times"]


# -------------------------------------------------------------------------------------------------------- lock, command


def test_a_stale_lock_is_noticed_and_rewritten(book: Path) -> None:
    lock = book / "lock.json"
    where = ("--root", book, "--lock", lock)
    content = json.loads(lock.read_text("utf-8"))
    assert content["facts"]["causal.mask"][0] == [0, "-inf", "-inf"]
    content["facts"]["attn.weights"][0][0] += 1e-9
    del content["facts"]["attn.raw"]
    content["facts"]["attn.more"] = 1
    lock.write_text(json.dumps(content), "utf-8")
    done = command(*where, "--quiet")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line.split()[2] for line in lines[:3]] == ["attn.more", "attn.raw", "attn.weights"]
    assert "gone" in lines[0] and "new" in lines[1] and "--write-lock" in lines[2]
    lock.unlink()
    assert "is not there; run verify.py --write-lock" in command(*where, "--quiet").stdout
    assert command(*where, "--quiet", "--write-lock").returncode == 0
    assert verify.check(book, lock).problems == []


def test_the_command_prints_a_line_a_number(book: Path) -> None:
    change(book / "en" / "topic.md", "0.401112 <attn", "0.401113 <attn")
    where = ("--root", book, "--lock", book / "lock.json")
    done = command(*where)
    assert done.returncode == 1 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert "en/topic.md:9  attn.weights.0.0  expected 0.40111209  shown 0.401113  difference 9.1e-07  WRONG" in lines
    assert "zh/topic.md:9  attn.weights.0.0  expected 0.40111209  shown 0.401112  difference 9.3e-08" in lines
    assert lines[-2].startswith("en/topic.md:9  PROBLEM  attn.weights.0.0  expected 0.40111209  shown 0.401113")
    assert lines[-1].endswith("numbers on 4 pages, 1 problem")
    assert command(*where, "--page", "zh/", "--quiet").stdout == ""
    quiet = command(*where, "--quiet").stdout.splitlines()
    assert len(quiet) == 2 and "PROBLEM" in quiet[0] and quiet[1].endswith("1 problem")


def test_the_lines_follow_the_page_and_a_table_of_chapters_ends_them(book: Path) -> None:
    change(book / "zh" / "topic.md", "707107 1.414214", "707107 1.414213")
    lines = command("--root", book, "--lock", book / "lock.json").stdout.splitlines()
    end = lines.index("")
    assert [line.split()[1] for line in lines[-2:]] == ["PROBLEM", "facts,"]  # nobody has to look for it
    places = [line.split()[0].rsplit(":", 1) for line in lines[:end]]
    assert places == sorted(places, key=lambda place: (place[0], int(place[1])))  # roles and figures in their order
    rows = {line.split()[0]: line.split()[1:] for line in lines[end + 1 : lines.index("", end + 1)]}
    assert rows["chapter"] == ["facts", "shown", "numbers", "wrong"]
    facts = sum(id.startswith("attn.") for id in FACTS)
    assert rows["attn"] == [str(facts), "3", "28", "1"]  # scores, weights and row_sums; 1 + 9 + 3 + 1 in each language
    assert rows["model"][1:] == ["1", "2", "0"]  # in the drawn figures
    assert rows["cited"] == ["-", "1", "2", "0"]
    assert rows["rep"][1:] == ["0", "0", "0"]


def test_a_reader_that_goes_away_is_no_error(book: Path) -> None:
    change(book / "zh" / "topic.md", "707107 1.414214", "707107 1.414213")
    (book / "zh" / "topic.md").write_text((book / "zh" / "topic.md").read_text("utf-8") + "\n0.25" * 20_000, "utf-8")
    words = [sys.executable, "-I", str(SCRIPT), "--root", str(book), "--lock", str(book / "lock.json")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1  # what was found counts, read or not


def test_an_unknown_page_is_a_wrong_call(book: Path) -> None:
    where = ("--root", book, "--lock", book / "lock.json")
    done = command(*where, "--page", "topik")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith("no page 'topik'; did you mean 'topic'?")
    assert "no page 'en/99'" in command(*where, "--page", "en/99").stderr
    assert command(*where, "--page", "index").returncode == 0  # a page without a number is a page
    shown = command(*where, "--page", "en/topic.md").stdout.splitlines()
    assert shown[-1] == "3 facts, 15 numbers on 1 page, 0 problems"
    assert shown == command(*where, "--page", "docs/transformer/en/topic.md").stdout.splitlines()


def test_one_fact_alone(book: Path) -> None:
    where = ("--root", book, "--lock", book / "lock.json")
    done = command(*where, "--fact", "attn.row_sums")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "attn.row_sums = [1.0, 1.0, 1.0]"
    assert {line.split()[1] for line in done.stdout.splitlines()[1:3]} == {"attn.row_sums.0"}
    chapter = command(*where, "--fact", "attn").stdout.splitlines()
    assert "attn.raw = [[1, 0, 1], [0, 1, 1], [1, 1, 2]]" in chapter
    assert not any("model.gap" in line for line in chapter)
    wrong = command(*where, "--fact", "attn.rowsums")
    assert wrong.returncode == 2 and "did you mean 'attn.row_sums'?" in wrong.stderr


def test_json_holds_everything(book: Path) -> None:
    change(book / "zh" / "topic.md", "0.401112 <attn", "0.401113 <attn")
    report = json.loads(command("--root", book, "--lock", book / "lock.json", "--json").stdout)
    assert report["ok"] is False and report["facts"]["causal.mask"][0][2] == "-inf"
    assert [one["page"] for one in report["problems"]] == ["zh/topic.md"]
    wrong = [one for one in report["shown"] if not one["ok"]]
    assert [(one["page"], one["line"], one["id"], one["shown"]) for one in wrong] == [
        ("zh/topic.md", 9, "attn.weights.0.0", "0.401113")
    ]


@pytest.mark.parametrize("file", ["cited.json", "coverage.json", "lock.json"])
@pytest.mark.parametrize("content", ["{", "[1]", '{"facts": 3, "A": 1}'])
def test_a_damaged_file_is_a_line(book: Path, file: str, content: str) -> None:
    (book / file).write_text(content, "utf-8")
    done = command("--root", book, "--lock", book / "lock.json", "--quiet")
    assert done.returncode == 1 and done.stderr == ""
    assert file in done.stdout.splitlines()[0] and "PROBLEM" in done.stdout


def test_pages_are_text_and_lie_flat(book: Path) -> None:
    for language in ("en", "zh"):
        (book / language / "below").mkdir()
        (book / language / "below" / "page.md").write_text("0.5\n", "utf-8")
        topic = book / language / "topic.md"
        topic.write_bytes(topic.read_bytes() + b"\n\xff\n")
    found = problems(book)
    assert "en/below/page.md:1 lies too deep; all pages lie in en/" in found
    assert any(one.startswith("zh/topic.md:1 is no UTF-8") for one in found)


MUTANTS = {  # of this script: (its text, what it becomes, a fact that moves, whether a page shows that)
    "no 1/√d_k": (
        "scale(matmul(q, transpose(k)), 1 / math.sqrt(len(k[0])))",
        "matmul(q, transpose(k))",
        "attn.weights",
    ),
    "no √d_model": (
        "math.sqrt(4) * a + b for a, b in zip(table[id]",
        "a + b for a, b in zip(table[id]",
        "model.tiny_logits",
    ),
    "pre-norm": (
        "x = [layer_norm(row) for row in add(x, tiny_heads(x, x, 1))]",
        "x = add(x, (lambda y: tiny_heads(y, y, 1))([layer_norm(row) for row in x]))",
        "model.tiny_memory",
    ),
    "unbiased variance": (
        "return mean([(x - mean(row)) ** 2 for x in row])",
        "return sum([(x - mean(row)) ** 2 for x in row]) / (len(row) - 1)",
        "block.variance",
    ),
    "ε outside the root": ("math.sqrt(variance(row) + epsilon)", "(math.sqrt(variance(row)) + epsilon)", "block.norm"),
    "half sines, half cosines": (
        "    return row\n\n\ndef causal_mask",
        "    return row[::2] + row[1::2]\n\n\ndef causal_mask",
        "pos.pe",
    ),
    "no causal mask": ("[0 if j <= i else -math.inf for j", "[0 for j", "causal.weights"),
    "softmax over the queries": (
        "weights = [softmax(row) for row in scores]",
        "weights = transpose([softmax(row) for row in transpose(scores)])",
        "attn.weights",
    ),
    "zeroed after the softmax": (
        "        scores = add(scores, mask)\n    weights = [softmax(row) for row in scores]",
        "        zeros = mask\n    weights = [softmax(row) for row in scores]\n    if mask is not None:\n"
        "        weights = [[w if m == 0 else 0 for w, m in zip(*rows)] for rows in zip(weights, zeros)]",
        "causal.weights",
    ),
    "heads by a reshape": (
        '"heads.split_right": transpose(rows)',
        '"heads.split_right": [flat[:3], flat[3:]]',
        "heads.split_right",
    ),
    "labels not shifted": (
        "[[begin, *target], [*target, end]]",
        "[[begin, *target], [begin, *target]]",
        "train.prefix_and_gold",
    ),
    "smoothing in the NLL": (
        '"train.nll_reported": mean([-math.log(row[0]) for row in rows])',
        '"train.nll_reported": mean([-dot(smoothed(3, 0), [math.log(p) for p in row]) for row in rows])',
        "train.nll_reported",
    ),
    "embedding not shared": ('{"embedding": 37000 * d,', '{"embedding": 3 * 37000 * d,', "params.base_total"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_of_the_script_is_noticed_by_lock_and_pages(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, fact = MUTANTS[mutant]
    source = SCRIPT.read_text("utf-8")
    assert source.count(old) == 1
    module = ModuleType("mutant_of_verify")
    module.__file__ = str(SCRIPT)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source.replace(old, new), str(SCRIPT), "exec"), module.__dict__)  # noqa: S102
    found = module.check(HANDBOOK, verify.LOCK).problems
    assert any(one.page == verify.LOCK.name and one.message.startswith(f"{fact} is ") for one in found)
    shown = any(one.page.startswith("en/") and one.message.startswith(fact) for one in found)
    assert shown or mutant == "ε outside the root"  # which moves the seventh decimal; the pages show six


def test_a_wrong_call_is_status_2(tmp_path: Path) -> None:
    assert command("--nonsense").returncode == 2
    done = command("--root", tmp_path)
    assert done.returncode == 2 and "holds no cited.json" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        *(
            "this figure 28.4 is it",
            "Table 41.8",
            "§28.4",
            "a section 37.5 long",
            "v0.9",
            "PyTorch 28.4 times",
            "B28.4",
        ),
        *("第 28.4 节", "图 41.8", "0{.}999", "1{,}234{,}567", "0．999", "0&#46;999", "0\u200b999.5"),
    ],
)
def test_a_number_does_not_pass_for_a_section_or_in_disguise(text: str) -> None:
    assert verify.loose_numbers(text)


@pytest.mark.parametrize(
    "text",
    ["§3.2.1", "section 3.5", "Table 3", "图 1-7", "表 3", "Figure 1-20", "B1.5.1", "Python 3.11", "equation (1)"],
)
def test_sections_tables_and_versions_are_no_numbers_to_check(text: str) -> None:
    assert verify.loose_numbers(text) == []

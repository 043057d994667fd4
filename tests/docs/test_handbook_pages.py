"""What the handbook's pages owe their readers beyond right numbers (`verify.py` holds those).

The sixteen sections have the same headings, English pages need no Chinese, the entrance says what is promised, and
results that are whole numbers stand in a role like any others.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HANDBOOK = Path(__file__).parents[2] / "docs" / "transformer"
PARTS = {
    "en": [
        "The question",
        "The idea",
        "The formula",
        "Step by step",
        "In our code",
        "Where readers go wrong",
        "Exercises",
        "In the paper",
    ],
    "zh": ["问题", "思路", "公式", "逐步计算", "实际运行的代码", "容易误解之处", "练习", "论文出处"],
}
SECTIONS = [path.name for path in sorted((HANDBOOK / "en").glob("[01][0-9]-*.md"))]
HAN = re.compile(r"[\u4e00-\u9fff]")
# The sources' titles, the glossary and authors' own titles, the toy language of the walk.
WITH_CHINESE = {"errata.md", "index.md", "references.md", "walk.md"}
# What a newcomer changed without being noticed, and its like elsewhere: page, right, wrong.
SLIPS = [
    ("en/04-attention.md", "{fact}`0 <proj.q.0.1>`]", "{fact}`5 <proj.q.0.1>`]"),
    ("en/04-attention.md", "{fact}`2 <rep.x_shape.1>` |", "{fact}`4 <rep.x_shape.1>` |"),
    ("zh/03-projections.md", "{fact}`2 <proj.wv.0.0>`", "{fact}`3 <proj.wv.0.0>`"),
    ("zh/08-order.md", "{fact}`0 <pos.embedding.1>`", "{fact}`1 <pos.embedding.1>`"),
    ("en/09-block.md", "{fact}`−2 <block.x.1>`", "{fact}`2 <block.x.1>`"),
    ("en/10-model.md", "{fact}`3 <train.prefix_and_gold.1.2>`", "{fact}`2 <train.prefix_and_gold.1.2>`"),
]


def headings(page: Path) -> list[tuple[str, str]]:
    """(line above, heading) of each heading of the second level."""
    lines = page.read_text("utf-8").splitlines()
    return [(above, line[3:]) for above, line in zip(lines, lines[1:]) if line.startswith("## ")]


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("language", PARTS)
def test_every_section_has_the_same_parts(language: str, section: str) -> None:
    names = [re.split("[:：]", heading)[0] for _, heading in headings(HANDBOOK / language / section)]
    found = [name for name in dict.fromkeys(names) if name in PARTS[language]]
    assert found == PARTS[language]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_heading_of_a_section_has_an_anchor(section: str) -> None:
    both = [headings(HANDBOOK / language / section) for language in PARTS]
    assert all(re.fullmatch(r"\([a-z0-9-]+\)=", above) for above, _ in both[0])
    assert [above for above, _ in both[0]] == [above for above, _ in both[1]]


def test_english_pages_need_no_chinese() -> None:
    pages = [path for path in sorted((HANDBOOK / "en").glob("*.md")) if path.name not in WITH_CHINESE]
    assert len(pages) > 20
    assert [path.name for path in pages if HAN.search(path.read_text("utf-8"))] == []
    assert HAN.search((HANDBOOK / "zh" / "06-causality.md").read_text("utf-8"))


def test_the_entrance_says_what_is_promised_and_the_glossary_is_one() -> None:
    english, chinese = ((HANDBOOK / language / "index.md").read_text("utf-8") for language in PARTS)
    assert "every number with a dotted line, and every cell of a matrix figure, was computed twice" in english
    assert "no program computes them" in english and "separate arithmetic" in english
    assert "带点线的每一个数、矩阵图里的每一格，都算过两遍" in chinese and "另行演算" in chinese
    rows = [re.findall(r"^\| .*\| \[L?\d+\]\(.*$", page, re.MULTILINE) for page in (english, chinese)]
    assert len(rows[0]) > 15 and rows[0] == rows[1]
    for page in (english, chinese):
        assert {"(handbook-before)=", "(handbook-teaching)=", "(handbook-words)="} <= set(page.splitlines())


@pytest.mark.parametrize(("page", "right", "wrong"), SLIPS, ids=[f"{page} {wrong}" for page, _, wrong in SLIPS])
def test_a_slip_in_a_whole_number_is_noticed(tmp_path: Path, page: str, right: str, wrong: str) -> None:
    book = tmp_path / "book"
    for folder in PARTS:
        shutil.copytree(HANDBOOK / folder, book / folder)
    for file in ("cited.json", "coverage.json"):
        shutil.copy(HANDBOOK / file, book / file)
    text = (book / page).read_text("utf-8")
    assert right in text
    (book / page).write_text(text.replace(right, wrong, 1), "utf-8")
    done = subprocess.run(
        [sys.executable, "-I", str(HANDBOOK / "verify.py"), "--quiet", "--root", str(book)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and page in done.stdout and re.findall("<(.*)>", wrong)[-1] in done.stdout

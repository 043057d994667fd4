"""The few words that the site itself says, in both languages."""

from __future__ import annotations

__all__ = ["WORDS", "words"]

WORDS = {
    "en": {
        "misconception": "Misconception",
        "exercise": "Exercise",
        "solution": "Answer",
        "paper": "In the paper",
        "line": "line {first}",
        "lines": "lines {first}–{last}",
        "omitted": "docstring left out",
        "fact": "{id} = {value}, computed",
        "fact_unknown": "{id}, computed",
        "cited": "{id} = {value}, from {source}, {where}",
        "wrong": "a source says so and is wrong: erratum {id}",
        "values": "Row {row}: {cells}.",
        "licence": "Apache License 2.0",
        "repository": "The repository",
        "guides": "its guides",
        "repository_where": "The pages are made from docs/transformer of the repository; its guides are in docs/guide.",
        "numbers": "Checked when this was built: {numbers} numbers on these pages against {facts} facts of verify.py",
        "roads": "; {modules} of those were recomputed by the modules that train, {arithmetic} by separate arithmetic.",
        "one_road": "; the modules that train were not asked.",
        "unchecked": "The numbers were not checked when this was built.",
    },
    "zh": {
        "misconception": "常见误解",
        "exercise": "练习",
        "solution": "答案",
        "paper": "论文原文",
        "line": "第 {first} 行",
        "lines": "第 {first}–{last} 行",
        "omitted": "文档字符串从略",
        "fact": "{id} = {value}（计算所得）",
        "fact_unknown": "{id}（计算所得）",
        "cited": "{id} = {value}，出自 {source}，{where}",
        "wrong": "有资料这样写，但有误，见勘误 {id}",
        "values": "第 {row} 行：{cells}。",
        "licence": "Apache 许可证 2.0",
        "repository": "代码仓库",
        "guides": "使用指南",
        "repository_where": "这些页面由代码仓库的 docs/transformer 生成；使用指南在 docs/guide。",
        "numbers": "生成时已核对：这些页面上的 {numbers} 个数与 verify.py 的 {facts} 项结果比较",
        "roads": "；其中 {modules} 项由训练用的模块重新算过，{arithmetic} 项由另一套算术算过。",
        "one_road": "；没有用训练用的模块重算。",
        "unchecked": "生成时没有核对其中的数。",
    },
}


def words(language: str | None) -> dict[str, str]:
    """The site's words in the language of a build (`en`, `zh_CN`)."""
    return WORDS["zh" if (language or "en").startswith("zh") else "en"]

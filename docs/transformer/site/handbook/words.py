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
    },
}


def words(language: str | None) -> dict[str, str]:
    """The site's words in the language of a build (`en`, `zh_CN`)."""
    return WORDS["zh" if (language or "en").startswith("zh") else "en"]

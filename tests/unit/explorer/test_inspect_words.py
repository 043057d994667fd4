"""The words of the inspection report: both languages say as much, in their own script, and every key has its use."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from clearhead.explorer.content import Both
from clearhead.explorer.inspect_methods import CALIBRATED, METHODS
from clearhead.explorer.inspect_payload import MEASURES
from clearhead.explorer.inspect_words import WORDS
from clearhead.inspection.calibrated import calibration

IDS = {
    "statistics", "role", "importance", "ablation-zero", "ablation-mean", "permutation", "uniform", "adversarial",
    "agreement", "seed-null", "attention", "value-norms", "rollout", "gradient-input", "gradient-norm",
    "integrated-gradients", "occlusion", "lens", "temperature", "pruning", "probes",
}  # fmt: skip
CHINESE = re.compile("[\u3400-\u9fff]")
PLACEHOLDER = re.compile(r"\{(\w+)\}")
CITED = re.compile(r"\d{4}")
SCRIPTS = {
    each.name: each.read_text(encoding="utf-8")
    for each in resources.files("clearhead.explorer").iterdir()
    if each.name.startswith("inspect_") and each.name.endswith(".js")
}
KEY = r"[a-z_]+\.[\w.-]+"
TERMS = re.compile("[Dd]ropout|BLEU")


def faults(words: Both) -> list[str]:
    """What is wrong with one entry."""
    found = []
    if not words.en.strip() or not words.zh.strip():
        found.append("empty")
    if sorted(PLACEHOLDER.findall(words.en)) != sorted(PLACEHOLDER.findall(words.zh)):
        found.append("placeholders")
    if CHINESE.search(words.en):
        found.append("Chinese in English")
    said = PLACEHOLDER.sub("", TERMS.sub("", words.en))
    if re.search("[a-z]{4}", said) and not CHINESE.search(words.zh) and not CITED.search(words.en):
        found.append("not translated")
    if re.search(r"(?<!head )importance", words.en.lower()) or re.search("(?<!头)重要性", words.zh):
        found.append("importance")
    if re.search("[,;:?!()](?=[\u3400-\u9fff])|(?<=[\u3400-\u9fff])[,;:?!()]", words.zh):
        found.append("half-width punctuation")
    return found


def test_both_languages_say_as_much() -> None:
    assert {key: found for key, words in WORDS.items() if (found := faults(words))} == {}


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (Both("a weight", " "), "empty"),
        (Both("{count} heads", "{heads} 个头"), "placeholders"),
        (Both("注意力", "注意力"), "Chinese in English"),
        (Both("attention", "attentions"), "not translated"),
        (Both("attention weight", "attention weight"), "not translated"),
        (Both("the importance of this token", "该词元的作用"), "importance"),
        (Both("how much it matters", "词元重要性"), "importance"),
        (Both("a, b", "甲,乙"), "half-width punctuation"),
    ],
)
def test_each_fault_would_be_found(words: Both, fault: str) -> None:
    assert fault in faults(words)


def test_head_importance_may_be_called_so() -> None:
    assert not faults(Both("Head importance (by gradient)", "头重要性（按梯度）"))
    assert not faults(Both("Michel et al. 2019, §4.1", "Michel et al. 2019, §4.1"))


def test_every_method_of_the_plan_is_explained_and_no_other() -> None:
    assert set(METHODS) == IDS
    for method in IDS:
        assert {f"method.{method}{part}" for part in ("", ".what", ".can", ".cannot", ".cite", ".calibrated")} <= set(
            WORDS
        )


def test_what_a_calibration_score_is_of_is_told_as_it_was_measured() -> None:
    said = {"links": "share of target words", "rank-correlation": "Spearman", "named": "share of heads"}
    recorded = calibration()
    for method in IDS:
        measure = recorded.measures.get(method)
        assert (said[measure] if measure else "It describes") in CALIBRATED[method].en, method


def test_whatever_a_recorded_score_is_of_the_page_has_words_for_it() -> None:
    assert set(calibration().measures.values()) <= set(MEASURES)
    assert {f"shell.calibrated.{measure}" for measure in MEASURES} <= set(WORDS)


def test_every_key_that_a_script_names_is_there() -> None:
    for name, script in SCRIPTS.items():
        for key in re.findall(rf'(?:\bt|\bsay|\btOr)\(\s*"({KEY})"', script):
            assert key in WORDS, f"{name}: {key}"
        for key in re.findall(rf'\bnamed\([^;]*?"({KEY})"', script):
            assert key in WORDS, f"{name}: {key}"


def test_no_word_is_there_in_vain() -> None:
    """Each key is written in a script, or begins like one that a script puts together."""
    everything = "\n".join(SCRIPTS.values())
    literal = set(re.findall(rf'"({KEY})"', everything)) | set(re.findall(r'"([a-z_]+)"', everything))
    joined = [re.escape(text).replace(r"\$\{\}", "[^`]+") for text in re.findall(r"`([a-z_.-]+[.](?:[\w.-]|\$\{\})*)`",
              re.sub(r"\$\{[^{}]*\}", "${}", everything))]  # fmt: skip
    views = {f"{view}.lead" for view in ("overview", "map", "tokens", "heads", "tests")}
    for key in WORDS:
        assert key in literal or key in views or any(re.fullmatch(pattern, key) for pattern in joined), key

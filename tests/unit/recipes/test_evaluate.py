"""Scores of a model and of a file of translations, and what is refused."""

import json
from pathlib import Path

import pytest
import sacrebleu

from clearhead.base.errors import DataError, DecodingError, InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.recipes import searching as module
from clearhead.recipes.evaluate import check_languages, evaluate_file, evaluate_translator, target_language
from tests.unit.recipes.tiny import tiny_translator

HYPOTHESES = ["the cat sat on the mat", "a dog, it is", "it is what it is"]
REFERENCES = ["the cat sat on a mat", "a dog it was", "it is what it was"]
CONFIG = DecodingConfig(max_length=8)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_file_is_scored_as_sacrebleu_does(tmp_path: Path) -> None:
    result = evaluate_file(write(tmp_path / "h", HYPOTHESES), write(tmp_path / "r", REFERENCES), "en")
    bleu, chrf = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]), sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES])
    assert (result.scores.bleu.value, result.scores.chrf.value) == pytest.approx((bleu.score, chrf.score))
    assert "tok:13a" in str(result)
    assert "nc:6" in str(result)
    table = json.loads(result.as_json())
    assert table["lines"] == 3
    assert table["target_language"] == "en"
    assert table["bleu"]["value"] == pytest.approx(bleu.score)
    assert "version" in table["bleu"]["signature"]


def test_the_language_decides_how_words_are_counted(tmp_path: Path) -> None:
    hypotheses, references = write(tmp_path / "h", ["猫坐在垫子上面"]), write(tmp_path / "r", ["猫坐在垫子上边"])
    assert evaluate_file(hypotheses, references, "zh").scores.bleu.value > 50.0
    assert evaluate_file(hypotheses, references, "en").scores.bleu.value < 1.0


def test_a_model_is_scored_on_what_it_translates(tmp_path: Path) -> None:
    translator = tiny_translator()
    source = write(tmp_path / "s", ["the cat", "", "mat"])
    hypotheses = [each.text for each in translator.translate(["the cat", "", "mat"], max_length=8)]
    result = evaluate_translator(translator, CONFIG, source, write(tmp_path / "r", hypotheses), output=tmp_path / "o")
    assert result.hypotheses == hypotheses
    assert (tmp_path / "o").read_text(encoding="utf-8").split("\n")[:-1] == hypotheses
    assert result.scores.chrf.value == pytest.approx(100.0)


def test_unequal_files_are_refused_before_anything_is_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "search", lambda *_, **__: pytest.fail("translated"))
    one, three = write(tmp_path / "one", ["x"]), write(tmp_path / "three", ["x", "y", "z"])
    with pytest.raises(DataError, match="three has 3 lines but .*one has 1"):
        evaluate_translator(tiny_translator(), CONFIG, three, one)
    with pytest.raises(DataError, match="one has 1 lines but .*three has 3"):
        evaluate_file(one, three, "en")


def test_a_failed_line_spoils_the_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(module, "search", fails)
    source = write(tmp_path / "s", ["", "the cat"])
    with pytest.raises(DecodingError, match="1 lines failed, the first is line 2"):
        evaluate_translator(tiny_translator(), CONFIG, source, source)


def test_languages() -> None:
    assert [target_language(given) for given in ("en-de", "en,de", "zh", "en:zh-Hans")] == ["de", "de", "zh", "zh-Hans"]
    with pytest.raises(InputError):
        target_language("?")
    check_languages(tiny_translator(), "en-de")
    check_languages(tiny_translator(), None)
    with pytest.raises(InputError, match="--languages en-fr: the model translates en→de"):
        check_languages(tiny_translator(), "en-fr")

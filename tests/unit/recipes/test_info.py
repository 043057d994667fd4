"""Parameters by part, and what is said of bundles and presets."""

from pathlib import Path

import pytest

from clearhead.base.errors import BundleError, InputError
from clearhead.models import presets
from clearhead.recipes.info import describe, parameters_by_part, render
from tests.unit.recipes.tiny import save_tiny, tiny_bundle


def test_the_parts_of_base_by_hand() -> None:
    counts = parameters_by_part(presets.base(vocab_size=37000))
    attention, feedforward, norm = 4 * 512 * 512, 2 * 512 * 2048 + 2048 + 512, 2 * 512
    assert counts == {
        "embeddings": 37000 * 512,
        "encoder": 6 * (attention + feedforward + 2 * norm),
        "decoder": 6 * (2 * attention + feedforward + 3 * norm),
        "output projection": 0,  # tied
        "total": 63_045_632,
    }


def test_untied_matrices_are_counted_where_they_are() -> None:
    counts = parameters_by_part(presets.tiny(vocab_size=100, embeddings="separate", d_model=64))
    assert (counts["embeddings"], counts["output projection"]) == (2 * 100 * 64, 100 * 64)
    assert sum(count for part, count in counts.items() if part != "total") == counts["total"]


def test_a_bundle_and_its_run_directory(tmp_path: Path) -> None:
    save_tiny(tmp_path / "run" / "checkpoints" / "step-00000003")
    table = describe(str(tmp_path / "run"), 5)
    assert table == describe(str(tmp_path / "run" / "checkpoints" / "step-00000003"), 5)
    assert table["languages"] == ["en", "de"]
    assert table["training"] == {"updates": 3}
    assert table["parameters"]["total"] == sum(p.numel() for p in tiny_bundle().model.parameters())
    text = render(table)
    assert "d_model = 16" in text
    assert "updates = 3" in text
    assert "torch = " in text


def test_a_preset() -> None:
    text = render(describe("base", 37000))
    assert "63,045,632" in text
    assert "vocab_size = 37000" in text


def test_neither(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"bse: .*did you mean 'base'\?"):
        describe("bse", 100)
    with pytest.raises(BundleError, match="neither a bundle"):
        describe(str(tmp_path), 100)

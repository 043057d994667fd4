"""Names, shapes and counts of parameters are pinned: a bundle that was saved must stay loadable.

tiny is listed in full, the others by count and hash of the same list. After a wanted change, write the golden file
anew, raise the bundle's format version if old bundles no longer load, and say so in the changelog:

    .venv/bin/python -m tests.golden.test_parameters > tests/golden/parameters.txt
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from clearhead.models import build, count_parameters, presets

GOLDEN = Path(__file__).with_name("parameters.txt")

VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {"norm": "post"},
    "attention-bias": {"attention": {"bias": True}},
    "grouped-heads": {"attention": {"kv_heads": 2}},
    "separate-embeddings": {"embeddings": "separate", "source_vocab_size": 900},
    "learned-positions": {"positions": {"kind": "learned", "max_positions": 512}},
    "swiglu": {"activation": "swiglu"},
}


def lines() -> list[str]:
    configs = {name: presets.named(name, 1000) for name in presets.PRESETS}
    configs |= {f"tiny {name}": presets.tiny(1000, **overrides) for name, overrides in VARIANTS.items()}
    listed = []
    for name, config in configs.items():
        model = build(config, device="meta")
        names = [f"{key} {'×'.join(map(str, tensor.shape))}" for key, tensor in model.state_dict().items()]
        digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
        listed.append(f"{name}: {len(names)} names, {count_parameters(model)} parameters, {digest}")
        listed += [f"  {each}" for each in names] if name == "tiny" else []
    return listed


def test_names_and_shapes_are_the_pinned_ones() -> None:
    pinned = GOLDEN.read_text(encoding="utf-8").split("\n")[:-1]
    assert lines() == pinned, f"if this is wanted: {(__doc__ or '').strip().splitlines()[-1].strip()}"


@pytest.mark.parametrize(
    ("preset", "overrides", "parameters"),
    [
        ("base", {}, 63_045_632),
        ("big", {}, 214_171_648),
        ("base", {"attention": {"bias": True}}, 63_082_496),
        ("big", {"attention": {"bias": True}}, 214_245_376),
    ],
)
def test_exact_counts_at_the_papers_vocabulary(preset: str, overrides: dict[str, Any], parameters: int) -> None:
    """By hand for base: 37000·512 + 6·(4·512² + 2·512·2048 + 2560 + 2·1024) + 6·(8·512² + … + 3·1024)."""
    assert count_parameters(build(presets.named(preset, 37000, overrides), device="meta")) == parameters


if __name__ == "__main__":
    print("\n".join(lines()))

"""Heat maps: the chapter's call runs, the colours stand where the weights are, and no label lies or fails silently."""

import io
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

matplotlib = pytest.importorskip("matplotlib")

from clearhead.analysis import glyphs  # noqa: E402
from clearhead.analysis.glyphs import drawable  # noqa: E402
from clearhead.analysis.heatmap import plot_attention_grid, plot_attention_heatmap, save_figure  # noqa: E402
from clearhead.base.errors import InputError  # noqa: E402

TOKENS = ["The", "cat", "sat", "on", "the", "mat"]
CAUSAL = torch.ones(6, 6).tril().bool()


def weights(heads: int, queries: int, keys: int) -> torch.Tensor:
    return torch.randn(heads, queries, keys, generator=torch.Generator().manual_seed(queries)).mul(2).softmax(-1)


def labels(axis: Any) -> tuple[list[str], list[str]]:
    return tuple([each.get_text() for each in side] for side in (axis.get_yticklabels(), axis.get_xticklabels()))  # type: ignore[return-value]


def shown(axis: Any) -> np.ma.MaskedArray[Any, Any]:
    found: np.ma.MaskedArray[Any, Any] = axis.images[0].get_array()
    return found


def pixels(figure: Any, axis: Any, row: int, column: int) -> Any:
    """The colour, 0 to 255, in the middle of a cell, with rows counted from the top of the picture."""
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=50)
    written.seek(0)
    image = matplotlib.image.imread(written)
    box = axis.get_window_extent()
    scale = 50 / figure.dpi
    rows, columns = shown(axis).shape
    x = (box.x0 + box.width * (column + 0.5) / columns) * scale
    y = image.shape[0] - (box.y1 - box.height * (row + 0.5) / rows) * scale
    return (image[round(y), round(x), :3] * 255).round()


def test_the_call_of_the_chapter_draws_what_the_chapter_says() -> None:
    attn_weights = weights(8, 6, 6).requires_grad_()
    figure = plot_attention_heatmap(attn_weights, TOKENS, 2, 3)
    axis, bar = figure.axes
    assert tuple(figure.get_size_inches()) == (10, 8)
    assert axis.get_title() == "Layer 3, Head 2"
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("Key Position", "Query Position")
    assert labels(axis) == (TOKENS, TOKENS)
    assert axis.get_aspect() == 1.0 and axis.images[0].get_cmap().name == "Blues"
    assert bar.get_ylabel() == "attention weight"
    np.testing.assert_allclose(shown(axis), attn_weights[2].detach().numpy(), rtol=1e-7)
    assert attn_weights.grad is None
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []
    assert "seaborn" not in sys.modules


def test_rows_are_queries_from_the_top_and_columns_are_keys() -> None:
    planted = torch.zeros(1, 3, 4)
    planted[0, 0, 3] = planted[0, 1, 0] = planted[0, 2, 0] = 1.0
    figure = plot_attention_heatmap(planted, ["q1", "q2", "q3"], 0, 1, key_tokens=["k1", "k2", "k3", "k4"])
    axis = figure.axes[0]
    figure.canvas.draw()
    dark, pale = pixels(figure, axis, 0, 3), pixels(figure, axis, 0, 0)
    assert dark.sum() < 250 and pale.sum() > 700
    assert pixels(figure, axis, 2, 0).sum() < 250  # transposed or upside down these would be pale
    assert labels(axis) == (["q1", "q2", "q3"], ["k1", "k2", "k3", "k4"])


@pytest.mark.parametrize(
    "given",
    [
        weights(2, 6, 6).numpy(),
        weights(2, 6, 6).tolist(),
        weights(2, 6, 6).double(),
        weights(2, 6, 6).to(torch.bfloat16),
        weights(2, 6, 6).requires_grad_(),
    ],
)
def test_arrays_and_tensors_of_every_kind_are_taken(given: Any) -> None:
    axis = plot_attention_heatmap(given, TOKENS, 1, 1).axes[0]
    np.testing.assert_allclose(shown(axis), weights(2, 6, 6)[1], atol=4e-3)


def test_on_a_logarithmic_scale_what_is_hidden_or_zero_is_left_out() -> None:
    causal = weights(1, 6, 6).masked_fill(~CAUSAL, 0.0)
    causal[0, 5, 1] = 0.0  # may be read, and is not
    axis = plot_attention_heatmap(causal, TOKENS, 0, 1, scale="log", mask=CAUSAL).axes[0]
    drawn = shown(axis)
    assert np.array_equal(~np.ma.getmaskarray(drawn), (causal[0] > 0).numpy())
    norm = axis.images[0].norm
    assert (norm.vmin, norm.vmax) == pytest.approx((float(causal[causal > 0].min()), float(causal.max())))
    assert bool(np.isfinite(norm(drawn).compressed()).all())
    strips = axis.collections[0].get_paths()
    boxes = {tuple(np.round(path.get_extents().bounds, 6)) for path in strips}
    assert boxes == {(row + 0.5, row - 0.5, 5.0 - row, 1.0) for row in range(5)}  # and not the zero at row 5
    assert axis.collections[0].get_hatch() == "////"


def test_a_logarithmic_scale_ends_five_decades_below_the_largest() -> None:
    tiny = torch.tensor([[[1.0, 1e-30], [0.5, 0.5]]])
    assert plot_attention_heatmap(tiny, ["a", "b"], 0, 1, scale="log").axes[0].images[0].norm.vmin == 1e-5
    nothing = plot_attention_heatmap(torch.zeros(1, 2, 2), ["a", "b"], 0, 1, scale="log")
    assert bool(np.ma.getmaskarray(shown(nothing.axes[0])).all())


def test_a_linear_scale_begins_at_zero_unless_it_is_told() -> None:
    norm = plot_attention_heatmap(weights(1, 6, 6), TOKENS, 0, 1).axes[0].images[0].norm
    assert (norm.vmin, norm.vmax) == (0.0, pytest.approx(float(weights(1, 6, 6).max())))
    told = plot_attention_heatmap(weights(1, 6, 6), TOKENS, 0, 1, limits=(0.0, 1.0)).axes[0].images[0].norm
    assert (told.vmin, told.vmax) == (0.0, 1.0)


@pytest.mark.parametrize(("count", "every"), [(3, 1), (14, 1), (64, 1), (128, 2)])
def test_labels_stay_large_enough_to_read_and_are_thinned_where_they_would_touch(count: int, every: int) -> None:
    tokens = [f"▁token{place}" for place in range(count)]
    figure = plot_attention_heatmap(weights(1, count, count), tokens, 0, 1)
    axis = figure.axes[0]
    assert labels(axis) == (tokens[::every], tokens[::every])
    size = axis.get_yticklabels()[0].get_fontsize()
    assert size >= 5
    figure.canvas.draw()
    gap = axis.get_window_extent().height / count * every * 72 / figure.dpi
    assert gap >= size, "labels would lie on one another"


def test_a_grid_has_every_head_on_one_scale() -> None:
    figure = plot_attention_grid(weights(5, 4, 6), list("abcd"), names=list("12345"), key_tokens=TOKENS, title="all")
    *maps, bar = figure.axes
    drawn = [axis for axis in maps if axis.images]
    assert [axis.get_title() for axis in drawn] == list("12345") and bar.get_ylabel() == "attention weight"
    for axis, head in zip(drawn, weights(5, 4, 6)):
        np.testing.assert_allclose(shown(axis), head, rtol=1e-7)
        assert axis.images[0].norm.vmax == pytest.approx(float(weights(5, 4, 6).max()))
    with pytest.raises(InputError, match="names: 1 for 5 heads"):
        plot_attention_grid(weights(5, 6, 6), TOKENS, names=["1"])


# ------------------------------------------------------------------------------------------------------------- labels


def test_nothing_in_a_token_is_formatting_and_no_character_becomes_a_box() -> None:
    given = [
        "$x_1$",
        "a\nb",
        "\t",
        "🚀",
        "e\u0301",
        "x\ufe0f",
        "\u200dx",
        "\u200b",
        "\x07",
        "▁man",
        "</script>",
    ]
    expected = ["$x_1$", "a\\nb", "\\t", "U+1F680", "e\u0301", "x\ufe0f", "x", "", "\\x07", "▁man", "</script>"]
    assert drawable([*given, "é" * 40]) == [*expected, "é" * 27 + "…"]


def test_chinese_is_drawn_or_fails_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "families", lambda: ("DejaVu Sans",))
    for token in ("猫", "ア", "고양이", "，"):
        with pytest.raises(InputError, match="fonts-noto-cjk"):
            plot_attention_heatmap(weights(1, 1, 1), [token], 0, 1)
    assert drawable(["кот"]) == ["кот"]


def test_with_the_font_there_is_no_missing_glyph() -> None:
    if len(glyphs.families()) == 1:
        pytest.skip("no font for Chinese is installed (fonts-noto-cjk)")
    tokens = ["我", "爱", "猫", "，", "ア", "שלום", "مرحبا", "😀", "🚀", "$x_1$"]
    figure = plot_attention_heatmap(weights(1, 10, 10), tokens, 0, 1, title="第 1 层", x_label="键")
    figure.savefig(io.BytesIO(), format="png", dpi=50)  # a warning of a missing glyph would be an error
    assert labels(figure.axes[0])[0] == [*tokens[:8], "U+1F680", "$x_1$"]


def test_before_matplotlib_sets_right_to_left_by_itself_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "_shapes", lambda: False)
    assert drawable(["שלום", "▁אב", "cat", "אb"]) == ["םולש", "בא▁", "cat", "אb"]


# -------------------------------------------------------------------------------------------------------------- files


def test_files_have_the_same_bytes_each_time_and_svg_keeps_its_text(tmp_path: Path) -> None:
    hostile = ["</script>", "<b>&", '"', "x", "y", "z"]
    for name in ("a", "b"):
        figure = plot_attention_heatmap(weights(1, 6, 6), hostile, 0, 1, mask=CAUSAL, path=tmp_path / f"{name}.svg")
        save_figure(figure, tmp_path / f"{name}.png", dpi=60)
    for ending in ("svg", "png"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    written = [each.text for each in ET.parse(tmp_path / "a.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert set(hostile) <= set(written) and "Layer 1, Head 0" in written


def test_a_notebook_shows_the_figure() -> None:
    figure: Any = plot_attention_heatmap(weights(1, 2, 2), ["a", "b"], 0, 1)
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head_idx": 2}, "head_idx: 2, and there are 2 heads: give 0 to 1"),
        ({"head_idx": -1}, "head_idx: -1"),
        ({"tokens": TOKENS[:5]}, "tokens: 5 for 6 queries"),
        ({"key_tokens": TOKENS[:5]}, "key_tokens: 5 for 6 keys"),
        ({"attn_weights": weights(1, 6, 5)}, "tokens: 6 for 5 keys.*not square needs key_tokens"),
        ({"attn_weights": weights(2, 6, 6)[0]}, r"got \(6, 6\): for one head give attn_weights\[None\]"),
        ({"attn_weights": weights(2, 6, 6)[None]}, r"of a batch give one sentence, attn_weights\[0\]"),
        ({"attn_weights": torch.zeros(2, 0, 6)}, "expected the shape"),
        ({"attn_weights": [[["x"]]]}, "not numbers"),
        ({"attn_weights": torch.full((2, 6, 6), torch.nan)}, "no number at head 0, query 0, key 0"),
        ({"attn_weights": weights(2, 6, 6) - 0.5, "scale": "log"}, "has no logarithm"),
        ({"limits": (0.0, 1.0), "scale": "log"}, "limits: 0 has no logarithm"),
        ({"scale": "cubic"}, "choose 'linear' or 'log'"),
        ({"mask": CAUSAL[:5]}, r"mask: expected the shape \(6, 6\)"),
        ({"cmap": "Rosa"}, "no colours named 'Rosa'"),
        ({"path": "picture.gif"}, "picture.gif: a heat map is PNG or SVG"),
        ({"path": "/nowhere/at/all.png"}, "/nowhere/at/all.png: cannot be written"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    call = {"attn_weights": weights(2, 6, 6), "tokens": TOKENS, "head_idx": 0, "layer_idx": 1}
    with pytest.raises(InputError, match=message):
        plot_attention_heatmap(**call | change)

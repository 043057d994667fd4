"""The chapter's section 1.5: what attention and feed-forward cost, counted while they run."""

from __future__ import annotations

from clearhead.models import presets
from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.feedforward import FeedForward
from clearhead.recipes.handbook.counting import (
    attention_cost,
    feed_forward_cost,
    layer_cost,
    projection_cost,
    score_matrix,
)
from clearhead.recipes.handbook.registry import facts

__all__: list[str] = []

LENGTHS = (512, 1024, 2048, 8192, 32768)
WIDTH = 512


@facts("cost", "projections_one_head single_head multi_head output mha", by=[Attention])
def small_attention() -> tuple[int, ...]:
    """Seven positions of width 16: one head of width 4 without its output projection, and four."""
    one, four = attention_cost(7, 16, heads=1, head_dim=4), attention_cost(7, 16, heads=4)
    return one.projections, one.projections + one.attention, four.projections + four.attention, four.output, four.total


@facts("cost", "ffn ffn_layer", by=[FeedForward])
def small_feed_forward() -> tuple[int, int]:
    """Seven positions of width 16, inner width 64: the whole, and one of its two maps."""
    return feed_forward_cost(7, 16), projection_cost(7, 16, 64)


@facts("cost", "elements element_factors", by=[ScaledDotProduct])
def elements() -> tuple[list[int], list[float]]:
    """Scores of one head by length, and in terms of the first."""
    counts = [score_matrix(length).numel() for length in LENGTHS]
    return counts, [count / counts[0] for count in counts]


@facts("cost", "layer_shares layer_100", by=[Attention, FeedForward])
def parts_of_a_layer() -> tuple[list[list[float]], list[int]]:
    """An encoder layer's maps, scoring and mixing, feed-forward: per cent at three lengths, and operations for 100."""

    def parts(length: int) -> list[int]:
        attention = attention_cost(length, WIDTH)
        return [attention.linear, attention.attention, feed_forward_cost(length, WIDTH)]

    shares = [[100 * part / layer_cost(length, WIDTH) for part in parts(length)] for length in (100, 1024, 4096)]
    return shares, parts(100)


@facts("cost", "mha_growth layer_growth doubling", by=[Attention, FeedForward])
def growth() -> tuple[float, float, float]:
    """From 512 to 32768 positions: attention with its projections, a whole layer; scoring and mixing when n doubles."""
    mha = attention_cost(32768, WIDTH).total / attention_cost(512, WIDTH).total
    layer = layer_cost(32768, WIDTH) / layer_cost(512, WIDTH)
    return mha, layer, attention_cost(14, 16, heads=4).attention / attention_cost(7, 16, heads=4).attention


@facts("cost", "ffn_over_mha_8 mha_over_ffn decoder_mha_over_ffn", by=[Attention, FeedForward])
def shares() -> tuple[float, list[float], list[float]]:
    """Attention against feed-forward at several lengths; a decoder layer has two attentions."""

    def ratio(length: int) -> float:
        return attention_cost(length, WIDTH).total / feed_forward_cost(length, WIDTH)

    lengths = (50, 100, 128, 200, 512, 1024, 2048, 4096)
    return 1 / ratio(8), [ratio(length) for length in lengths], [2 * ratio(100), 2 * ratio(200)]


@facts("cost", "projection_over_attention_at_d crossovers mha_equals_ffn", by=[Attention, FeedForward])
def crossovers() -> tuple[float, list[float], float]:
    """Where the quadratic part overtakes the linear ones: they grow apart in proportion to n from where they are."""
    here, feed_forward = attention_cost(WIDTH, WIDTH), feed_forward_cost(WIDTH, WIDTH)
    rivals = (here.linear, feed_forward, here.linear + feed_forward)
    equal = WIDTH * (feed_forward - here.linear) / here.attention
    return here.linear / here.attention, [WIDTH * rival / here.attention for rival in rivals], equal


@facts("cost", "qkv_parameters qkv_biases", by=[Attention, presets.base])
def projections() -> tuple[int, int]:
    """The three projections of a base layer; and the biases that the paper does not have."""
    width = presets.base(vocab_size=37000).d_model
    layer = Attention(AttentionConfig(bias=True), width)
    maps = (layer.query, layer.key, layer.value)
    biases = [each.bias.numel() for each in maps if each.bias is not None]
    return sum(each.weight.numel() for each in maps), sum(biases)


@facts("cost", "train_base train_big")
def training() -> tuple[float, float]:
    """Operations of the paper's runs as it estimates them: time, eight processors, 9.5 TFLOPS sustained."""
    hour = 60 * 60
    return 12 * hour * 8 * 9.5e12, 84 * hour * 8 * 9.5e12

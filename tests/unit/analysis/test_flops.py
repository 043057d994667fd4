"""Operations by formula against PyTorch's own counter, on the real modules."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from clearhead.analysis import flops
from clearhead.analysis.crossover import layer_cost
from clearhead.analysis.flops import in_all
from clearhead.analysis.sizes import Lengths
from clearhead.data.collate import Batch
from clearhead.decoding import DecodingConfig, search
from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.config import ModelConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.attention import Attention
from clearhead.nn.padding import Padded
from clearhead.nn.visibility import Visibility
from clearhead.objectives.cross_entropy import CrossEntropy
from tests.unit.analysis.configurations import CONFIGURATIONS

LENGTHS = Lengths(source=7, target=5, batch=2)
each_configuration = pytest.mark.parametrize("config", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
# Those whose products differ; norms, dropout and biases have none.
each_product = pytest.mark.parametrize(
    "config",
    [CONFIGURATIONS[name] for name in ("post-norm", "swiglu", "two key heads", "wide heads", "two vocabularies")],
    ids=lambda config: f"{config.activation} {config.attention.widths(16)} {config.embeddings}",
)


def real(config: ModelConfig) -> Seq2Seq:
    """In float64, where every product goes through operators that the counter knows."""
    return build(config, seed=0).double()


def text(rows: int, length: int) -> Padded:
    return Padded.full(torch.randint(4, 50, (rows, length), generator=torch.Generator().manual_seed(0)))


def batch(lengths: Lengths) -> Batch:
    target = text(lengths.batch, lengths.target)
    return Batch(text(lengths.batch, lengths.source), target, target)


@each_product
def test_a_training_step(config: ModelConfig) -> None:
    model = real(config).train()
    with FlopCounterMode(display=False) as forward:
        loss = CrossEntropy()(model, batch(LENGTHS)).sum
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    assert forward.get_total_flops() == in_all(flops.forward(config, LENGTHS))
    assert backward.get_total_flops() == in_all(flops.backward(config, LENGTHS))


def test_the_parts_are_those_of_the_modules() -> None:
    config = CONFIGURATIONS["two key heads"]
    model = real(config).eval()
    with FlopCounterMode(depth=9, display=False) as counter, torch.no_grad():
        model(text(2, 7), text(2, 5))
    found = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
    parts = flops.forward(config, LENGTHS)
    by_module = {
        "encoder feed-forward": [f"Seq2Seq.encoder.layers.{layer}.feedforward" for layer in range(1)],
        "decoder feed-forward": [f"Seq2Seq.decoder.layers.{layer}.feedforward" for layer in range(2)],
        "vocabulary": ["Seq2Seq.decoder.output"],
        "decoder cross-attention projections": [
            f"Seq2Seq.decoder.layers.{layer}.cross_attention.{map_}"
            for layer in range(2)
            for map_ in ("query", "key", "value", "output")
        ],
    }
    # The counter follows calls of modules: `output` is called as one, the projection of the vocabulary too.
    for part, names in by_module.items():
        assert sum(found[name] for name in names) == parts[part], part
    core = sum(found[f"Seq2Seq.encoder.layers.{layer}.attention.core"] for layer in range(1))
    assert core == parts["encoder self-attention scores"] + parts["encoder self-attention mixing"]


@each_product
@pytest.mark.parametrize("target", [1, 6])
def test_a_step_with_and_without_a_cache(config: ModelConfig, target: int) -> None:
    model, lengths = real(config).eval(), Lengths(source=7, target=target, batch=2)
    decoder, prefix = model.decoder, text(2, target)
    with torch.no_grad():
        memory = model.encoder(text(2, 7))
        state = decoder.start(memory)
        if target > 1:
            _, state = decoder.advance(Padded.full(prefix.ids[:, :-1]), state)
        with FlopCounterMode(display=False) as cached:
            hidden, _ = decoder.advance(Padded.full(prefix.ids[:, -1:]), state)
            decoder.project(hidden[:, -1])
        with FlopCounterMode(display=False) as anew:
            hidden, _ = decoder.advance(prefix, decoder.start(memory))
            decoder.project(hidden[:, -1])
    assert cached.get_total_flops() == in_all(flops.step(config, lengths, cache=True))
    assert anew.get_total_flops() == in_all(flops.step(config, lengths, cache=False))


@pytest.mark.parametrize("name", ["post-norm", "one key head"])
def test_greedy_search_does_what_the_account_says(name: str) -> None:
    # Six tokens and no fewer: five that the search may choose freely, then EOS at its limit.
    config = CONFIGURATIONS[name]
    model, lengths = real(config).eval(), Lengths(source=7, target=6, batch=2)
    with FlopCounterMode(display=False) as counter:
        (first, *_), *_ = search(model, text(2, 7), DecodingConfig(beam=1, max_length=5, min_length=5))
    assert len(first.tokens) == 5
    assert counter.get_total_flops() == in_all(flops.greedy(config, lengths, cache=True))


@each_configuration
def test_a_translation_is_the_sum_of_its_steps(config: ModelConfig) -> None:
    encoder = in_all({k: v for k, v in flops.forward(config, LENGTHS).items() if k.startswith("encoder")})
    steps = {
        cache: sum(in_all(flops.step(config, Lengths(7, written, 2), cache=cache)) for written in range(1, 6))
        for cache in (True, False)
    }
    _, kept = config.attention.widths(config.d_model)[0], config.attention.widths(config.d_model)
    source_keys = 2 * config.d_model * 2 * (kept[1] * kept[2]) * 7 * 2 * config.decoder_layers
    assert in_all(flops.greedy(config, LENGTHS, cache=False)) == encoder + steps[False]
    assert in_all(flops.greedy(config, LENGTHS, cache=True)) == encoder + source_keys + steps[True]


def test_one_attention_layer_of_the_chapter() -> None:
    # The chapter's worked example, n = 7, d = 16, h = 4, on the module itself: 8·n·d² + 4·n²·d = 17,472.
    config = presets.tiny(vocab_size=50, d_model=16, attention={"heads": 4})
    attention = Attention(config.attention, 16).double()
    x = torch.ones(1, 7, 16, dtype=torch.float64)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for parameter in attention.parameters():
            parameter.fill_(0.1)
        attention(x, attention.remember(x, x), Visibility.of_keys(torch.ones(1, 7, dtype=torch.bool)))
    parts = flops.attention_flops(config, queries=7, keys=7, pairs=49)
    assert counter.get_total_flops() == sum(parts.values()) == 8 * 7 * 16**2 + 4 * 7**2 * 16 == 17_472
    assert flops.feedforward_flops(presets.tiny(vocab_size=50, d_model=16, d_ff=64), 7) == 28_672


def test_cross_attention_has_two_lengths() -> None:
    # Trap F.65: 4·m·d² for queries and output, 4·n·d² for keys and values, 4·m·n·d for scores and mixing.
    n, m, d = 300, 20, 512
    parts = flops.attention_flops(presets.base(vocab_size=37000), queries=m, keys=n, pairs=m * n)
    assert sum(parts.values()) == 4 * m * d * d + 4 * n * d * d + 4 * m * n * d
    one = flops.forward(presets.base(vocab_size=37000, decoder_layers=1), Lengths(n, m))
    assert sum(count for part, count in one.items() if "cross" in part) == sum(parts.values())


def test_what_the_chapter_has_wrong() -> None:
    base = layer_cost(presets.base(vocab_size=37000))

    def share(length: int) -> float:
        terms = base.at(length)
        return (terms["projections"] + terms["attention"]) / terms["feed-forward"]

    # E18: at 100 to 200 tokens attention costs some 0.55 to 0.6 of the feed-forward layer, not the same.
    assert [round(share(length), 3) for length in (100, 200, 1024)] == [0.549, 0.598, 1.0]
    # E28: from 512 to 32,768 tokens the scores grow 4,096 times, the attention layer 1,408, the layer 640 times.
    small, large = base.at(512), base.at(32768)
    assert large["attention"] / small["attention"] == 4096
    attention = [terms["attention"] + terms["projections"] for terms in (small, large)]
    assert attention[1] / attention[0] == 1408
    assert large["layer"] / small["layer"] == 640


@pytest.mark.parametrize("name", ["base", "big"])
def test_the_crossovers_are_2d_4d_6d(name: str) -> None:
    config = presets.TRANSFORMERS[name](vocab_size=37000)
    d = config.d_model
    assert list(layer_cost(config).crossovers().values()) == [2 * d, 4 * d, 6 * d, 2 * d]
    # Two attentions to one feed-forward layer: the same against the projections, half against feed-forward.
    assert list(layer_cost(config, "decoder").crossovers().values()) == [2 * d, 2 * d, 4 * d, 0]


@each_configuration
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_crossover_is_where_the_terms_meet(config: ModelConfig, stack: str) -> None:
    cost = layer_cost(config, stack)
    own, feedforward, linear, whole = cost.crossovers().values()
    assert cost.attention * own == cost.projections
    assert cost.attention * feedforward == cost.feedforward
    assert cost.attention * linear == cost.projections + cost.feedforward
    assert cost.attention * whole + cost.projections == cost.feedforward


@each_configuration
def test_a_layer_is_a_layer_of_the_model(config: ModelConfig) -> None:
    parts = flops.forward(config, Lengths(9, 9))
    for stack, layers in (("encoder", 1), ("decoder", 2)):
        whole = sum(count for part, count in parts.items() if part.startswith(stack))
        assert layers * layer_cost(config, stack).at(9)["layer"] == whole

"""Trains the small model of the handbook's walk-through page: `python train_walk_model.py OUT` writes it as a bundle.

It translates a toy Chinese into English. The grammar is small but not trivial: the verb agrees with its subject, the
negation brings in an auxiliary, and the adverb of time moves from before the verb to the end. Two thirds of its
sentences are never shown in training, and the model must get all of these right before it is written.

The same machine, thread count and versions give the same weights. What was written is committed beside this file.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from pathlib import Path

import torch

from clearhead.bundle.bundle import Bundle, save_bundle
from clearhead.data.collate import collate
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.search import search
from clearhead.models.build import build, count_parameters
from clearhead.models.config import TransformerConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.attention import AttentionConfig
from clearhead.nn.padding import Padded
from clearhead.objectives.cross_entropy import CrossEntropy
from clearhead.text.config import TokenizerConfig
from clearhead.text.symbols import EOS
from clearhead.text.tokenizer import Tokenizers

Pair = tuple[str, str]

SUBJECTS = {"我": "I", "你": "you", "他": "he", "她": "she", "我们": "we", "他们": "they"}
THIRD_PERSON = {"他", "她"}
TIMES = {"": "", "今天": "today", "每天": "daily", "现在": "now"}
VERBS = {"爱": ("love", "loves"), "看见": ("see", "sees"), "画": ("draw", "draws"), "买": ("buy", "buys")}
ADJECTIVES = {"": "", "小": "small", "黑": "black", "老": "old"}
NOUNS = {"猫": "cats", "狗": "dogs", "鸟": "birds", "鱼": "fish", "书": "books"}

VOCABULARY = 150  # small enough to make one word, "sees", two pieces: every other one is one
UPDATES, PEAK, WARMUP = 2000, 0.01, 200
SEED = 7


def sentence(subject: str, time: str, negated: bool, verb: str, adjective: str, noun: str) -> Pair:
    """One sentence of the grammar and its translation."""
    third = subject in THIRD_PERSON
    plain, with_s = VERBS[verb]
    doing = [("does" if third else "do"), "not", plain] if negated else [with_s if third else plain]
    source = [subject, time, "不" if negated else "", verb, adjective, noun]
    target = [SUBJECTS[subject], *doing, ADJECTIVES[adjective], NOUNS[noun], TIMES[time]]
    return " ".join(filter(None, source)), " ".join(filter(None, target))


def grammar() -> tuple[list[Pair], list[Pair]]:
    """Every sentence, shuffled: one third to train on, two thirds held out."""
    choices = itertools.product(SUBJECTS, TIMES, (False, True), VERBS, ADJECTIVES, NOUNS)
    pairs = [sentence(*choice) for choice in choices]
    random.Random(SEED).shuffle(pairs)
    held = len(pairs) // 3
    return pairs[:held], pairs[held:]


def learn(model: Seq2Seq, tokenizers: Tokenizers, pairs: list[Pair]) -> None:
    """Adam over batches of 64, with the rate rising for `WARMUP` updates and falling to zero on a cosine."""
    encoded = [(tokenizers.source.encode(source), tokenizers.target.encode(target)) for source, target in pairs]
    optimizer = torch.optim.Adam(model.parameters(), lr=PEAK, betas=(0.9, 0.98))
    loss = CrossEntropy(label_smoothing=0.05)
    draw = random.Random(SEED)
    model.train()
    for update in range(UPDATES):
        rate = PEAK * min((update + 1) / WARMUP, 0.5 + 0.5 * math.cos(math.pi * update / UPDATES))
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = collate(draw.sample(encoded, 64))
        found = loss(model, batch)
        optimizer.zero_grad()
        (found.sum / found.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if update % 500 == 499:
            print(f"update {update + 1}: loss {float(found.sum) / float(found.count):.4f}")
    model.eval()


def wrong(model: Seq2Seq, tokenizers: Tokenizers, pairs: list[Pair]) -> list[tuple[str, str]]:
    """The sources that beam search does not translate as the grammar does, each with what it wrote."""
    source = Padded.from_lists([[*tokenizers.source.encode(each), EOS] for each, _ in pairs])
    found = [tokenizers.target.decode(best[0].tokens) for best in search(model, source, DecodingConfig())]
    return [(pair[0], text) for pair, text in zip(pairs, found, strict=True) if pair[1] != text]


def main(out: Path) -> None:
    """Train, test on what was held out, write."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    train, held_out = grammar()
    pieces = TokenizerConfig(kind="bpe", vocab_size=VOCABULARY, byte_fallback=False, character_coverage=1.0)
    tokenizers = Tokenizers.train(pieces, lambda: iter(train))
    config = TransformerConfig(
        vocab_size=VOCABULARY,
        d_model=16,
        d_ff=32,
        encoder_layers=1,
        decoder_layers=1,
        attention=AttentionConfig(heads=2),
        dropout=0.0,
    )
    model = build(config, seed=SEED)
    learn(model, tokenizers, train)
    mistakes = wrong(model, tokenizers, held_out)
    print(
        f"{count_parameters(model)} parameters; {len(held_out) - len(mistakes)} of {len(held_out)} held out are right"
    )
    for source, text in mistakes[:5]:
        print(f"  {source} → {text}")
    if mistakes:
        raise SystemExit("not written: the page must not show a model that has not learnt its grammar")
    languages = ("zh", "en")
    save_bundle(out, Bundle(model, tokenizers, languages, config, {"held_out": len(held_out)}), replace=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

import torch

from clearhead.data.collate import collate
from clearhead.text.symbols import BOS, EOS, PAD


def test_prefix_and_gold_are_shifted_by_one_and_every_row_keeps_its_eos():
    batch = collate([([10, 11], [20, 21, 22]), ([12, 13, 14, 15], [23])])
    assert batch.source.ids.tolist() == [[10, 11, EOS, PAD, PAD], [12, 13, 14, 15, EOS]]
    assert batch.prefix.ids.tolist() == [[BOS, 20, 21, 22], [BOS, 23, PAD, PAD]]
    assert batch.gold.ids.tolist() == [[20, 21, 22, EOS], [23, EOS, PAD, PAD]]
    assert batch.source.lengths.tolist() == [3, 5]
    assert batch.prefix.lengths.tolist() == batch.gold.lengths.tolist() == [4, 2]


def test_counts_leave_padding_out():
    batch = collate([([10, 11], [20, 21, 22]), ([12, 13, 14, 15], [23])])
    assert (batch.pairs, batch.tokens, batch.source_tokens) == (2, 6, 8)
    assert batch.tokens == int((batch.gold.ids != PAD).sum())


def test_gold_says_at_each_place_what_prefix_reads_at_the_next():
    pairs = [([5], list(range(30, 30 + n))) for n in (1, 4, 2, 9)]
    batch = collate(pairs)
    for row, length in enumerate(batch.gold.lengths.tolist()):
        assert torch.equal(batch.gold.ids[row, : length - 1], batch.prefix.ids[row, 1:length])
        assert batch.gold.ids[row, length - 1] == EOS


def test_an_empty_target_is_eos_alone():
    batch = collate([([5], [])])
    assert batch.prefix.ids.tolist() == [[BOS]]
    assert batch.gold.ids.tolist() == [[EOS]]

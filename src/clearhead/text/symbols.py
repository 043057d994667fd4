"""The four reserved ids, the same in every tokenizer that clearhead trains."""

__all__ = ["BOS", "EOS", "PAD", "SPECIALS", "UNK"]

PAD = 0
UNK = 1
BOS = 2
EOS = 3
SPECIALS = (PAD, UNK, BOS, EOS)

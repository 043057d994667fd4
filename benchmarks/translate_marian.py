"""Marian (pymarian) as a peer of `translate_speed.py`: a model file of the same size, and its runs.

The file is Marian's own `.npz`: a post-norm Transformer with random weights. Its output matrix is one of its own, since
Marian keeps a tied one in fp32 and takes 1.5 to 2.9 times as long. Marian has no option
for the length of a translation, so the output bias of EOS is so low that nothing ever ends; it then stops at
`--max-length-factor` × the longest source of its batch, EOS included, which is the number of decoder steps that the
other sides take, too. What it wrote is counted all the same, since it makes its batches by itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import cpu_info

__all__ = ["absent", "gemm", "marian_file", "marian_translator", "marian_written"]

NEVER = -1e4
"""Output bias of EOS: below whatever random weights say."""


def absent() -> str | None:
    """Why Marian cannot run here, or None."""
    try:
        import _pymarian  # noqa: F401 (pymarian itself would ask for packages that translation never uses)
    except ImportError as error:
        return f"pymarian: {error}; benchmarks/README.md says how to install it"
    return None


def gemm() -> str:
    """Marian's name of its int8 products here: FBGEMM's, whose weights are packed for the instruction set.

    Its other way, intgemm, took 1.1 to 1.4 times as long at both sizes where it was tried (Zen 4).
    """
    return "packed8avx512" if "avx512vl" in cpu_info()["flags"].split() else "packed8avx2"


def marian_file(folder: Path, size: dict[str, int], seed: int) -> Path:
    """`model.npz` and `vocab.yml` in `folder`; ids 0 and 1 are Marian's own </s> and <unk>, the others t2, t3, …"""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    width, inner, vocab = size["d_model"], size["d_ff"], size["vocab"]

    def matrix(rows: int, columns: int) -> Any:
        bound = (6 / (rows + columns)) ** 0.5  # Glorot and Bengio 2010, eq. 16
        return rng.uniform(-bound, bound, (rows, columns)).astype(np.float32)

    arrays: dict[str, Any] = {"Wemb": matrix(vocab, width), "decoder_ff_logit_out_W": matrix(width, vocab)}
    arrays["decoder_ff_logit_out_b"] = np.zeros((1, vocab), np.float32)
    arrays["decoder_ff_logit_out_b"][0, 0] = NEVER

    def norm(name: str) -> None:
        arrays[f"{name}_ln_scale"] = np.ones((1, width), np.float32)
        arrays[f"{name}_ln_bias"] = np.zeros((1, width), np.float32)

    for stack, kinds in (("encoder", ("self",)), ("decoder", ("self", "context"))):
        for layer in range(1, size["layers"] + 1):
            for kind in kinds:
                for part in "qkvo":
                    arrays[f"{stack}_l{layer}_{kind}_W{part}"] = matrix(width, width)
                    arrays[f"{stack}_l{layer}_{kind}_b{part}"] = np.zeros((1, width), np.float32)
                norm(f"{stack}_l{layer}_{kind}_Wo")
            for name, rows, columns in (("1", width, inner), ("2", inner, width)):
                arrays[f"{stack}_l{layer}_ffn_W{name}"] = matrix(rows, columns)
                arrays[f"{stack}_l{layer}_ffn_b{name}"] = np.zeros((1, columns), np.float32)
            norm(f"{stack}_l{layer}_ffn_ffn")
    arrays["special:model.yml"] = np.frombuffer(_options(size).encode() + b"\0", dtype=np.int8)
    np.savez(folder / "model.npz", **arrays)
    names = ["</s>", "<unk>", *(f"t{index}" for index in range(2, vocab))]
    (folder / "vocab.yml").write_text("".join(f'"{name}": {index}\n' for index, name in enumerate(names)), "utf-8")
    return folder / "model.npz"


def _options(size: dict[str, int]) -> str:
    """What Marian reads from its model file about the model, as its own training writes it."""
    return f"""type: transformer
version: v1.12.42
dim-emb: {size["d_model"]}
dim-vocabs: [{size["vocab"]}, {size["vocab"]}]
enc-depth: {size["layers"]}
dec-depth: {size["layers"]}
transformer-heads: {size["heads"]}
transformer-dim-ffn: {size["d_ff"]}
transformer-ffn-activation: relu
transformer-ffn-depth: 2
transformer-preprocess: ""
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
transformer-decoder-autoreg: self-attention
tied-embeddings: false
tied-embeddings-src: true
tied-embeddings-all: false
layer-normalization: false
right-left: false
input-types: []
"""


def marian_translator(model: Path, beam: int, threads: int, *, mini_batch: int) -> Any:
    """A translator of pymarian in int8, on `threads` workers of one thread each."""
    import _pymarian

    packed = model.with_name(f"{gemm()}.bin")
    if not packed.exists():
        code = "import sys, _pymarian; sys.exit(_pymarian.main(sys.argv[1:]))"
        options = ["convert", "--from", str(model), "--to", str(packed), "--gemm-type", gemm()]
        subprocess.run([sys.executable, "-c", code, *options], check=True, capture_output=True)
    options = [
        *("--models", str(packed), "--vocabs", *(2 * [str(model.with_name("vocab.yml"))])),
        *("--cpu-threads", str(threads), "--beam-size", str(beam), "--normalize", "0.6"),
        *("--max-length-factor", "1", "--max-length", "500"),
        *("--mini-batch", str(mini_batch), "--maxi-batch", "1000", "--maxi-batch-sort", "src"),
        *("--workspace", "512", "--quiet", "--quiet-translation", "--log-level", "off"),
    ]
    return _pymarian.Translator(" ".join(options))


def marian_written(translator: Any, lines: Sequence[str]) -> int:
    """Translate `lines` in one call; how many tokens came out."""
    return sum(len(line.split()) for line in translator.translate(list(lines)))

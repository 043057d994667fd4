"""A model in transformers or in CTranslate2, asked in the ids of ours (`agreement.Peer`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from clearhead.base.errors import InputError
from clearhead.export.extra import program, quietly
from clearhead.text.symbols import BOS, EOS

__all__ = ["CTranslate2Peer", "MarianPeer"]


class MarianPeer:
    """A folder of a Marian model, as transformers loads it.

    `source_ids` and `target_ids` say which id there is each of ours (None: the same). Raises InputError where it cannot
    be loaded, or its decoder starts from another token than our BOS.
    """

    renormalises = False

    def __init__(
        self, folder: Path, source_ids: Sequence[int] | None = None, target_ids: Sequence[int] | None = None
    ) -> None:
        self.name = "transformers"
        self._transformers = program("transformers")
        try:
            with quietly():
                self._model = self._transformers.MarianMTModel.from_pretrained(
                    str(folder), local_files_only=True, use_safetensors=True, dtype=torch.float32
                ).eval()
        except Exception as error:  # whatever it says of somebody's files: it checks them by many kinds of error
            raise InputError(f"{folder}: transformers cannot load it: {error}") from None
        config = self._model.config
        self._source = range(config.vocab_size) if source_ids is None else source_ids
        self._target = range(config.decoder_vocab_size) if target_ids is None else target_ids
        self._start = self._target[BOS]
        begins = self._model.generation_config.decoder_start_token_id
        begins = config.decoder_start_token_id if begins is None else begins
        if begins != self._start:
            raise InputError(f"{folder}: its decoder starts from {begins}, and not from {self._start}")
        self._model.generation_config = self._transformers.GenerationConfig()  # the folder's own would mix in
        self._back = {there: here for here, there in enumerate(self._target) if there >= 0}

    def score(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        """log P of each token of `target` and of EOS, natural logarithms."""
        closed = torch.tensor([self._target[token] for token in (*target, EOS)])
        shown = torch.cat([torch.tensor([self._start]), closed[:-1]])
        with torch.no_grad(), quietly():
            logits = self._model(
                input_ids=self._read(source),
                attention_mask=torch.ones(1, len(source), dtype=torch.int64),
                decoder_input_ids=shown[None],
                use_cache=False,
            ).logits[0]
        chosen: list[float] = logits.log_softmax(-1).gather(1, closed[:, None])[:, 0].tolist()
        return chosen

    def search(self, source: Sequence[int], beam: int, longest: int) -> tuple[list[int], bool]:
        """Its own beam search without a length penalty, PAD, UNK and BOS suppressed."""
        eos = self._target[EOS]
        never = sorted({there for there in (*self._target[:EOS], self._start) if there >= 0})
        config = self._transformers.GenerationConfig(
            decoder_start_token_id=self._start,
            eos_token_id=eos,
            pad_token_id=self._model.config.pad_token_id,
            num_beams=beam,
            do_sample=False,
            max_length=longest + 2,  # with the start and the end
            length_penalty=0.0,
            early_stopping=False,
            suppress_tokens=never,
        )
        with torch.no_grad(), quietly():
            written = self._model.generate(
                input_ids=self._read(source),
                attention_mask=torch.ones(1, len(source), dtype=torch.int64),
                generation_config=config,
            )[0].tolist()[1:]
        ended = eos in written
        tokens = written[: written.index(eos)] if ended else written[:longest]
        return [self._back[token] for token in tokens], ended

    def _read(self, source: Sequence[int]) -> torch.Tensor:
        return torch.tensor([[self._source[token] for token in source]])


class CTranslate2Peer:
    """A folder of CTranslate2's, in float32 on one thread; `source` and `target` are the pieces by id."""

    renormalises = True

    def __init__(self, folder: Path, source: Sequence[str], target: Sequence[str]) -> None:
        self.name = "CTranslate2"
        self._translator = program("ctranslate2").Translator(
            str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
        )
        self._source, self._target = source, target
        self._ids = {piece: place for place, piece in enumerate(target)}

    def score(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        """log P of each token of `target` and of EOS, natural logarithms."""
        (scored,) = self._translator.score_batch([self._read(source)], [[self._target[token] for token in target]])
        return list(scored.log_probs)

    def search(self, source: Sequence[int], beam: int, longest: int) -> tuple[list[int], bool]:
        """Its own beam search without a length penalty, PAD, UNK and BOS suppressed.

        With a great `patience` it ends where its best candidate does, as our search, and not at a number of endings.
        """
        (found,) = self._translator.translate_batch(
            [self._read(source)],
            beam_size=beam,
            patience=1.0 if beam == 1 else 1000.0,
            length_penalty=0.0,
            min_decoding_length=0,
            max_decoding_length=longest + 1,
            max_input_length=0,
            return_end_token=True,
            suppress_sequences=[[piece] for piece in self._target[:EOS]],
        )
        tokens = [self._ids[piece] for piece in found.hypotheses[0]]
        ended = EOS in tokens
        return (tokens[: tokens.index(EOS)] if ended else tokens[:longest]), ended

    def _read(self, source: Sequence[int]) -> list[str]:
        return [self._source[token] for token in source[:-1]]  # it adds EOS itself

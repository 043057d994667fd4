"""What a head looks like it is for: its role, with the score, the baseline and the threshold of every candidate.

A role is read off the weights alone. It says where a head looked in this text, not that the model needs it there.

**The rule.** Each candidate asks for a share of something, a `score`, over the rows for which the question makes sense;
rows that may see one key are never asked, for there a mask decides. `baseline` is what a head would score over the same
rows that reads every visible key alike, which brings in the length of the text and the causal mask. A candidate is met
if (score − baseline)/(1 − baseline) reaches its threshold θ, so that θ keeps its meaning in a short text; the score
that this takes is given as `threshold`. The first met candidate in the order of `ROLES` names the head; else "mixed".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.inspection.head_statistics import keys_of
from clearhead.inspection.records import AttentionRecord, Finding, Unit
from clearhead.inspection.role_candidates import RIVALS, Candidate, candidates_of, relative_length

__all__ = ["ROLES", "Thresholds", "head_roles", "roles_over"]

ROLES = ("aligned", "previous", "next", "diagonal", "sink", "position", "rare-token", "stripe", "broad")
"""The candidates in the order in which they are taken: the special before the general."""


@dataclass(frozen=True)
class Thresholds:
    """θ of every role.

    `previous` and `next` 0.5, `sink` 0.6: masses by which Clark et al. 2019 (§3.1, §3.2 and their notebook) sort the
    heads of BERT. `position` 0.9: share of tokens whose largest weight is at one offset (Voita et al. 2019, §5.1).
    `broad`: 0.78 of the largest possible entropy, which is the 3.8 nats of Clark et al.'s notebook at 128 tokens.
    `aligned` must reach 0.5, and be `aligned_margin` above the best fixed rule, as Voita et al. 2019, §5.2 ask of
    syntactic heads. `diagonal`, `rare_token`, `stripe` and `sink_length`, up to which the value vectors of special
    tokens are short, are ours.
    """

    previous: float = 0.5
    next: float = 0.5
    diagonal: float = 0.5
    sink: float = 0.6
    sink_length: float = 0.5
    position: float = 0.9
    rare_token: float = 0.5
    stripe: float = 0.5
    broad: float = 0.78
    aligned: float = 0.5
    aligned_margin: float = 0.1

    def needed(self, role: str, baseline: float) -> float:
        """The score that a candidate must reach over its baseline."""
        if role == "aligned":
            return max(self.aligned, baseline + self.aligned_margin)
        least: float = getattr(self, role.replace("-", "_"))
        return baseline + least * (1 - baseline)

    def settings(self) -> dict[str, float]:
        """By the names that the roles have."""
        return {each.name.replace("rare_token", "rare-token"): getattr(self, each.name) for each in fields(self)}


def head_roles(
    record: AttentionRecord,
    *,
    frequencies: Mapping[int, float] | None = None,
    target_frequencies: Mapping[int, float] | None = None,
    links: frozenset[tuple[int, int]] | None = None,
    linked: Literal["tokens", "words"] = "tokens",
    lengths: Mapping[Unit, Float[Tensor, " S"]] | None = None,
    thresholds: Thresholds | None = None,
) -> list[Finding]:
    """One finding a head, method "role".

    - previous, next: weight on the token before or after the query's own. diagonal: on the query's own; for "cross"
      within one token of the straight line from the first tokens to the last (`row_centres`).
    - aligned ("cross"; asks for `links`): the largest weight is on a source that gold links join to the token that the
      row predicts. Its baseline is the best of chance, of that line and of seven fixed offsets; `values` have them all.
    - sink: weight on special tokens. Called "sink" only if their value vectors are short as well, which `lengths` tell
      (see `value_norms.vector_lengths`); "special-token" otherwise, for it may be content that is read there.
    - position: the largest weight is at one fixed offset from the row, the best from −3 to 3 that half of the rows
      have; the word `offset` names it.
    - rare-token (asks for `frequencies`): the largest weight is on the least frequent of the tokens that are not
      special (Voita et al. 2019, §5.3).
    - stripe: weight of all rows on one and the same token that is not special.
    - broad: entropy over the largest that the row could have. Its baseline is 0, that of a head that reads one key.

    Equally large weights share the largest. `frequencies` are counts or shares by id, a missing one being 0; they serve
    the prefix as well unless it has `target_frequencies` of its own, for an id of one vocabulary is another word in the
    other. `links` are (source, target) from 0, of tokens or, if so `linked`, of words. `values` hold `<role>_score`,
    `_baseline`, `_threshold` and `_rows` of every candidate that could be asked, `words` the `role`, and of a mixed
    head the `nearest`, which lacks least.
    """
    thresholds = thresholds or Thresholds()
    wanted = None if links is None else _linked(record, links, linked)
    found = []
    for layer in record.layers:
        keys = keys_of(record, layer.stack)
        known = frequencies if target_frequencies is None or layer.stack != "decoder" else target_frequencies
        candidates, offsets = candidates_of(layer, keys, known, wanted if layer.stack == "cross" else None)
        for head in range(layer.weights.shape[0]):
            unit = Unit(layer.stack, layer.layer, head + 1)
            values = _values(candidates, head)
            words = {"offset": str(offsets[head])} if offsets else {}
            if "sink_score" in values and lengths is not None and unit in lengths:
                values["sink_length"] = relative_length(layer, head, keys, lengths[unit])
            found.append(_classified(unit, values, words, thresholds, {}))
    return found


def roles_over(samples: Sequence[Sequence[Finding]], *, thresholds: Thresholds | None = None) -> list[Finding]:
    """The roles of many records as one: every score and baseline the mean over all rows, and the same rule again.

    The rule that "aligned" has to beat is the one that does best over the whole sample. A fixed offset must be the same
    everywhere, too: each head has the one that wins by its rows, and records in which another was better count as if it
    had not been met there at all, so this score is a lower bound. `role_share` is the share of records in which the
    head had this role by itself.
    """
    thresholds = thresholds or Thresholds()
    by_unit: dict[Unit, list[Finding]] = {}
    for findings in samples:
        for finding in findings:
            if finding.method == "role":
                by_unit.setdefault(finding.unit, []).append(finding)
    found = []
    for unit, findings in by_unit.items():
        values = {name: number for role in ROLES for name, number in _pooled(role, findings).items()}
        words = {}
        if "position_rows" in values:
            words["offset"], values["position_score"] = _best_offset(findings)
        settings = {"records": float(len(findings))}
        merged = _classified(unit, values, words, thresholds, settings)
        alike = sum(finding.words["role"] == merged.words["role"] for finding in findings)
        merged.values["role_share"] = alike / len(findings)
        found.append(merged)
    return found


def _classified(
    unit: Unit, values: dict[str, float], words: dict[str, str], thresholds: Thresholds, settings: dict[str, float]
) -> Finding:
    """The finding, with the thresholds and the role that follow from its scores."""
    role, missing = "mixed", {}
    for candidate in reversed(ROLES):
        if f"{candidate}_score" in values:
            needed = thresholds.needed(candidate, values[f"{candidate}_baseline"])
            values[f"{candidate}_threshold"] = needed
            missing[candidate] = needed - values[f"{candidate}_score"]
            if missing[candidate] <= 0:
                role = candidate
    if role == "mixed" and missing:
        words["nearest"] = min(missing, key=lambda candidate: missing[candidate])
    if role == "sink":
        length = values.get("sink_length")
        words["values"] = (
            "not measured" if length is None else "short" if length <= thresholds.sink_length else "not short"
        )
        role = "sink" if words["values"] == "short" else "special-token"
    return Finding("role", unit, values, words | {"role": role}, thresholds.settings() | settings)


def _linked(
    record: AttentionRecord, links: frozenset[tuple[int, int]], linked: Literal["tokens", "words"]
) -> Bool[Tensor, "T S"]:
    """Which source each row should read by the gold links."""
    words = linked == "words"
    sources = [token.word if words else place for place, token in enumerate(record.source)]
    targets = [token.word if words else place for place, token in enumerate(record.gold)]
    return torch.tensor([[(source, target) in links for source in sources] for target in targets])


def _values(candidates: Mapping[str, Candidate], head: int) -> dict[str, float]:
    values: dict[str, float] = {}
    for role, each in candidates.items():
        values[f"{role}_score"] = float(each.score[head])
        values[f"{role}_baseline"] = float(each.baseline[head])
        values[f"{role}_rows"] = float(each.rows)
        values |= {f"{role}_{name}": share for name, share in each.rivals.items()}
    return values


def _pooled(role: str, findings: Sequence[Finding]) -> dict[str, float]:
    """Score, baseline, rivals and length of a candidate over all rows of the records in which it could be asked."""
    asked = [finding.values for finding in findings if f"{role}_score" in finding.values]
    rows = sum(values[f"{role}_rows"] for values in asked)
    if not rows:
        return {}
    names = [f"{role}_score", f"{role}_baseline"]
    rivals = [f"{role}_{rival}" for rival in RIVALS if f"{role}_{rival}" in asked[0]]
    pooled = {
        name: sum(values[name] * values[f"{role}_rows"] for values in asked) / rows for name in [*names, *rivals]
    } | {f"{role}_rows": rows}
    if rivals:  # one rule for the whole sample: the best of each record would be better than any
        pooled[f"{role}_baseline"] = max(pooled[name] for name in rivals)
    measured = [values for values in asked if role == "sink" and "sink_length" in values]
    if measured:
        weighed = sum(values["sink_rows"] for values in measured)
        pooled["sink_length"] = sum(values["sink_length"] * values["sink_rows"] for values in measured) / weighed
    return pooled


def _best_offset(findings: Sequence[Finding]) -> tuple[str, float]:
    """The offset that most of the largest weights have over all records, and at least how many."""
    asked = [finding for finding in findings if "position_score" in finding.values]
    total = sum(finding.values["position_rows"] for finding in asked)
    met: dict[str, float] = {}
    for finding in asked:
        share = finding.values["position_score"] * finding.values["position_rows"]
        met[finding.words["offset"]] = met.get(finding.words["offset"], 0.0) + share
    best = max(met, key=lambda offset: met[offset])
    return best, met[best] / total

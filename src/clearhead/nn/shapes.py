"""The legend of every shape in clearhead; written once, used everywhere.

| letter | counts |
|---|---|
| B | sentences in a batch |
| R | rows: hypotheses in a state, R = B·K |
| K | hypotheses a sentence (beam) |
| N | valid positions of a batch, padding left out |
| T | target or query positions |
| S | source or key positions |
| D | model width (d_model) |
| H | query heads |
| G | key/value heads (G = H unless heads share them) |
| E | width of one head (d_k = d_v) |
| F | inner width of the feed-forward layer (d_ff) |
| V | vocabulary |
| W | a chosen part of the vocabulary |
| L | layers |

In the recurrent modules, which have one head, H is the width of a state, I that of an input, Q that of a query and C
that of a context; G gates of a cell lie in one matrix of G·H rows.

A trailing comment such as `# [R, H, T, E]` states the shape on a line that changes it.
"""

__all__: list[str] = []

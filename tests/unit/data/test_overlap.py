from clearhead.data.overlap import Overlap


def test_texts_are_counted_once_and_as_exact_where_they_are_both():
    overlap = Overlap.of(["Open the door", "Close it", "never", "  "])
    for number, source in enumerate(["Open the door", "open the DOOR!", "close it 2", "close, it", "other"], 1):
        overlap.look(number, source, "Ziel")
    source = overlap.source
    assert (len(source), source.exact, source.near, source.near_texts) == (3, 1, 1, 2)
    assert (source.exact_lines.lines, source.near_lines.lines) == ([1], [2, 3, 4])
    assert (len(overlap.target), overlap.target.exact, overlap.target.near) == (3, 0, 0)  # the two sides are apart
    assert not overlap.on_target

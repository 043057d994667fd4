import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import runs as module
from clearhead.data.columns import Shelf
from clearhead.data.runs import Runs

# Some that come again and again, some beside each other, and the ends of the range.
HASHES = st.sampled_from([0, 1, 2**63, 2**63 + 1, 2**64 - 1]) | st.integers(0, 2**64 - 1)
PAIRS = st.lists(st.tuples(HASHES, st.sampled_from([0, 5, 2**64 - 1]), st.booleans()), max_size=80)


def filled(pairs: list[tuple[int, int, bool]], block: int, room: int) -> Runs:
    runs = Runs(Shelf(room))
    hashes, members = (np.array([pair[side] for pair in pairs], dtype=np.uint64) for side in (0, 1))
    kept = np.array([pair[2] for pair in pairs], dtype=np.bool_)
    for start in range(0, len(pairs), block):
        part = slice(start, start + block)
        runs.append(start, hashes[part], members[part], kept[part])
    return runs


@given(PAIRS, st.sampled_from([1, 7, 100]), st.sampled_from([0, 300, 10**6]), st.sampled_from([1, 3, 1000]))
def test_first_places_are_those_of_a_dictionary(pairs, block, room, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART", size)
        runs = filled(pairs, block, room)
        places: dict[int, int] = {}
        with_member: dict[tuple[int, int], int] = {}
        for place, (value, member, kept) in enumerate(pairs):
            if kept:
                places.setdefault(value, place)
                with_member.setdefault((value, member), place)
        assert len(runs) == sum(kept for _, _, kept in pairs)
        found = [item for group in runs.distinct() for item in zip(*map(np.ndarray.tolist, group[::2]), strict=True)]
        assert found == sorted(places.items())
        groups = list(runs.distinct(members=True))
        triples = [item for group in groups for item in zip(*map(np.ndarray.tolist, group), strict=True)]
        assert triples == [(*key, place) for key, place in sorted(with_member.items())]


@given(PAIRS, st.sampled_from([1, 7, 100]), st.just(-1) | HASHES)
def test_places_up_to_a_hash(pairs, block, highest):
    found = list(filled(pairs, block, 200).up_to(highest))
    assert [start for start, _ in found] == list(range(0, len(pairs), block))
    expected = [place for place, (value, _, kept) in enumerate(pairs) if kept and value <= highest]
    assert sorted(place for _, places in found for place in places.tolist()) == expected
    assert all(start <= place < start + block for start, places in found for place in places.tolist())

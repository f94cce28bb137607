from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.lab.model.pcie_windows import GIB, MIB, Region, Want, aligned, needed, place

SIZES = st.integers(12, 30).map(lambda power: 1 << power)
PAGES = st.integers(1, 1 << 20).map(lambda page: page << 12)
WANT = st.builds(lambda size, pieces, shrinks: Want(size * pieces, size, shrinks), SIZES, st.integers(1, 3), st.booleans())
WANTS = st.lists(WANT, max_size=12)
WINDOWS = st.builds(Region, PAGES, PAGES)


@given(WINDOWS, WANTS)
def test_regions_stay_inside_the_window_keep_their_alignment_and_never_overlap(window, wants):
    given_regions = [(region, want) for region, want in zip(place(window, wants), wants, strict=True) if region is not None]
    for region, want in given_regions:
        assert region.start % want.align == 0
        assert window.start <= region.start
        assert region.last <= window.last
        assert region.size == want.size or (want.shrinks and 0 < region.size < want.size)
    spans = sorted((region.start, region.last) for region, _ in given_regions)
    assert all(before[1] < after[0] for before, after in pairwise(spans))


@given(WANTS)
def test_what_a_bridge_asks_for_is_enough_wherever_it_lands_on_its_alignment(wants):
    window = needed(wants, MIB)
    if window is None:
        assert wants == []
        return
    for start in (0, window.align, 7 * window.align):
        regions = place(Region(start, window.size), wants)
        assert [region.size for region in regions if region is not None] == [want.size for want in wants]


def test_a_full_window_loses_the_last_of_equal_wants():
    regions = place(Region(0, 3 * 16 * MIB), [Want(16 * MIB, 16 * MIB)] * 4)
    assert [region is not None for region in regions] == [True, True, True, False]


def test_a_shrinking_want_takes_what_is_left_beside_the_smaller_ones():
    shrunk, small = place(Region(0, 40 * MIB), [Want(64 * MIB, 16 * MIB, shrinks=True), Want(MIB, MIB)])
    assert shrunk == Region(0, 39 * MIB)
    assert small == Region(39 * MIB, MIB)


def test_a_window_that_is_not_there_gives_nothing():
    assert place(None, [Want(MIB, MIB)]) == (None,)


def test_the_window_of_a_port_is_bar_1_and_bar_3_and_its_stride_twice_bar_1():
    port = needed([Want(256 * MIB, 256 * MIB), Want(32 * MIB, 32 * MIB)], MIB)
    assert port == Want(288 * MIB, 256 * MIB)
    chassis = needed([port] * 10, MIB)
    assert chassis == Want(9 * 512 * MIB + 288 * MIB, 256 * MIB)
    assert aligned(chassis.size, 256 * MIB) == 5 * GIB

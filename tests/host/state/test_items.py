import pytest
from hypothesis import given, strategies as st

from toolstile.state.persistent_list import EMPTY, Items, ItemsView

chunks = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 30), st.lists(st.integers(), max_size=4)),
    max_size=30,
)


def depth(items):
    return 0 if items is None else 1 + depth(items.below)


@pytest.mark.slow
@given(chunks)
def test_a_version_never_changes_whoever_grows_which_version(steps):
    versions = [(EMPTY, [])]
    for owner, which, new in steps:
        items, plain = versions[which % len(versions)]
        grown = items.extended(f"owner {owner}", list(new))
        versions.append((grown, plain + new))
    for items, plain in versions:
        assert list(items) == plain
        assert len(items) == len(plain)
        view = ItemsView(items)
        assert [view[i] for i in range(len(plain))] == plain
        assert [view[-i - 1] for i in range(len(plain))] == plain[::-1]
        assert list(reversed(view)) == plain[::-1]
        assert view[1:3] == plain[1:3]
        assert all(items.after(i) == plain[max(i, 0) :] for i in range(-2, len(plain) + 1))
        assert view == plain
        assert not plain or items.last() == plain[-1]


def test_a_slice_that_is_put_back_and_grown_over_and_over_stays_shallow():
    items = EMPTY
    for number in range(2000):
        items.extended("me", [-1])
        items = items.extended("me", [number])
    assert list(items) == list(range(2000))
    assert depth(items) < 15


def test_growing_costs_nothing_of_the_size_when_the_list_is_the_owners():
    items = Items.of(list(range(10)), "me")
    grown = items.extended("me", [10])
    assert grown.tail is items.tail
    assert len(items) == 10


def test_an_index_beyond_the_end_is_an_error():
    items = Items.of([1], "me")
    items.extended("me", [2])
    with pytest.raises(IndexError, match="Item 1 of 1"):
        ItemsView(items)[1]


def test_items_print_as_a_tuple():
    assert repr(ItemsView(Items.of([1, 2], None))) == "(1, 2)"

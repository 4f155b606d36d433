"""The conformance suite of a counter, to subclass."""

# ruff: noqa: PLR2004 - the numbers are the amounts of each test

from __future__ import annotations

from typing import Any

import pytest

from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.services.counter import Counter, Reservation
from toolstile_hookspecs.testing.suite import Contract, at, at_once


def take(counter: Counter, id_: str, moment: float = 0, **other: Any) -> Reservation:
    """Reserve 1 of 2 for ten seconds; `other` replaces arguments."""
    wanted: dict[str, Any] = {"key": "k", "amount": 1, "limit": 2, "window": 10, **other}
    return counter.reserve(**wanted, id=id_, now=at(moment))


class CounterContract(Contract, counter=Counter, again=Counter):
    """Tests of a counter; the fixture `counter` of a subclass returns an empty counter.

    `again` returns a second counter over the same counts, as another process would open it, or
    the same counter if there can be no second one.

    Example:
        >>> import pytest
        >>> class TestMine(CounterContract):
        ...     @pytest.fixture
        ...     def counter(self, tmp_path):
        ...         return MyCounter(tmp_path)
    """

    @pytest.fixture
    def counter(self) -> Counter:
        """Return an empty counter."""
        self._must_give("counter", "gives an empty counter")

    @pytest.fixture
    def again(self, counter: Counter) -> Counter:
        """Return a second counter over the same counts."""
        return counter

    def test_it_grants_up_to_its_limit(self, counter: Counter, again: Counter) -> None:
        assert take(counter, "a") == (True, 1, None, True)
        assert take(again, "b") == (True, 2, None, True)
        refused = take(counter, "c")
        assert (refused.granted, refused.used) == (False, 2)
        assert counter.read("k", now=at(0)) == again.read("k", now=at(0)) == 2

    def test_amounts_are_added(self, counter: Counter, again: Counter) -> None:
        assert take(counter, "a", amount=7, limit=10).granted
        assert not take(again, "b", amount=4, limit=10).granted
        assert take(again, "c", amount=3, limit=10).used == 10
        assert take(again, "d", amount=0, limit=10).granted

    def test_large_whole_amounts_are_exact(self, counter: Counter) -> None:
        """Money is counted in its smallest unit."""
        much = 2**53
        assert take(counter, "a", amount=much, limit=much + 1).granted
        assert take(counter, "b", amount=1, limit=much + 1).granted
        assert not take(counter, "c", amount=1, limit=much + 1).granted
        assert counter.read("k", now=at(0)) == much + 1

    def test_keys_are_apart(self, counter: Counter) -> None:
        for key in ("k", "K", "k/", "", "k\u00e9", "ke\u0301", "k%"):
            assert take(counter, f"id {key}", key=key, limit=1).granted
            assert not take(counter, f"more {key}", key=key, limit=1).granted

    def test_a_window_slides(self, counter: Counter, again: Counter) -> None:
        """Each reservation ends by itself, and a refusal says when there will be room."""
        assert take(counter, "a", 0).granted
        assert take(counter, "b", 4).granted
        assert take(again, "c", 6).wait == pytest.approx(4)
        assert not take(again, "c", 9.5).granted
        assert take(again, "c", 10).granted
        assert again.read("k", now=at(13.5)) == 2
        assert again.read("k", now=at(14)) == 1

    def test_a_refusal_waits_for_as_many_as_it_needs(self, counter: Counter) -> None:
        for second in range(4):
            assert take(counter, f"{second}", second, limit=4).granted
        assert take(counter, "a", 5, amount=3, limit=4).wait == pytest.approx(7)
        assert take(counter, "b", 5, amount=5, limit=4).wait is None

    def test_what_has_no_window_counts_for_good(self, counter: Counter, again: Counter) -> None:
        assert take(counter, "a", window=None, limit=1).granted
        refused = take(again, "b", 1e9, window=None, limit=1)
        assert (refused.granted, refused.wait) == (False, None)

    def test_an_id_counts_once(self, counter: Counter, again: Counter) -> None:
        """Asked again, also within another limit, it is granted as before."""
        assert take(counter, "a", amount=2).granted
        for told in ({"amount": 2}, {"amount": 9}, {"limit": 0}, {"key": "other"}):
            repeated = take(again, "a", 5, **told)
            assert (repeated.granted, repeated.is_new) == (True, False)
        assert again.read("k", now=at(5)) == 2
        assert again.read("other", now=at(5)) == 0
        # Its window began with the first.
        assert again.read("k", now=at(10)) == 0

    def test_an_id_that_was_refused_may_ask_again(self, counter: Counter, again: Counter) -> None:
        assert take(counter, "a", amount=2).granted
        assert not take(counter, "b").granted
        assert take(again, "b", 10) == (True, 1, None, True)

    def test_an_id_that_expired_is_new(self, counter: Counter, again: Counter) -> None:
        take(counter, "a")
        assert take(again, "a", 10, key="other") == (True, 1, None, True)

    def test_what_is_settled_counts_with_what_it_came_to(
        self, counter: Counter, again: Counter
    ) -> None:
        take(counter, "a", amount=6, limit=10)
        again.settle("a", 2)
        assert counter.read("k", now=at(1)) == 2
        assert take(counter, "a", amount=6, limit=10) == (True, 2, None, False)
        again.settle("a", 12)
        again.settle("a", 12)
        assert counter.read("k", now=at(1)) == 12
        assert not take(counter, "b", 1, limit=10).granted
        assert counter.read("k", now=at(10)) == 0

    def test_what_is_given_back_does_not_count(self, counter: Counter, again: Counter) -> None:
        take(counter, "a", amount=2)
        again.settle("a", 0)
        again.settle("a", 0)
        assert counter.read("k", now=at(0)) == 0
        assert take(again, "b").granted
        assert take(again, "a") == (True, 2, None, True)

    def test_what_is_not_there_cannot_be_settled(self, counter: Counter, again: Counter) -> None:
        """It was given back, or has expired: nothing comes of it."""
        counter.settle("nobody's", 5)
        assert again.read("k", now=at(0)) == 0

    def test_what_nobody_settles_counts_until_it_expires(
        self, counter: Counter, again: Counter
    ) -> None:
        """The process that reserved it may have died."""
        take(counter, "a", amount=2)
        assert not take(again, "b", 9).granted
        assert take(again, "b", 10).granted

    def test_a_clock_that_is_a_little_behind_counts_all(self, counter: Counter) -> None:
        """Of two that ask at once, the later may have looked at its clock before."""
        take(counter, "a", 1, limit=1)
        assert not take(counter, "b", 0, limit=1).granted

    def test_a_clock_that_is_set_back_blocks_nobody(self, counter: Counter) -> None:
        """A reservation more than its window ahead does not count."""
        take(counter, "a", 3600, limit=1)
        assert take(counter, "b", 0, limit=1).granted

    @pytest.mark.parametrize("amount", [-1, float("nan"), float("inf")])
    def test_an_amount_that_would_free_others_is_refused(
        self, counter: Counter, amount: float
    ) -> None:
        """It may come from the arguments of a call."""
        take(counter, "a")
        with pytest.raises(StateError):
            take(counter, "b", amount=amount)
        with pytest.raises(StateError):
            counter.settle("a", amount)
        assert counter.read("k", now=at(0)) == 1

    def test_many_at_once_are_counted_exactly(self, counter: Counter, again: Counter) -> None:
        """Each place is taken once, and an id that asks twice takes one place."""

        def ask(number: int) -> list[bool]:
            source = (counter, again)[number % 2]
            ids = [f"{each}" if number < 2 else f"{number} {each}" for each in range(20)]
            return [take(source, id_, limit=30).granted for id_ in ids]

        granted = at_once(ask)
        assert granted[0] == granted[1]
        assert sum(map(sum, granted[1:])) == counter.read("k", now=at(0)) == 30

    @pytest.mark.parametrize("anew", [True, False])
    def test_what_counts_apart_leaves_it_as_it_is(
        self, counter: Counter, again: Counter, *, anew: bool
    ) -> None:
        take(counter, "a")
        other = counter.apart(anew=anew)
        assert other.read("k", now=at(0)) == (0 if anew else 1)
        assert take(other, "b").used == (1 if anew else 2)
        assert take(other, "c").granted is anew
        other.settle("b", 0)
        assert take(other, "d").granted
        assert again.read("k", now=at(0)) == 1
        assert take(again, "b").is_new

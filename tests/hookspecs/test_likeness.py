"""Of names that are not known, the known ones they may be slips of."""

from __future__ import annotations

from toolstile_hookspecs.support.text import near, nearest, suggest

KNOWN = ("price", "customer", "customers")


def test_the_most_alike_name_is_suggested():
    assert suggest("custmer", KNOWN) == "; did you mean 'customer'?"


def test_nothing_is_suggested_where_nothing_is_near():
    assert suggest("xyz", KNOWN) == ""
    assert nearest("xyz", KNOWN) is None


def test_no_more_names_are_near_than_were_asked_for():
    assert near("custmer", KNOWN, 1) == ["customer"]
    assert near("custmer", KNOWN, 3) == ["customer", "customers"]


def test_how_alike_names_must_be_can_be_said():
    assert nearest("prize", KNOWN) == "price"
    assert nearest("prize", KNOWN, 0.9) is None


def test_only_the_beginning_of_a_long_name_is_compared():
    long = "customer" * 12 + "cust"
    assert nearest(long + "x" * 10_000_000, [long]) == long

"""Patterns are RE2's, and what is wrong with others is told."""

import sys

import pytest

from toolstile_hookspecs.support.patterns import NoSearchError, bounded


def test_texts_and_bytes_can_be_searched():
    assert bounded("b+").search("abbc")
    assert bounded("é+".encode()).search("caféé".encode())


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", "invalid perl operator"),
        (rb"(a)\1", "invalid escape sequence"),
        ("(", "missing )"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_what_re2_does_not_know_is_refused_with_the_reason(capfd, pattern, reason):
    with pytest.raises(ValueError, match=reason.replace(")", r"\)")):
        bounded(pattern)
    assert capfd.readouterr().err == ""


def test_without_re2_that_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(NoSearchError, match="google-re2 is not installed"):
        bounded("a")

"""Patterns are RE2's, and what is wrong with others is told."""

import pytest

from toolstile_hookspecs.support.patterns import bounded


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

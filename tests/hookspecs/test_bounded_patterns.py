"""Patterns are RE2's, and what is wrong with others is told."""

import sys

import pytest

from toolstile_hookspecs.support.patterns import NoSearchError, bounded, bounded_ecma


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


class TestEcma:
    """Patterns of JSON Schemas mean what they mean there."""

    @pytest.mark.parametrize(
        ("pattern", "text", "fits"),
        [
            (r"^[^[\s]+\/\u{1F600}$", "a/\U0001f600", True),
            (r"^\uD83D\uDE00$", "\U0001f600", True),
            (r"^[\uD83D\uDE00x]$", "\U0001f600", True),
            (r"^\u00e9\x41$", "\u00e9A", True),
            (r"^\p{Letter}\p{Script=Greek}\P{Lu}$", "\u00e9\u03b1a", True),
            (r"^\d$", "\u0663", False),
            (r"^[\s]\s\S$", "\u00a0\ufeffx", True),
            (r"^[\s\S]{2}$", "a\n", True),
            ("^.$", "\n", False),
            ("a$", "a\n", False),
            ("^[[:alpha:]]$", "a", False),
            (r"^[\b]\cJ\0$", "\x08\n\0", True),
            ("^[^]$", "\n", True),
            ("[]", "a", False),
            (r"^(?<year>\d{4})\-\_\@\\$", "2020-_@\\", True),
            ("^{.*}$", "{a}", True),
        ],
    )
    def test_each_is_translated(self, pattern, text, fits):
        assert bool(bounded_ecma(pattern).search(text)) is fits

    @pytest.mark.parametrize(
        "pattern",
        [
            "(?=(a*)*b)",
            "(?!x)",
            "(?<=a)b",
            r"(a)\1",
            r"\k<x>",
            r"\A",
            r"a\Z",
            "(",
            "\\",
            r"\u12",
            r"\c",
            r"\p",
        ],
    )
    def test_what_it_cannot_be_is_refused(self, pattern):
        with pytest.raises(ValueError, match=r".+"):
            bounded_ecma(pattern)

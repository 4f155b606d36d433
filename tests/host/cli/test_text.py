"""Text from elsewhere cannot steer the terminal."""

from toolstile_cli.console import lines_of, with_lines


def test_lines_stay_lines():
    assert with_lines("a\nb\tc\rd") == "a\nb\tc\\rd"


def test_empty_lines_are_left_out():
    assert lines_of("a\n\n  b  \n") == ["a", "  b"]

from toolstile_plugins.cli_support import printable_lines


def test_lines_are_printable_each():
    assert printable_lines("a\n\n\tb\x1b\u2028c\n") == ["a", "", r"    b\x1b\u2028c"]

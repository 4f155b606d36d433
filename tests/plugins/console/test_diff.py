"""Changes of a call are read line by line, for one column or two."""

from __future__ import annotations

from toolstile_plugins.console.pages import pairs_of, read_diff

DIFF = """\
session:
  str: + ada 5
the workspace:
  deleted old/ (3 bytes)
  --- a/notes.md
  +++ b/notes.md
  @@ -1,5 +1,4 @@
   one
  --- two
  -three
  +2

   five
  \\ No newline at end of file"""


def test_each_line_is_of_a_kind_and_has_its_numbers():
    lines = [(line.kind, line.sign, line.text, line.old, line.new) for line in read_diff(DIFF)]
    assert lines[:2] == [
        ("note", " ", "session:", None, None),
        ("note", " ", "str: + ada 5", None, None),
    ]
    assert lines[7:] == [
        ("same", " ", "one", 1, 1),
        ("removed", "-", "-- two", 2, None),
        ("removed", "-", "three", 3, None),
        ("added", "+", "2", None, 2),
        ("same", " ", "", 4, 3),
        ("same", " ", "five", 5, 4),
        ("note", " ", "\\ No newline at end of file", None, None),
    ]


def test_a_removed_line_stands_beside_the_one_in_its_place():
    pairs = [
        (left and left.text, right and right.text)
        for left, right in pairs_of([*read_diff(DIFF)])
        if left is None or left.kind != "note"
    ]
    assert pairs == [("one", "one"), ("-- two", "2"), ("three", None), ("", ""), ("five", "five")]


def test_nothing_that_was_said_is_left_out():
    for text in ("", "x", "the workspace:\n  @@ -1 +1 @@\n  @@ x\n  y\n\n", "  @@ -9,9 +9,9 @@"):
        shown = [line.text for line in read_diff(text)]
        assert "".join(shown).replace(" ", "") == text.replace("\n", "").replace(" ", "")

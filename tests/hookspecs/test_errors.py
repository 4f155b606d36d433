"""The tree drawn in the documentation is the tree there is."""

import re
from pathlib import Path

from toolstile_hookspecs import ToolstileError, VisibilityExpansionRequired, errors


def drawn():
    """Return pairs of class and base as the reference draws them."""
    pairs, above = [], {}
    page = Path(__file__).parents[2] / "docs/reference/errors.md"
    _, drawing, _ = page.read_text(encoding="utf-8").split("```", 2)
    for line in drawing.splitlines()[1:]:
        found = re.fullmatch(r"(?P<lead>[ │├└─]*)(?P<name>[A-Z]\w+)(?:  +.*)?", line)
        if found:
            depth = len(found["lead"]) // 4
            above[depth] = found["name"]
            pairs.append((found["name"], above.get(depth - 1)))
    return pairs


def real(kind=ToolstileError, above=None):
    yield kind.__name__, above
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from real(each, kind.__name__)


def test_the_tree_drawn_is_the_tree_there_is():
    assert drawn() == list(real())


def test_every_error_says_what_it_is(subtests):
    for name in [name for name, _ in real()]:
        with subtests.test(name=name):
            assert getattr(errors, name).__doc__


def test_sections_to_open_are_named():
    error = VisibilityExpansionRequired(("a", "b"), "They hold the answer.")
    assert str(error) == "Sections to open: a, b. They hold the answer."
    assert (error.section_keys, error.reason) == (("a", "b"), "They hold the answer.")
    assert str(VisibilityExpansionRequired(("a",))) == "Sections to open: a."

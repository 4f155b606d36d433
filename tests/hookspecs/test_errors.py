"""Every error says when it is raised, and an error with fields shows them."""

from toolstile_hookspecs import ToolstileError, VisibilityExpansionRequired, errors


def real(kind=ToolstileError, above=None):
    yield kind.__name__, above
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from real(each, kind.__name__)


def test_every_error_says_what_it_is(subtests):
    for name in [name for name, _ in real()]:
        with subtests.test(name=name):
            assert getattr(errors, name).__doc__


def test_sections_to_open_are_named():
    error = VisibilityExpansionRequired(("a", "b"), "They hold the answer.")
    assert str(error) == "Sections to open: a, b. They hold the answer."
    assert (error.section_keys, error.reason) == (("a", "b"), "They hold the answer.")
    assert str(VisibilityExpansionRequired(("a",))) == "Sections to open: a."

"""Docstrings describe a function and its arguments."""

import functools

import pytest

from toolstile_hookspecs.support.callables import (
    argument_texts,
    docstring_of,
    first_paragraph,
    first_sentence,
)

GOOGLE = """Find tickets.

    Newest first.

    Args:
        query: What to look for;
            words are joined by AND.
        limit (int, optional): How many: at most 50.
        empty:

    Returns:
        found: not an argument.
    """


def test_arguments_are_read_from_the_args_section_alone():
    assert argument_texts(GOOGLE) == {
        "query": "What to look for; words are joined by AND.",
        "limit": "How many: at most 50.",
    }


def test_a_class_may_list_attributes_instead():
    assert argument_texts("A point.\n\nAttributes:\n    x: To the right.") == {"x": "To the right."}


@pytest.mark.parametrize(
    "docstring",
    [
        "Add.\n\nParameters\n----------\na : int\n    The first\n    number.\nb\n    The second.",
        "Add.\n\n:param a: The first\n    number.\n:param int b: The second.\n:returns: The sum.",
    ],
    ids=["numpy", "sphinx"],
)
def test_arguments_are_read_from_the_other_usual_styles(docstring):
    assert argument_texts(docstring) == {"a": "The first number.", "b": "The second."}


@pytest.mark.parametrize(
    "docstring",
    [
        "Add.\n\nParameters\n----------\na, b : int\n    One number.",
        "Add.\n\nArgs:\n    a: One number.\n\nKeyword Args:\n    b: One number.",
        "Add.\n\nArgs:\n    `a`: One number.\n\nKeyword Arguments:\n    b (int): One number.",
        "Add.\n\nOther Parameters\n----------------\na, b : int, optional\n    One number.",
        "Add.\n\nExample:\n\n:param a: One number.\n:param b: One number.",
        "Add.\n\nArgs:\n    a: One number.\n    **b: One number.",
    ],
)
def test_arguments_are_read_wherever_a_style_has_them(docstring):
    assert argument_texts(docstring) == {"a": "One number.", "b": "One number."}


def test_a_docstring_without_sections_says_nothing_of_arguments():
    assert argument_texts("Add: two numbers.") == {}
    assert argument_texts("") == {}


def test_the_first_paragraph_is_one_line():
    assert first_paragraph("One\n  two.\n\nThree.") == "One two."


def test_a_sentence_that_is_too_long_is_cut_at_a_word():
    assert first_sentence("aaa bbb ccc ddd", 12) == "aaa bbb..."
    assert first_sentence("Short. And more.", 12) == "Short."
    assert len(first_sentence("x" * 300, 200)) <= 200


def test_a_partial_has_the_docstring_of_its_function():
    def add(a, b):
        """Add."""

    assert docstring_of(functools.partial(functools.partial(add, 1), 2)) == "Add."

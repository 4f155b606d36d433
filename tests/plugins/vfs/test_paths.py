"""One form for every path."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from toolstile_plugins.vfs import paths

names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"),
    min_size=1,
    max_size=20,
).filter(lambda name: name not in {".", ".."} and paths.is_usable(name))


@pytest.mark.slow
@given(st.lists(names, max_size=6))
def test_what_is_canonical_stays_as_it_is(parts: list[str]) -> None:
    path = "/".join(parts)
    if len(path) > 1 and path[1] == ":":
        return
    assert paths.canonical(path) == path
    assert paths.canonical(f"/workspace/{path}") == path
    assert paths.canonical(f"./{path}/.//") == path


@pytest.mark.slow
@given(st.text(max_size=60))
@example("a/../../b")
@example("\u202e/..")
def test_whatever_is_taken_is_within_and_taken_again(text: str) -> None:
    try:
        path = paths.canonical(text)
    except (PermissionError, ValueError):
        return
    assert paths.canonical(path) == path
    assert not path.startswith("/")
    assert not {"", ".", ".."} & set(path.split("/") if path else ())
    assert all(paths.is_usable(name) for name in path.split("/") if path)


@pytest.mark.parametrize(
    ("path", "above"), [("", []), ("a", []), ("a/b", ["a"]), ("a/b/c", ["a/b", "a"])]
)
def test_what_is_above(path: str, above: list[str]) -> None:
    assert list(paths.ancestors(path)) == above
    assert paths.depth(path) == (len(above) + 1 if path else 0)


def test_a_path_is_put_together_and_taken_apart() -> None:
    assert paths.join("", "a") == "a"
    assert paths.join("a/b", "c") == "a/b/c"
    assert paths.split("a/b/c") == ("a/b", "c")
    assert paths.split("a") == ("", "a")


def test_what_lies_within_a_directory() -> None:
    assert paths.is_within("a/b", "a")
    assert paths.is_within("a", "a")
    assert paths.is_within("a", "")
    assert not paths.is_within("ab", "a")
    assert not paths.is_within("a", "a/b")


def test_a_long_path_is_refused_without_being_repeated() -> None:
    with pytest.raises(ValueError, match="characters") as told:
        paths.canonical("a/" * 1_000_000)
    assert len(str(told.value)) < 200

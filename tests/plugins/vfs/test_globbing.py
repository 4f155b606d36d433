"""Glob patterns against a plain, slow reading of their meaning."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given, settings, strategies as st

from toolstile_plugins.vfs.nodes import Kind
from toolstile_plugins.vfs.paths import Pattern

part = st.sampled_from(["a", "b", "ab", "*", "a*", "?", "[ab]", "**", "*b*"])
name = st.sampled_from(["a", "b", "ab", "ba", "abc", ".a"])


def plainly(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] != "**":
        return (
            bool(path)
            and fnmatch.fnmatchcase(path[0], pattern[0])
            and plainly(pattern[1:], path[1:])
        )
    if len(pattern) == 1:
        return bool(path)
    return plainly(pattern[1:], path) or (bool(path) and plainly(pattern, path[1:]))


@pytest.mark.slow
@given(st.lists(part, min_size=1, max_size=4), st.lists(name, min_size=1, max_size=5))
def test_means_what_it_plainly_means(pattern: list[str], path: list[str]) -> None:
    collapsed = [p for i, p in enumerate(pattern) if p != "**" or pattern[i - 1 : i] != ["**"]]
    assert Pattern("/".join(pattern)).matches("/".join(path)) == plainly(collapsed, path)


@settings(max_examples=50)
@given(st.lists(part, min_size=1, max_size=3), st.lists(st.lists(name, max_size=4), max_size=12))
def test_walking_finds_what_matches(pattern: list[str], found: list[list[str]]) -> None:
    tree: dict[str, dict[str, Kind]] = {"": {}}
    for path in found:
        for end in range(len(path)):
            directory = "/".join(path[:end])
            tree.setdefault(directory, {})[path[end]] = "directory"
            tree.setdefault("/".join(path[: end + 1]), {})
    compiled = Pattern("/".join(pattern))
    visited: list[str] = []

    def names_of(directory: str) -> dict[str, Kind]:
        visited.append(directory)
        return tree[directory]

    walked = {
        f"{directory}/{each}" if directory else each
        for directory, names in compiled.walk("", names_of)
        for each in names
    }
    assert walked == {path for path in tree if path and compiled.matches(path)}
    assert len(visited) == len(set(visited))


def test_goes_only_where_something_can_be() -> None:
    visited: list[str] = []

    def names_of(directory: str) -> dict[str, Kind]:
        visited.append(directory)
        return {"src": "directory", "node_modules": "directory"} if not directory else {}

    list(Pattern("src/*.py").walk("", names_of))
    assert visited == ["", "src"]


@pytest.mark.parametrize(("pattern", "visited"), [("*", {""}), ("{*,a/*}", {"", "a"})])
def test_goes_nowhere_beneath_the_last_part_of_a_pattern(pattern: str, visited: set[str]) -> None:
    looked: list[str] = []

    def names_of(directory: str) -> dict[str, Kind]:
        looked.append(directory)
        return {"a": "directory", "b": "directory"} if not directory else {"c": "directory"}

    list(Pattern(pattern).walk("", names_of))
    assert set(looked) == visited


def test_braces_nest_and_stand_for_themselves_where_they_cannot() -> None:
    assert Pattern("{a,b{c,d}}.py").matches("bd.py")
    assert Pattern("{a}").matches("{a}")
    assert Pattern("{a,b").matches("{a,b")
    assert Pattern("a,b}").matches("a,b}")
    assert Pattern("{,a}b").matches("b")


def test_many_stars_take_no_time() -> None:
    began = time.process_time()
    assert not Pattern("*a" * 100 + "b").matches("a" * 255)
    assert not Pattern("/".join(["**", "*"] * 50) + "/x").matches("/".join(["a"] * 100))
    assert time.process_time() - began < 2

"""The rule about files over the workspace's own tools."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard import Host
from toolyard_hookspecs import (
    ApprovalAnswer,
    Filesystem,
    MarkdownSection,
    Prompt,
    Status,
    ToolCall,
    ToolContext,
    tool,
)
from toolyard_plugins.vfs import VfsToolsSection

PATHS = ("a.txt", "b/c.txt")
SPELLINGS = ("{}", "./{}", "/workspace/{}", "b/../{}")


@tool
def meddle(path: str, text: str | None, *, context: ToolContext) -> None:
    """Change a file as someone else would: no policy knows this tool."""
    files = context.resources.get(Filesystem)
    if text is None:
        files.delete(path)
    else:
        files.write(path, text)


def prompt() -> Prompt:
    other = MarkdownSection(key="other", title="Other", tools=[meddle])
    return Prompt.of("tests", "workspace", [VfsToolsSection(), other])


@pytest.fixture
def shop(yard):
    return yard.open(*prompt().sections, workspace=False)


def test_the_default_policy_of_the_section_governs_its_tools(shop):
    shop("meddle", path="a.txt", text="one")
    denied = shop("write_file", path="a.txt", content="x", overwrite=True)
    assert denied.status is Status.DENIED
    shop("read_file", path="/workspace/a.txt")
    assert shop("write_file", path="a.txt", content="x", overwrite=True).success
    assert shop("move_file", source="a.txt", target="z.txt").success
    assert shop("edit_file", path="z.txt", old_text="x", new_text="y").success


def test_a_batch_with_a_read_and_a_write_of_one_file_denies_the_write(shop):
    shop("meddle", path="a.txt", text="one")
    read, write = shop.at_once(
        ("read_file", {"path": "a.txt"}),
        ("write_file", {"path": "./a.txt", "content": "x", "overwrite": True}),
    )
    assert (read.success, write.status) == (True, Status.DENIED)


def test_a_batch_of_writes_to_one_file_writes_all_in_order(shop):
    shop("write_file", path="a.txt", content="0")
    writes = [
        ("write_file", {"path": "a.txt", "content": str(each), "overwrite": True})
        for each in range(1, 6)
    ]
    assert [each.text for each in shop.at_once(*writes) if not each.success] == []
    assert "5" in shop("read_file", path="a.txt").text


@pytest.mark.parametrize("policies", [(), None])
def test_an_empty_tuple_switches_the_default_off(yard, policies):
    yard.open(
        VfsToolsSection(policies=policies),
        MarkdownSection(key="other", title="Other", tools=[meddle]),
        workspace=False,
    )
    yard("meddle", path="a.txt", text="one")
    outcome = yard("write_file", path="a.txt", content="x", overwrite=True)
    assert outcome.success is (policies == ())


actions = st.tuples(
    st.sampled_from(["read", "write", "delete", "meddle", "remove"]),
    st.sampled_from(PATHS),
    st.sampled_from(SPELLINGS),
    st.sampled_from("xyz"),
)


@given(st.lists(actions, max_size=20))
def test_nothing_is_overwritten_or_deleted_that_was_not_read_as_it_is(steps):
    files: dict[str, str] = {}
    known: dict[str, str] = {}
    with (
        Host(discover=False, approver=lambda _: ApprovalAnswer.approve()) as host,
        host.executor(prompt=prompt()) as tools,
    ):

        def call(name: str, **arguments: Any) -> Any:
            return tools.dispatch(ToolCall(name, arguments))

        call("meddle", path="b/keep.txt", text="so that b is there")
        for action, path, spelling, text in steps:
            spelt = spelling.format(path)
            if action == "read":
                assert call("read_file", path=spelt).success is (path in files)
                if path in files:
                    known[path] = files[path]
            elif action == "meddle":
                call("meddle", path=path, text=text)
                files[path] = text
            elif action == "remove":
                call("meddle", path=path, text=None)
                files.pop(path, None)
            else:
                allowed = path not in files or known.get(path) == files[path]
                if action == "write":
                    outcome = call("write_file", path=spelt, content=text, overwrite=True)
                    assert outcome.success is allowed
                    if allowed:
                        files[path] = known[path] = text
                else:
                    outcome = call("delete_file", path=spelt)
                    assert (outcome.status is Status.DENIED) is not allowed
                    if outcome.success:
                        del files[path]
                        known.pop(path, None)

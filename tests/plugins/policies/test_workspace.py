"""The rule about files over the workspace's own tools."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from toolstile import Host
from toolstile_hookspecs import (
    ApprovalAnswer,
    Filesystem,
    MarkdownSection,
    Prompt,
    Status,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_plugins.policies import ReadBeforeWritePolicy, SequentialDependencyPolicy
from toolstile_plugins.policies.read_before_write import WorkspaceFiles
from toolstile_plugins.vfs import VfsConfig, VfsToolsSection, VirtualFilesystem, paths

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


def test_sections_and_prompt_govern_files_and_deployment_together(yard, steps):
    build = {"build": frozenset({"lint"}), "deploy": frozenset({"test", "build"})}
    yard.open(
        VfsToolsSection(),
        steps(
            *("lint", "test", "build", "deploy", "review"),
            key="deployment",
            policies=(SequentialDependencyPolicy(dependencies=build),),
        ),
        MarkdownSection(key="other", title="Other", tools=[meddle]),
        policies=(SequentialDependencyPolicy(dependencies={"deploy": frozenset({"review"})}),),
        workspace=False,
    )
    yard("meddle", path="config.yaml", text="one")
    change = {"path": "config.yaml", "content": "two", "overwrite": True}

    assert yard("write_file", path="new.txt", content="x").success
    assert yard("write_file", **change).status is Status.DENIED
    read, deploy, lint = yard.at_once(
        ("read_file", {"path": "config.yaml"}), ("deploy", {}), ("lint", {})
    )
    assert (read.success, deploy.status, lint.success) == (True, Status.DENIED, True)
    before = yard.session.snapshot()
    assert yard("write_file", **change).success
    assert all(each.success for each in yard.at_once(("build", {}), ("test", {})))
    assert "missing review" in yard("deploy").text
    assert yard("review").success
    assert yard("deploy").success
    yard.session.restore(before)
    assert "missing build, test" in yard("deploy").text
    assert "has changed since it was read" in yard("write_file", **change).text


def test_a_policy_of_ones_own_replaces_the_default(yard):
    lax = ReadBeforeWritePolicy(write_tools=frozenset({"delete_file"}))
    yard.open(
        VfsToolsSection(policies=[lax]),
        MarkdownSection(key="other", title="Other", tools=[meddle]),
        workspace=False,
    )
    yard("meddle", path="a.txt", text="one")
    assert yard("write_file", path="a.txt", content="x", overwrite=True).success
    yard("meddle", path="b.txt", text="one")
    assert yard("delete_file", path="b.txt").status is Status.DENIED


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


def test_some_lines_of_a_file_are_enough_until_it_changes_anywhere(shop):
    shop("meddle", path="a.txt", text="one\ntwo\nthree\n")
    assert "two" not in shop("read_file", path="a.txt", limit=1).text
    assert shop("edit_file", path="a.txt", old_text="three", new_text="3").success
    shop("meddle", path="a.txt", text="one\ntwo\nfour\n")
    assert "has changed" in shop("edit_file", path="a.txt", old_text="one", new_text="1").text


def test_looking_at_a_file_in_other_ways_is_not_reading_it(shop):
    shop("meddle", path="a.txt", text="one")
    assert shop("list_directory").success
    assert shop("glob_files", pattern="*").success
    assert shop("grep_files", pattern="one").success
    assert not shop("read_file", path="a.txt", offset=9).success
    assert shop("delete_file", path="a.txt").status is Status.DENIED


def test_a_directory_can_be_moved_copied_and_deleted_unread_but_nothing_put_onto_it(yard):
    yard.open(
        VfsToolsSection(config=VfsConfig(confirm_deletes=False)),
        MarkdownSection(key="other", title="Other", tools=[meddle]),
        workspace=False,
    )
    for path in ("d/a.txt", "e/b.txt", "c.txt"):
        yard("meddle", path=path, text="one")

    assert "is a directory" in yard("copy_file", source="d", target="e", overwrite=True).text
    assert "is a directory" in yard("move_file", source="c.txt", target="e", overwrite=True).text
    assert "the file c.txt exists" in yard("move_file", source="d", target="c.txt").text
    assert yard("copy_file", source="d", target="f").success
    assert yard("move_file", source="d", target="g").success
    assert yard("write_file", path="g/a.txt", content="", overwrite=True).status is Status.DENIED
    assert yard("delete_file", path="f", recursive=True).success


def test_the_files_of_a_moved_directory_must_be_read_again(shop):
    shop("meddle", path="d/a.txt", text="one")
    shop("read_file", path="d/a.txt")
    shop("move_file", source="d", target="e")
    assert shop("delete_file", path="e/a.txt").status is Status.DENIED


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


parts = st.sampled_from(["a", "B", ".", "..", "", "workspace", "a b", "\N{SNOWMAN}"])


@example("/./workspace")
@given(st.lists(parts, max_size=7).map("/".join))
def test_the_policy_and_the_workspace_mean_the_same_file_by_a_path(path):
    files = VirtualFilesystem.in_memory()
    rule = WorkspaceFiles(files)
    try:
        canonical = paths.canonical(path)
    except (OSError, ValueError) as error:
        # What the workspace refuses the policy cannot look at either.
        with pytest.raises(type(error)):
            rule.digest(rule.canonical(path))
    else:
        assert rule.canonical(path) == (canonical or ".")


actions = st.tuples(
    st.sampled_from(["read", "write", "delete", "meddle", "remove"]),
    st.sampled_from(PATHS),
    st.sampled_from(SPELLINGS),
    st.sampled_from("xyz"),
)


@pytest.mark.slow
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

"""No file is overwritten that was not read as it is now."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from toolstile import Session
from toolstile_hookspecs import (
    ConflictError,
    DefinitionError,
    PolicyState,
    Status,
    Tool,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_plugins.policies import ReadBeforeWritePolicy

RULE = ReadBeforeWritePolicy(name="rule")


@pytest.fixture
def shop(yard, file_section):
    yard.files.contents = {"a.txt": b"one", "b.txt": b"two", "docs/c.txt": b"three"}
    return yard.open(file_section(RULE))


def is_denied(outcome):
    return outcome.status is Status.DENIED


def test_a_new_file_can_be_created_freely(shop):
    assert shop("write_file", path="new.txt", content="x").success
    assert shop.files["new.txt"] == "x"


def test_an_existing_file_must_be_read_first(shop):
    outcome = shop("write_file", path="a.txt", content="x")

    assert is_denied(outcome)
    assert outcome.text == (
        "Cannot call write_file: the file a.txt exists and was not read. Call read_file on it "
        "first, then retry write_file."
    )
    assert shop.files["a.txt"] == "one"
    shop("read_file", path="a.txt")
    assert shop("write_file", path="a.txt", content="x").success
    assert shop.files["a.txt"] == "x"


def test_reading_one_file_says_nothing_of_another(shop):
    shop("read_file", path="a.txt")
    assert is_denied(shop("write_file", path="b.txt", content="x"))


def test_a_failed_read_does_not_count(shop):
    assert not shop("read_file", path="later.txt").success
    shop.files.contents["later.txt"] = b"now"
    assert is_denied(shop("write_file", path="later.txt", content="x"))


def test_a_file_that_has_changed_since_must_be_read_again(shop):
    shop("read_file", path="a.txt")
    shop.files.contents["a.txt"] = b"someone else's"
    outcome = shop("write_file", path="a.txt", content="x")

    assert is_denied(outcome)
    assert "a.txt has changed since it was read" in outcome.text
    shop("read_file", path="a.txt")
    assert shop("write_file", path="a.txt", content="x").success


def test_a_file_that_was_changed_and_changed_back_is_the_one_that_was_read(shop):
    shop("read_file", path="a.txt")
    for content in (b"other", b"one"):
        shop.files.contents["a.txt"] = content
    assert shop("write_file", path="a.txt", content="x").success


def test_ones_own_write_counts_as_reading(shop):
    shop("write_file", path="new.txt", content="x")
    assert shop("write_file", path="new.txt", content="y").success
    assert shop("edit_file", file_path="new.txt", old="y", new="z").success
    assert shop("delete_file", path="new.txt").success


def test_a_failed_write_changes_nothing_of_what_is_known(shop):
    shop("read_file", path="a.txt")
    known = shop.session[PolicyState].all()
    assert shop("edit_file", file_path="a.txt", old="nine", new="x").status is Status.FAILED
    assert shop.session[PolicyState].all() == known
    assert shop.files["a.txt"] == "one"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("edit_file", {"file_path": "a.txt", "old": "o", "new": "x"}),
        ("delete_file", {"path": "a.txt"}),
        ("copy_file", {"source": "b.txt", "target": "a.txt"}),
        ("move_file", {"source": "b.txt", "target": "a.txt"}),
    ],
)
def test_every_way_of_changing_a_file_counts_as_writing(shop, name, arguments):
    shop("read_file", path="b.txt")
    assert is_denied(shop(name, **arguments))
    shop("read_file", path="a.txt")
    assert shop(name, **arguments).success


def test_copying_and_moving_to_a_new_name_is_free(shop):
    assert shop("copy_file", source="a.txt", target="x.txt").success
    assert shop("move_file", source="a.txt", target="y.txt").success


@pytest.mark.parametrize("name", ["copy_file", "move_file"])
def test_what_was_copied_or_moved_counts_as_read_where_the_original_did(shop, name):
    shop("read_file", path="a.txt")
    shop(name, source="a.txt", target="read.txt")
    shop(name, source="b.txt", target="unread.txt")

    assert shop("write_file", path="read.txt", content="x").success
    assert is_denied(shop("write_file", path="unread.txt", content="x"))


def test_a_file_that_is_deleted_and_made_anew_by_others_must_be_read(shop):
    shop("read_file", path="a.txt")
    assert shop("delete_file", path="a.txt").success
    shop.files.contents["a.txt"] = b"one more"
    assert is_denied(shop("write_file", path="a.txt", content="x"))


def test_a_file_that_is_made_anew_where_one_was_moved_away_must_be_read(shop):
    shop("read_file", path="a.txt")
    assert shop("move_file", source="a.txt", target="z.txt").success
    shop.files.contents["a.txt"] = b"one more"
    assert "a.txt exists and was not read" in shop("write_file", path="a.txt", content="x").text


def test_a_name_that_a_move_has_freed_can_be_taken(shop):
    shop("read_file", path="a.txt")
    shop("move_file", source="a.txt", target="z.txt")
    assert shop("write_file", path="a.txt", content="x").success


@pytest.mark.parametrize(
    "alias", ["./a.txt", "/workspace/a.txt", "docs/../a.txt", "/workspace//./a.txt"]
)
def test_other_spellings_are_the_same_file(shop, alias):
    assert is_denied(shop("write_file", path=alias, content="x"))
    shop("read_file", path=alias)
    assert shop("write_file", path="a.txt", content="x").success


@pytest.mark.parametrize("name", ["write_file", "delete_file"])
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "/etc/passwd is outside. Give a path within."),
        ("../a.txt", "../a.txt is outside. Give a path within."),
        ("a\0.txt", "The path holds NUL, which no path can."),
        ("secret.txt", "Access to secret.txt is forbidden."),
        ("docs/../secret.txt", "Access to secret.txt is forbidden."),
    ],
)
def test_a_file_that_the_workspace_does_not_show_is_not_changed(shop, name, path, why):
    shop.files.contents["secret.txt"] = b"s"
    shop.files.forbidden.add("secret.txt")
    more = {"content": "x"} if name == "write_file" else {}
    outcome = shop(name, path=path, **more)

    assert is_denied(outcome)
    shown = path.replace("a\0.txt", r"'a\x00.txt'")
    assert outcome.text == (
        f"Cannot call {name}: the file {shown} cannot be looked at: {why} Correct that, then retry "
        f"{name}."
    )
    assert shop.files["secret.txt"] == "s"


def test_a_denial_names_what_was_not_read_and_what_cannot_be_looked_at(yard, file_section):
    @tool
    def purge(names: list[str], *, context: ToolContext) -> None:
        """Delete documents."""
        raise AssertionError

    rule = ReadBeforeWritePolicy(write_tools=frozenset({"purge"}), paths={"purge": ("names",)})
    yard.files.contents = {"a.txt": b"one", "b.txt": b"two"}
    yard.open(file_section(rule, tools=(purge,)))

    assert yard("purge", names=["a.txt", "../x", "b.txt"]).text == (
        "Cannot call purge: the file ../x cannot be looked at: ../x is outside. Give a path "
        "within. Also, the file a.txt exists and was not read; the file b.txt exists and was not "
        "read. Call read_file on each of them first, then retry purge."
    )


def test_a_file_that_was_read_and_cannot_be_looked_at_any_more_is_not_changed(shop):
    shop("read_file", path="a.txt")
    shop.files.forbidden.add("a.txt")
    assert is_denied(shop("write_file", path="a.txt", content="x"))
    shop.files.forbidden.clear()
    assert shop("write_file", path="a.txt", content="x").success


def test_directories_are_not_governed(shop):
    assert not is_denied(shop("delete_file", path="docs"))
    assert not is_denied(shop("move_file", source="docs", target="papers"))
    assert not is_denied(shop("copy_file", source="a.txt", target="docs"))


def test_without_a_directory_nobody_can_tell_what_was_read(yard, file_section):
    @tool
    def write_file(path: str) -> None:
        """Write somewhere else."""

    yard.open(file_section(RULE, tools=(write_file,)), workspace=False)
    outcome = yard("write_file", path="a.txt")
    assert is_denied(outcome)
    assert outcome.text == (
        "Cannot call write_file: the directory of its files is unknown, and so are the files that "
        "were read. A person must name it. Continue without the tool."
    )


def test_a_write_without_a_path_is_denied(yard, file_section):
    @tool
    def write_file(text: str) -> None:
        """Write to the one place there is."""

    yard.open(file_section(RULE, tools=(write_file,)))
    outcome = yard("write_file", text="x")
    assert is_denied(outcome)
    assert outcome.text == (
        "Cannot call write_file: none of its arguments is the path of a file, so the files it "
        "changes are unknown. Give the path, then retry write_file; if it takes none, continue "
        "without it."
    )


def test_tools_that_are_not_named_are_not_governed(yard, file_section):
    @tool
    def overwrite(path: str, *, context: ToolContext) -> None:
        """Write."""
        context.filesystem.write(path, "x")

    yard.files.contents = {"a.txt": b"one"}
    yard.open(file_section(RULE, tools=(overwrite,)))
    assert yard("overwrite", path="a.txt").success


def test_tools_and_fields_are_configurable_also_for_single_tools(yard, file_section):
    @tool
    def show(doc: str, *, context: ToolContext) -> str:
        """Show a document."""
        return context.filesystem.read(doc)

    @tool
    def save(doc: str, *, context: ToolContext) -> None:
        """Save a document."""
        context.filesystem.write(doc, "new")

    @tool
    def swap(first: str, second: str, *, context: ToolContext) -> None:
        """Swap two documents."""

    @tool
    def purge(names: list[str], *, context: ToolContext) -> None:
        """Delete documents."""

    rule = ReadBeforeWritePolicy(
        read_tools=frozenset({"show"}),
        write_tools=frozenset({"save", "swap", "purge"}),
        path_fields=("doc",),
        paths={"swap": ("first", "second"), "purge": ("names",)},
    )
    yard.files.contents = {"a.txt": b"one", "b.txt": b"two"}
    yard.open(file_section(rule, tools=(show, save, swap, purge)))

    assert is_denied(yard("save", doc="a.txt"))
    assert yard("swap", first="a.txt", second="b.txt").text == (
        "Cannot call swap: the file a.txt exists and was not read; the file b.txt exists and was "
        "not read. Call show on each of them first, then retry swap."
    )
    yard("show", doc="a.txt")
    assert yard("save", doc="a.txt").success
    assert "the file b.txt exists" in yard("purge", names=["a.txt", "b.txt", "c.txt"]).text
    yard("show", doc="b.txt")
    assert yard("swap", first="a.txt", second="b.txt").success
    assert yard("purge", names=["a.txt", "b.txt", "c.txt"]).success


def test_a_glob_of_writing_tools_does_not_mean_those_that_read(yard, file_section):
    rule = ReadBeforeWritePolicy(read_tools={"read_*"}, write_tools={"*_file"})
    yard.files.contents = {"a.txt": b"one"}
    yard.open(file_section(rule))
    assert is_denied(yard("write_file", path="a.txt", content="x"))
    assert yard("read_file", path="a.txt").success
    assert yard("write_file", path="a.txt", content="x").success


def test_a_tool_that_is_named_as_reading_and_writing_writes(yard, file_section):
    rule = ReadBeforeWritePolicy(read_tools={"read_*", "edit_file"}, write_tools={"edit_file"})
    yard.files.contents = {"a.txt": b"one"}
    yard.open(file_section(rule))
    assert is_denied(yard("edit_file", file_path="a.txt", old="o", new="x"))


def test_wire_names_name_tools_too(yard, file_section):
    @tool(name="fs_show", wire_name="fs.show")
    def show(path: str, *, context: ToolContext) -> str:
        """Show a document."""
        return context.filesystem.read(path)

    @tool(name="fs_save", wire_name="fs.save")
    def save(at: str, *, context: ToolContext) -> None:
        """Save a document."""
        context.filesystem.write(at, "new")

    rule = ReadBeforeWritePolicy(
        read_tools=frozenset({"fs.show"}),
        write_tools=frozenset({"fs.save"}),
        paths={"fs.save": ("at",)},
    )
    yard.files.contents = {"a.txt": b"one"}
    yard.open(file_section(rule, tools=(show, save)))

    assert is_denied(yard("fs_save", at="a.txt"))
    yard("fs.show", path="a.txt")
    assert yard("fs.save", at="a.txt").success


def test_a_writing_tool_without_parameters_is_denied(yard, file_section):
    def wipe(params: None, *, context: ToolContext) -> ToolResult[None]:
        raise AssertionError

    own = Tool[None, None](name="write_file", description="Write the log.", handler=wipe)
    yard.open(file_section(RULE, tools=(own,)))
    assert is_denied(yard("write_file"))


def test_of_several_paths_all_count(yard, file_section):
    @tool
    def write_file(file_path: str, *, path: str = "b.txt") -> None:
        """Write to `path`."""

    yard.files.contents = {"a.txt": b"one", "b.txt": b"two"}
    yard.open(file_section(RULE, tools=(write_file,)))
    assert "the file b.txt exists" in yard("write_file", file_path="new.txt").text
    assert "the file a.txt exists" in yard("write_file", file_path="a.txt", path="c.txt").text


def test_the_session_tells_what_was_read_and_with_what(shop):
    shop("read_file", path="./a.txt")
    shop("read_file", path="docs/c.txt")
    assert not shop("read_file", path="missing.txt").success
    shop("write_file", path="new.txt", content="x")
    [record] = shop.session[PolicyState].all()

    assert record.policy_name == "rule"
    assert record.invoked_keys == {("read_file", "a.txt"), ("read_file", "docs/c.txt")}
    assert record.invoked_tools == frozenset()
    assert set(record.data) == {"a.txt", "docs/c.txt", "new.txt"}


def test_reading_again_what_is_known_writes_nothing(shop):
    shop("read_file", path="a.txt")
    before = shop.session[PolicyState].all()
    shop("read_file", path="a.txt")
    assert shop.session[PolicyState].all() == before


def test_two_instances_never_mix(yard, file_section):
    @tool
    def skim(path: str, *, context: ToolContext) -> str:
        """Look at a file."""
        return context.filesystem.read(path)

    one = ReadBeforeWritePolicy(name="one")
    two = ReadBeforeWritePolicy(name="two", read_tools=frozenset({"skim"}))
    yard.files.contents = {"a.txt": b"one"}
    yard.open(file_section(one, two, tools=(*file_section().tools, skim)))
    write = {"path": "a.txt", "content": "x"}

    yard("read_file", path="a.txt")
    assert "Call skim on it first" in yard("write_file", **write).text
    yard.session.reset()
    yard("skim", path="a.txt")
    assert "Call read_file on it first" in yard("write_file", **write).text
    read, skimmed = yard.at_once(("read_file", {"path": "a.txt"}), ("skim", {"path": "a.txt"}))
    assert (read.success, skimmed.success) == (True, True)
    assert yard("write_file", **write).success
    assert {each.policy_name for each in yard.session[PolicyState].all()} == {"one", "two"}


def test_the_rule_holds_for_calls_that_tools_make(yard, file_section):
    @tool
    def tidy(*, context: ToolContext) -> str:
        """Empty a file through another tool, before and after reading it."""
        write = {"path": "a.txt", "content": ""}
        first = context.call("write_file", write).status
        context.call("read_file", {"path": "a.txt"})
        return f"{first} {context.call('write_file', write).status}"

    yard.files.contents = {"a.txt": b"one"}
    yard.open(file_section(RULE, tools=(*file_section().tools, tidy)))
    assert yard("tidy").text == "denied succeeded"


def test_a_batch_with_a_read_and_a_write_of_one_file_denies_the_write(shop):
    read, write = shop.at_once(
        ("read_file", {"path": "a.txt"}), ("write_file", {"path": "a.txt", "content": "x"})
    )
    assert (read.success, is_denied(write)) == (True, True)
    assert shop.files["a.txt"] == "one"
    assert shop("write_file", path="a.txt", content="x").success


def test_parallel_reads_all_count(shop):
    paths = ("a.txt", "b.txt", "docs/c.txt")
    shop.at_once(*(("read_file", {"path": path}) for path in paths))
    written = shop.at_once(*(("write_file", {"path": path, "content": "x"}) for path in paths))
    assert [each.success for each in written] == [True] * 3


def test_reads_on_threads_of_their_own_all_count(shop):
    paths = [f"{number}.txt" for number in range(12)]
    shop.files.contents = dict.fromkeys(paths, b"x")
    threads = [
        threading.Thread(target=shop, args=("read_file",), kwargs={"path": p}) for p in paths
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(shop("write_file", path=path, content="y").success for path in paths)


@pytest.mark.parametrize(("contained", "status"), [(True, Status.DENIED), (False, Status.CONFLICT)])
def test_what_others_write_meanwhile_is_not_overwritten(yard, file_section, contained, status):
    @tool(contained=contained)
    def write_file(path: str, *, context: ToolContext) -> None:
        """Write, while someone else does."""
        context.filesystem.write(path, "mine")
        yard.files.contents[path] = b"theirs"

    yard.files.contents = {"a.txt": b"one"}
    [read] = [each for each in file_section().tools if each.name == "read_file"]
    yard.open(file_section(RULE, tools=(read, write_file)))
    yard("read_file", path="a.txt")

    assert yard("write_file", path="a.txt").status is status
    assert yard.files["a.txt"] == "theirs"


def test_a_rolled_back_read_does_not_count(yard, file_section):
    @tool
    def read_and_fail(*, context: ToolContext) -> None:
        """Read a file through another tool, then fail."""
        assert context.call("read_file", {"path": "a.txt"}).success
        raise RuntimeError("no")

    yard.files.contents = {"a.txt": b"one"}
    section = file_section(RULE)
    yard.open(file_section(RULE, tools=(*section.tools, read_and_fail)))
    yard("read_and_fail")
    assert is_denied(yard("write_file", path="a.txt", content="x"))


def test_snapshot_restore_and_reset_of_the_session_include_it(shop):
    before = shop.session.snapshot()
    shop("read_file", path="a.txt")
    after = shop.session.snapshot()
    shop.session.restore(before)
    assert is_denied(shop("write_file", path="a.txt", content="one"))
    shop.session.restore(after)
    assert shop("write_file", path="a.txt", content="one").success
    shop.session.reset()
    assert is_denied(shop("write_file", path="a.txt", content="one"))


def test_each_session_reads_for_itself(shop):
    shop("read_file", path="a.txt")
    other = shop.again(Session())
    assert is_denied(other("write_file", path="a.txt", content="x"))


class Disk:
    """Tools that use the disk, and a policy over them."""

    def __init__(self, yard, file_section, root):
        @tool
        def read_file(path: str) -> str:
            """Read."""
            return Path(root, path).read_text()

        @tool
        def write_file(path: str) -> None:
            """Write."""
            Path(root, path).write_text("new")

        @tool
        def copy_file(source: str, target: str) -> None:
            """Write what is found elsewhere."""
            Path(root, target).write_text(source)

        rule = ReadBeforeWritePolicy(root=root)
        tools = (read_file, write_file, copy_file)
        self.yard = yard.open(file_section(rule, tools=tools), workspace=False)


@pytest.fixture
def disk(yard, file_section, tmp_path):
    (tmp_path / "a.txt").write_text("one")
    return Disk(yard, file_section, tmp_path).yard


@pytest.mark.parametrize("source", ["x" * 300, "a\0b", "../elsewhere"])
def test_a_copy_may_be_made_of_what_can_be_no_file_there(disk, tmp_path, source):
    assert disk("copy_file", source=source, target="new.txt").success
    assert (tmp_path / "new.txt").read_text() == source


@pytest.mark.slow
@pytest.mark.parametrize("other", ["a.txt", "./a.txt", "sub/../a.txt", "link.txt", "whole"])
def test_a_root_directory_stands_in_for_the_workspace(disk, tmp_path, other):
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.txt").symlink_to("a.txt")
    other = str(tmp_path / "a.txt") if other == "whole" else other

    assert disk("write_file", path="new.txt").success
    assert is_denied(disk("write_file", path=other))
    disk("read_file", path=other)
    assert disk("write_file", path="a.txt").success
    (tmp_path / "a.txt").write_text("from outside")
    assert is_denied(disk("write_file", path=other))


@pytest.mark.parametrize("was_read", [True, False])
def test_a_file_that_the_system_does_not_show_is_not_changed(disk, tmp_path, was_read):
    if was_read:
        disk("read_file", path="a.txt")
    (tmp_path / "a.txt").unlink()
    (tmp_path / "a.txt").symlink_to("b.txt")
    (tmp_path / "b.txt").symlink_to("a.txt")
    outcome = disk("write_file", path="a.txt")

    assert is_denied(outcome)
    assert outcome.text == (
        "Cannot call write_file: the file a.txt cannot be looked at: too many levels of symbolic "
        "links. This requires human intervention."
    )


@pytest.mark.parametrize("path", ["a\0.txt", "x" * 300, "\0"])
def test_what_can_be_no_path_is_denied(disk, path):
    assert "cannot be looked at" in disk("write_file", path=path).text


@pytest.mark.operator_text("the tool of the test names the folder that it could not read")
@pytest.mark.slow
@pytest.mark.parametrize("path", ["../out.txt", "../new.txt", "link.txt", "whole", ".."])
@pytest.mark.parametrize("was_read", [True, False])
def test_a_path_outside_of_the_root_is_denied_as_such(yard, file_section, tmp_path, path, was_read):
    root = tmp_path / "wiki"
    root.mkdir()
    (tmp_path / "out.txt").write_text("one")
    (root / "link.txt").symlink_to("../out.txt")
    shop = Disk(yard, file_section, root).yard
    path = str(tmp_path / "out.txt") if path == "whole" else path
    if was_read:
        shop("read_file", path=path)
    outcome = shop("write_file", path=path)

    assert is_denied(outcome)
    assert outcome.text == (
        f"Cannot call write_file: the file {path} cannot be looked at: It lies outside of the "
        "directory that the files are in. Give a path within it. Correct that, then retry "
        "write_file."
    )
    assert (tmp_path / "out.txt").read_text() == "one"


@pytest.mark.parametrize("path", ["..hidden", "..."])
def test_a_name_that_begins_with_dots_is_not_outside(disk, path):
    assert disk("write_file", path=path).success


def test_a_link_that_leads_nowhere_is_no_file(disk, tmp_path):
    (tmp_path / "link.txt").symlink_to("later.txt")
    assert disk("write_file", path="link.txt").success
    assert (tmp_path / "later.txt").read_text() == "new"


def test_a_root_that_is_no_directory_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for root in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(DefinitionError) as raised:
            ReadBeforeWritePolicy(root=root)
        assert str(raised.value) == (
            f"ReadBeforeWritePolicy: root: {root} is not a directory. "
            "Make it, or name the directory of the tools."
        )


def test_a_root_can_be_given_as_a_text(tmp_path):
    assert ReadBeforeWritePolicy(root=str(tmp_path)) == ReadBeforeWritePolicy(root=tmp_path)


def test_a_root_that_is_removed_later_lets_nothing_through(yard, file_section, tmp_path):
    root = tmp_path / "wiki"
    root.mkdir()
    shop = Disk(yard, file_section, root).yard
    assert shop("write_file", path="new.txt").success
    shutil.rmtree(root)
    outcome = shop("write_file", path="new.txt")

    assert is_denied(outcome)
    assert outcome.text == (
        "Cannot call write_file: the file new.txt cannot be looked at: The directory that the "
        "files are in is gone. This requires human intervention."
    )


def test_a_relative_root_stays_where_it_was_when_the_process_moves_on(tmp_path, monkeypatch):
    (tmp_path / "wiki").mkdir()
    monkeypatch.chdir(tmp_path)
    policy = ReadBeforeWritePolicy(root=Path("wiki"))
    monkeypatch.chdir("/")
    assert policy.root == tmp_path / "wiki"


def test_pipes_are_not_opened(disk, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert disk.tools.prompt
    policy = ReadBeforeWritePolicy(root=tmp_path, name="x")
    tools = {each.name: each for each in disk.tools.prompt.tools()}
    context = ToolContext(session=disk.session)
    params = tools["write_file"].parse({"path": "pipe"})
    assert policy.check(tools["write_file"], params, context=context).allowed


def test_a_serial_tool_of_a_batch_is_checked_on_the_state_it_runs_on(yard, file_section):
    @tool(concurrency="serial")
    def edit_file(path: str, text: str, *, context: ToolContext) -> str:
        """Add to a file."""
        context.filesystem.write(path, context.filesystem.read(path) + text)
        return context.filesystem.read(path)

    yard.files.contents = {"a.txt": b"one"}
    tools = [each for each in file_section().tools if each.name == "read_file"]
    yard.open(file_section(RULE, tools=(*tools, edit_file)))
    yard("read_file", path="a.txt")

    calls = [("edit_file", {"path": "a.txt", "text": text}) for text in (" two", " three")]
    assert [each.text for each in yard.at_once(*calls)] == ["one two", "one two three"]


def test_a_serial_tool_is_denied_what_others_have_changed_while_it_waited(yard, file_section):
    @tool(concurrency="serial")
    def write_file(path: str, *, context: ToolContext) -> None:
        """Write a file, and have another one changed."""
        context.filesystem.write(path, "mine")
        yard.files.contents["b.txt"] = b"theirs"

    yard.files.contents = {"a.txt": b"one", "b.txt": b"two"}
    tools = [each for each in file_section().tools if each.name == "read_file"]
    yard.open(file_section(RULE, tools=(*tools, write_file)))
    for path in ("a.txt", "b.txt"):
        yard("read_file", path=path)
    first, second = yard.at_once(*(("write_file", {"path": path}) for path in ("a.txt", "b.txt")))

    assert first.success
    assert second.status is Status.DENIED
    assert "b.txt has changed since it was read" in second.text
    assert yard.files["b.txt"] == "theirs"


@pytest.mark.parametrize(
    ("contained", "status"), [(True, Status.SUCCEEDED), (False, Status.CONFLICT)]
)
def test_a_conflict_that_a_workspace_notices_while_the_tool_runs_is_tried_again(
    yard, file_section, contained, status
):
    @tool(contained=contained)
    def write_file(path: str, *, context: ToolContext) -> None:
        """Write a file, of which the workspace says once that it has moved on."""
        tried.append(path)
        if len(tried) == 1:
            raise ConflictError("a.txt has changed.")
        context.filesystem.write(path, "mine")

    tried: list[str] = []
    outcome = yard.open(file_section(RULE, tools=(write_file,)))("write_file", path="a.txt")
    assert (outcome.status, outcome.event.reruns) == (status, int(contained))


def test_a_file_that_is_being_changed_is_not_overwritten(shop):
    class Moving:
        def stat(self, path):
            raise ConflictError("It moves.")

    class Resources:
        def get(self, kind, default=None):
            return Moving()

    tools = {each.name: each for each in shop.tools.prompt.tools()}
    context = ToolContext(session=shop.session, resources=Resources())
    params = tools["write_file"].parse({"path": "a.txt", "content": ""})
    decision = RULE.check(tools["write_file"], params, context=context)
    assert not decision.allowed
    assert "a.txt is being changed by another call" in decision.reason

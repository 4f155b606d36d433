"""The file tools as a model meets them: what they do, and what they say when they cannot."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolstile import Host
from toolstile_hookspecs import (
    MarkdownSection,
    Outcome,
    Prompt,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_plugins.vfs import VfsConfig, VfsToolsSection, VirtualFilesystem
from toolstile_plugins.vfs.text_files import lines_of
from toolstile_plugins.vfs.tools import file_tools
from toolstile_plugins.vfs.tools.handlers import cut
from toolstile_plugins.vfs.tools.models import FileText

FILES: dict[str, str | bytes] = {
    "README.md": "# Garden\n\nWater the plants.\n",
    "src/app.py": "import os\n\n\ndef main():\n    return os.name\n",
    "src/lib/util.py": "def main():\n    pass\n",
    "windows.txt": "one\r\ntwo\r\n",
    "bare.txt": "no newline",
    "empty.txt": "",
    "image.png": b"\x89PNG\0\0",
}


@tool(contained=True)
def write_and_fail(path: str, *, context: ToolContext) -> ToolResult[None]:
    """Write a file through a nested call, and another directly, then fail."""
    assert context.call("write_file", {"path": path, "content": "never"}).success
    assert context.filesystem is not None
    context.filesystem.write("other.txt", "never")
    return ToolResult.error("The tests failed. Fix them, then retry.")


class Desk:
    """The tools over one workspace, with no policies unless asked for."""

    def __init__(self, driver: str, stack: ExitStack, root: Path | None = None) -> None:
        self.driver = driver
        self.root = root
        self.stack = stack
        self.files: Any = None

    def open(self, files: dict[str, str | bytes] | None = None, **options: Any) -> Desk:
        config = VfsConfig(**options.pop("config", {"confirm_deletes": False}))
        self.files = self._workspace(FILES if files is None else files)
        options.setdefault("policies", ())
        section = VfsToolsSection(config=config, filesystem=self.files, **options)
        extra = MarkdownSection(key="extra", title="Extra", tools=[write_and_fail])
        host = self.stack.enter_context(Host(discover=False))
        prompt = Prompt.of("tests", "vfs", (section, extra))
        self.tools = self.stack.enter_context(host.executor(prompt=prompt))
        return self

    def _workspace(self, files: dict[str, str | bytes]) -> VirtualFilesystem:
        if self.root is None:
            return VirtualFilesystem.in_memory(files)
        for path, content in files.items():
            place = self.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)
        return self.stack.enter_context(closing(VirtualFilesystem.on_disk(self.root)))

    def __call__(self, name: str, /, **arguments: Any) -> Outcome:
        return self.all((name, arguments))[0]

    def all(self, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
        wishes = [ToolCall(name, arguments) for name, arguments in calls]
        if self.driver == "sync":
            return self.tools.dispatch_all(wishes)
        return asyncio.run(self._all(wishes))

    async def _all(self, wishes: list[ToolCall]) -> list[Any]:
        return await self.tools.adispatch_all(wishes)

    def text(self, name: str, /, **arguments: Any) -> str:
        outcome = self(name, **arguments)
        assert outcome.success, outcome.text
        return outcome.text

    def refusal(self, name: str, /, **arguments: Any) -> str:
        before = self.tree()
        outcome = self(name, **arguments)
        assert outcome.status is Status.FAILED, outcome.text
        assert self.tree() == before
        return outcome.text

    def tree(self) -> dict[str, bytes]:
        stats = list(self.files.glob("**"))
        return {s.path: self.files.read_bytes(s.path) for s in stats if s.kind == "file"}


@pytest.fixture(params=["sync, in memory", "async, on disk"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    with ExitStack() as stack:
        driver, _, place = request.param.partition(", ")
        yield Desk(driver, stack, tmp_path if place == "on disk" else None)


@pytest.fixture
def make_desk() -> Iterator[Callable[..., Desk]]:
    with ExitStack() as stack:
        yield lambda **options: Desk("sync", stack).open(**options)


# --- what the host is told of the tools ---


def test_the_tools_are_the_nine_and_all_stay_within_the_branch() -> None:
    tools = file_tools(VfsConfig())

    assert [each.name for each in tools] == [
        "list_directory",
        "read_file",
        "write_file",
        "edit_file",
        "delete_file",
        "copy_file",
        "move_file",
        "glob_files",
        "grep_files",
    ]
    assert all(each.contained and each.examples and "files" in each.tags for each in tools)


def test_category_and_consequence_say_what_a_tool_does() -> None:
    told = {each.name: (each.category, each.consequence) for each in file_tools(VfsConfig())}

    assert set(told.values()) == {("read", "low"), ("write", "medium"), ("delete", "high")}
    assert [name for name, kind in told.items() if kind[0] == "delete"] == ["delete_file"]
    assert [name for name, kind in told.items() if kind[0] == "read"] == [
        "list_directory",
        "read_file",
        "glob_files",
        "grep_files",
    ]


def test_every_param_is_described() -> None:
    for each in file_tools(VfsConfig()):
        for name, schema in each.params_codec.schema()["properties"].items():
            assert schema.get("description"), (each.name, name)


# --- list_directory ---


def test_a_directory_is_listed_with_kinds_and_sizes(desk: Desk) -> None:
    desk.open({"docs/a.txt": "12345", "docs/sub/b.txt": "", "c.txt": ""})

    assert desk.text("list_directory", path="docs") == (
        "docs holds 2 entries:\na.txt  5 bytes\nsub/"
    )
    assert desk.text("list_directory") == (
        "The root of the workspace holds 2 entries:\nc.txt  0 bytes\ndocs/"
    )


def test_an_empty_directory_is_said_to_be_empty(desk: Desk) -> None:
    assert desk.open({}).text("list_directory") == "The root of the workspace is empty."


def test_listing_a_file_says_what_to_use(desk: Desk) -> None:
    text = desk.open().refusal("list_directory", path="README.md")

    assert "README.md is a file, not a directory. Use read_file" in text


def test_a_long_listing_is_cut_and_says_how_to_go_on(desk: Desk) -> None:
    desk.open({f"{number:02}.txt": "" for number in range(30)})

    text = desk.text("list_directory", limit=10)
    assert text.startswith(
        "The root of the workspace holds 30 entries; 1-10 are shown. "
        "For the rest call list_directory with offset=11."
    )
    text = desk.text("list_directory", offset=21)
    assert "21-30 are shown." in text
    assert "For the rest" not in text
    assert "offset 31 is past the end" in desk.refusal("list_directory", offset=31)


# --- read_file ---


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("README.md", "README.md: 3 lines."),
        ("windows.txt", r"windows.txt: 2 lines, which end with \r\n."),
        ("bare.txt", "bare.txt: 1 line, no newline at the end."),
    ],
)
def test_a_text_is_read_as_it_is_after_a_line_about_it(desk: Desk, path: str, message: str) -> None:
    assert desk.open().text("read_file", path=path) == f"{message}\n{FILES[path]}"


def test_an_empty_file_is_said_to_be_empty(desk: Desk) -> None:
    outcome = desk.open()("read_file", path="empty.txt")

    assert outcome.text == "empty.txt is empty."
    assert outcome.result.value.content == ""


def test_a_byte_order_mark_is_told_of(desk: Desk) -> None:
    desk.open({"a.txt": "\ufeffhello\n"})

    assert "a byte order mark at the beginning" in desk.text("read_file", path="a.txt")


def test_some_lines_are_read_with_offset_and_limit(desk: Desk) -> None:
    text = desk.open().text("read_file", path="src/app.py", offset=4, limit=1)

    assert text == (
        "src/app.py: line 4 of 5. For the rest call read_file with offset=5.\ndef main():\n"
    )


def test_line_numbers_are_shown_on_request_and_are_not_part_of_the_value(desk: Desk) -> None:
    desk.open({"a.txt": "".join(f"line {number}\n" for number in range(1, 12))})
    outcome = desk("read_file", path="a.txt", offset=9, limit=2, line_numbers=True)

    assert outcome.text.endswith("\n 9\tline 9\n10\tline 10\n")
    assert outcome.result.value.content == "line 9\nline 10\n"


def test_a_long_file_is_cut_at_a_line_and_the_rest_can_be_had(desk: Desk) -> None:
    whole = "".join(f"line {number}\n" for number in range(1000))
    desk.open({"long.txt": whole}, config={"max_result_chars": 500})

    got, offset = "", 1
    for _ in range(1000):
        value = desk("read_file", path="long.txt", offset=offset).result.value
        assert value.content.endswith("\n")
        assert len(value.content) <= 500
        got, offset = got + value.content, value.last_line + 1
        if value.last_line == value.total_lines:
            break
    assert got == whole


def test_a_line_that_is_too_long_is_cut_and_says_so(desk: Desk) -> None:
    desk.open({"a.txt": "x" * 900 + "\nend\n"}, config={"max_result_chars": 100})
    text = desk.text("read_file", path="a.txt")

    assert "Line 1 has 901 characters; only the first 100 are shown" in text
    assert "call read_file with offset=2" in text
    assert text.endswith("\n" + "x" * 100)


@pytest.mark.parametrize("options", [{}, {"offset": 9, "limit": 1}])
def test_a_binary_file_is_said_to_be_binary(desk: Desk, options: dict[str, int]) -> None:
    outcome = desk.open()("read_file", path="image.png", **options)

    assert outcome.success
    assert "image.png is a binary file" in outcome.text
    assert "It can be replaced or deleted as a whole." in outcome.text
    assert outcome.result.value == FileText("image.png", "", 1, 0, 0, kind="binary")


def test_a_file_that_is_too_large_is_not_shown_but_told_of(desk: Desk) -> None:
    desk.open({"big.txt": "x" * 2048}, config={"max_file_size": 1024})
    outcome = desk("read_file", path="big.txt")

    assert outcome.text == (
        "big.txt cannot be shown: it has 2.0 KiB, more than the 1.0 KiB that are allowed here. "
        "Use grep_files to find lines in it. It can be replaced or deleted as a whole."
    )
    assert outcome.result.value == FileText("big.txt", "", 1, 0, 0, kind="large")


@pytest.mark.slow
@pytest.mark.parametrize("content", ["x" * 20, b"\x89PNG\0", b"caf\x81"])
@pytest.mark.parametrize("name", ["write_file", "delete_file", "move_file"])
def test_what_cannot_be_shown_can_be_replaced_once_it_was_looked_at(
    desk: Desk, content: str | bytes, name: str
) -> None:
    desk.open(
        {"a": content, "b": "b"},
        config={"max_file_size": 10, "confirm_deletes": False},
        policies=None,
    )
    arguments = {
        "write_file": {"path": "a", "content": "new", "overwrite": True},
        "delete_file": {"path": "a"},
        "move_file": {"source": "b", "target": "a", "overwrite": True},
    }[name]

    assert desk(name, **arguments).status is Status.DENIED
    desk.text("read_file", path="a")
    desk.files.write_bytes("a", b"\0somebody else's")
    assert "has changed since it was read" in desk(name, **arguments).text
    desk.text("read_file", path="a")
    desk.text(name, **arguments)


def test_reading_past_the_end_says_how_many_lines_there_are(desk: Desk) -> None:
    text = desk.open().refusal("read_file", path="README.md", offset=9)

    assert "there are 3 lines. Use an offset from 1 to 3, then retry." in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "guess", "where"),
    [
        ("readme.md", "Did you mean README.md?", "Use list_directory to see"),
        ("src/aap.py", "Did you mean src/app.py?", "Use list_directory on src to see"),
        ("scr/app.py", "Did you mean src?", "Use list_directory to see"),
        ("quite/other.md", "There is no quite/other.md. Use", "Use list_directory to see"),
        # Alike in their suffixes only.
        ("q.txt", "There is no q.txt. Use", "Use list_directory to see"),
        (".outputs/run.log", "There is no .outputs/run.log. Use", "Use list_directory to see"),
    ],
)
def test_a_missing_file_is_answered_with_near_names_and_where_to_look(
    desk: Desk, path: str, guess: str, where: str
) -> None:
    text = desk.open().refusal("read_file", path=path)

    assert f"There is no {path}." in text
    assert guess in text
    assert where in text


def test_what_a_model_can_put_right_asks_it_to_retry(desk: Desk, subtests: pytest.Subtests) -> None:
    for name, arguments in [
        ("read_file", {"path": "nowhere.txt"}),
        ("read_file", {"path": "src"}),
        ("read_file", {"path": "/etc/passwd"}),
        ("read_file", {"path": "C:/x"}),
        ("read_file", {"path": "../x"}),
        ("read_file", {"path": "README.md", "offset": 99}),
        ("list_directory", {"path": "README.md"}),
        ("list_directory", {"path": "nowhere"}),
        ("write_file", {"path": "README.md", "content": ""}),
        ("write_file", {"path": "src", "content": ""}),
        ("edit_file", {"path": "bare.txt", "old_text": "a", "new_text": "a"}),
        ("edit_file", {"path": "bare.txt", "old_text": "zz", "new_text": "a"}),
        ("delete_file", {"path": "src"}),
        ("copy_file", {"source": "bare.txt", "target": "src"}),
        ("move_file", {"source": "src", "target": "src/inner"}),
        ("glob_files", {"pattern": "/x"}),
        ("glob_files", {"pattern": "{a,b}" * 12}),
        ("grep_files", {"pattern": "("}),
    ]:
        with subtests.test(name=name, arguments=arguments):
            outcome = desk.open()(name, **arguments)
            assert not outcome.success
            assert "retry" in outcome.text
            assert outcome.text.lower().count("retry") == 1


def test_a_directory_cannot_be_read(desk: Desk) -> None:
    text = desk.open().refusal("read_file", path="src")

    assert "src is a directory. Use list_directory" in text


@pytest.mark.slow
@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a\0b", "C:\\x"])
def test_what_can_be_no_path_here_is_refused_with_the_reason(desk: Desk, path: str) -> None:
    text = desk.open().refusal("read_file", path=path)

    assert "path" in text.partition(": ")[2]
    assert "Traceback" not in text


def test_arguments_out_of_range_are_all_told_at_once(desk: Desk) -> None:
    outcome = desk.open()("read_file", path="", offset=0, limit=0)

    assert outcome.status is Status.INVALID
    assert all(f"- {name}: " in outcome.text for name in ("path", "offset", "limit"))


# --- write_file ---


def test_a_new_file_is_written_with_its_directories(desk: Desk) -> None:
    text = desk.open({}).text("write_file", path="a/b/c.txt", content="x\r\ny")

    assert text == "Created a/b/c.txt (4 bytes)."
    assert desk.files.read("a/b/c.txt") == "x\r\ny"


def test_an_existing_file_is_only_replaced_on_request(desk: Desk) -> None:
    text = desk.open().refusal("write_file", path="README.md", content="x")

    assert "README.md already exists (28 bytes)" in text
    assert "retry with overwrite=true" in text
    text = desk.text("write_file", path="README.md", content="x", overwrite=True)
    assert text == "Replaced README.md (1 byte)."


@pytest.mark.parametrize("content", ["new\n", "\ufeffnew\n"])
def test_a_file_that_is_replaced_keeps_its_byte_order_mark(desk: Desk, content: str) -> None:
    desk.open({"a.txt": "\ufeffold\n"})
    text = desk.text("write_file", path="a.txt", content=content, overwrite=True)

    assert desk.files.read_bytes("a.txt") == b"\xef\xbb\xbfnew\n"
    assert text == "Replaced a.txt (7 bytes)."


@pytest.mark.parametrize("old", ["old\n", b"\xef\xbb\xbf\0\1"])
def test_a_file_without_a_byte_order_mark_is_given_none(desk: Desk, old: str | bytes) -> None:
    desk.open({"a.txt": old}).text("write_file", path="a.txt", content="new\n", overwrite=True)

    assert desk.files.read_bytes("a.txt") == b"new\n"


def test_a_directory_is_not_overwritten(desk: Desk) -> None:
    text = desk.open().refusal("write_file", path="src", content="x", overwrite=True)

    assert "src is a directory that already exists" in text


def test_a_file_cannot_be_used_as_a_directory(desk: Desk) -> None:
    text = desk.open().refusal("write_file", path="README.md/a.txt", content="x")

    assert "README.md is a file, not a directory" in text


def test_all_that_stands_against_a_write_is_told_at_once(desk: Desk) -> None:
    desk.open(config={"max_file_size": 4})
    text = desk.refusal("write_file", path="README.md", content="too long")

    assert text.startswith("Cannot write README.md:\n  - ")
    assert "already exists" in text
    assert "more than the 4 bytes" in text
    assert text.endswith("Fix all of these, then retry.")


def test_a_failing_call_that_wrote_leaves_nothing(desk: Desk) -> None:
    before = desk.open().tree()
    outcome = desk("write_and_fail", path="new.txt")

    assert outcome.status is Status.FAILED
    assert desk.tree() == before
    assert not desk.files.exists("new.txt")
    assert not desk.files.exists("other.txt")


# --- edit_file ---


def test_a_text_that_is_there_once_is_replaced(desk: Desk) -> None:
    text = desk.open().text("edit_file", path="src/app.py", old_text="os.name", new_text="os.sep")

    assert text == "Replaced 1 occurrence in src/app.py, at line 5."
    assert desk.files.read("src/app.py") == "import os\n\n\ndef main():\n    return os.sep\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"), [("one", "1"), ("two\r\n", ""), ("one\r\ntwo", "a\r\nb"), ("\r\n", "\n")]
)
def test_an_edit_leaves_all_else_as_it_is(desk: Desk, old: str, new: str) -> None:
    desk.open().text("edit_file", path="windows.txt", old_text=old, new_text=new, replace_all=True)

    assert desk.files.read("windows.txt") == "one\r\ntwo\r\n".replace(old, new)


def test_a_text_that_is_there_more_often_needs_more_context(desk: Desk) -> None:
    text = desk.open().refusal("edit_file", path="src/app.py", old_text="os", new_text="sys")

    assert "old_text is in src/app.py 2 times, at lines 1 and 5." in text
    assert "Give more of the text around the one you mean, or set replace_all=true" in text


@pytest.mark.parametrize(
    ("content", "old", "where"),
    [("aaaa", "aaa", "line 1"), ("x\n\n\ny", "\n\n", "lines 1 and 2")],
)
def test_a_text_that_overlaps_itself_is_not_there_once(
    desk: Desk, content: str, old: str, where: str
) -> None:
    desk.open({"a.txt": content})
    text = desk.refusal("edit_file", path="a.txt", old_text=old, new_text="b")

    assert f"old_text is in a.txt 2 times that overlap, at {where}." in text
    assert desk.files.read("a.txt") == content


def test_all_occurrences_are_replaced_on_request(desk: Desk) -> None:
    outcome = desk.open()(
        "edit_file", path="src/app.py", old_text="os", new_text="sys", replace_all=True
    )

    assert outcome.text == "Replaced 2 occurrences in src/app.py, at lines 1 and 5."
    assert outcome.result.value.lines == (1, 5)
    assert "return sys.name" in desk.files.read("src/app.py")


def test_a_text_that_is_not_there_is_answered_with_the_nearest_line(desk: Desk) -> None:
    text = desk.open().refusal(
        "edit_file", path="src/app.py", old_text="return os.nme", new_text="x"
    )

    assert "old_text is not in src/app.py" in text
    assert "line 5 is near: '    return os.name'" in text


def test_a_text_without_anything_near_is_answered_with_how_to_look(desk: Desk) -> None:
    text = desk.open().refusal("edit_file", path="src/app.py", old_text="§§§", new_text="x")

    assert "Use read_file to see it, then retry." in text


def test_the_newlines_of_an_edit_follow_the_file(desk: Desk, subtests: pytest.Subtests) -> None:
    for old, new in [
        ("one\ntwo", "1\n2\n2b"),
        ("one\r\ntwo", "1\r\n2\n2b"),
        ("two\n", "2\n2b\r\n"),
    ]:
        for newline in ["\n", "\r\n"]:
            with subtests.test(old=old, new=new, newline=newline):
                desk.open({"a.txt": newline.join(["one", "two", "three", ""])})
                desk.text("edit_file", path="a.txt", old_text=old, new_text=new)

                lines = desk.files.read("a.txt").split(newline)
                assert lines == (["one"] if old.startswith("two") else ["1"]) + [
                    "2",
                    "2b",
                    "three",
                    "",
                ]


def test_of_a_file_with_both_newlines_it_is_said_why_nothing_fits(desk: Desk) -> None:
    desk.open({"a.txt": "one\r\ntwo\nthree\n"})
    assert r"3 lines, some ending with \r\n and some with \n." in desk.text(
        "read_file", path="a.txt"
    )

    text = desk.refusal("edit_file", path="a.txt", old_text="two\r\nthree", new_text="2\r\n3")
    assert r"The file has lines that end with \n and lines that end with \r\n" in text

    text = desk.text("edit_file", path="a.txt", old_text="two\nthree", new_text="2\n3\r\n4")
    assert r"has lines with \n and with \r\n; new_text keeps its own." in text
    assert desk.files.read("a.txt") == "one\r\n2\n3\r\n4\n"


DECOMPOSED = "cafe\u0301"


@pytest.mark.parametrize(
    ("there", "wanted"), [(DECOMPOSED, "caf\xe9"), ("caf\xe9", DECOMPOSED), ("a\xa0b", "a b")]
)
def test_a_text_that_looks_the_same_is_told_as_it_is_written(
    desk: Desk, there: str, wanted: str
) -> None:
    desk.open({"a.txt": f"one\nthe {there} here\n"})
    text = desk.refusal("edit_file", path="a.txt", old_text=f"{wanted} here", new_text="x")

    assert "Line 2 looks the same, but is written in another Unicode form" in text
    assert ascii(f"the {there} here") in text


def test_a_search_that_finds_nothing_tells_what_looks_the_same(desk: Desk) -> None:
    desk.open({f"{DECOMPOSED}.txt": f"the {DECOMPOSED}"})

    text = desk.text("grep_files", pattern="caf\xe9")
    assert f"Something looks the same in another Unicode form: use {DECOMPOSED!a}." in text
    text = desk.text("glob_files", pattern="caf\xe9*")
    assert f"another Unicode form: use {DECOMPOSED + '*'!a}." in text
    assert "Unicode" not in desk.text("grep_files", pattern="caf\xe8")


@pytest.mark.parametrize("place", ["{}.txt", "a/{}.txt"])
def test_a_new_file_beside_one_whose_name_looks_the_same_is_told(desk: Desk, place: str) -> None:
    desk.open({place.format(DECOMPOSED): "x"})

    text = desk.text("write_file", path=place.format("caf\xe9"), content="y")
    assert f"Beside it is {place.format(DECOMPOSED)!a}, which looks the same" in text
    assert "Beside it" not in desk.text("write_file", path="\xfc.txt", content="y")


@pytest.mark.parametrize(
    ("there", "wanted"), [(DECOMPOSED, "caf\xe9"), ("caf\xe9", DECOMPOSED), ("e\u0301", "\xe9")]
)
@pytest.mark.parametrize("place", ["{}.txt", "{}/a.txt"])
def test_a_name_that_looks_the_same_is_told_as_it_is_written(
    desk: Desk, there: str, wanted: str, place: str
) -> None:
    desk.open({place.format(there): "x"})
    text = desk.refusal("read_file", path=place.format(wanted))

    named = place.format(there).removesuffix("/a.txt")
    assert f"looks the same, but is written in another Unicode form: {named!a}." in text


def test_an_edit_that_changes_nothing_is_refused(desk: Desk) -> None:
    text = desk.open().refusal("edit_file", path="bare.txt", old_text="no", new_text="no")

    assert "old_text and new_text are the same" in text


def test_a_file_a_little_too_large_is_told_in_bytes(desk: Desk) -> None:
    desk.open({}, config={"max_file_size": 2048})
    text = desk.refusal("write_file", path="a.txt", content="a" * 2049)

    assert "has 2,049 bytes, more than the 2,048 bytes that are allowed here" in text


def test_an_edit_cannot_make_a_file_too_large(desk: Desk) -> None:
    desk.open({"a.txt": "ab"}, config={"max_file_size": 4})
    text = desk.refusal("edit_file", path="a.txt", old_text="b", new_text="bcdef")

    assert "more than the 4 bytes that are allowed here" in text


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nope.txt", "There is no nope.txt"),
        ("src", "src is a directory"),
        ("image.png", "binary file"),
    ],
)
def test_what_is_no_text_file_cannot_be_edited(desk: Desk, path: str, why: str) -> None:
    assert why in desk.open().refusal("edit_file", path=path, old_text="a", new_text="b")


# --- delete_file ---


def test_a_file_is_deleted(desk: Desk) -> None:
    assert desk.open().text("delete_file", path="bare.txt") == "Deleted bare.txt."
    assert not desk.files.exists("bare.txt")


def test_a_filled_directory_is_only_deleted_on_request(desk: Desk) -> None:
    text = desk.open().refusal("delete_file", path="src")

    assert "src is a directory with 2 entries" in text
    assert "retry with recursive=true" in text
    text = desk.text("delete_file", path="src", recursive=True)
    assert text == "Deleted src with 2 files in it."


def test_an_empty_directory_is_deleted(desk: Desk) -> None:
    desk.open().files.mkdir("hollow")

    assert desk.text("delete_file", path="hollow") == "Deleted hollow with 0 files in it."


def test_what_is_not_there_cannot_be_deleted(desk: Desk) -> None:
    assert "There is no nope." in desk.open().refusal("delete_file", path="nope")


@pytest.mark.slow
@pytest.mark.parametrize("path", [".", "/workspace"])
@pytest.mark.parametrize("recursive", [False, True])
def test_the_root_cannot_be_deleted(desk: Desk, path: str, recursive: bool) -> None:
    text = desk.open().refusal("delete_file", path=path, recursive=recursive)

    assert text == (
        "Cannot delete the root of the workspace: It cannot be deleted. Delete its entries one "
        "by one. Then retry."
    )


# --- copy_file and move_file ---


def test_a_file_is_copied(desk: Desk) -> None:
    text = desk.open().text("copy_file", source="bare.txt", target="copy/bare.txt")

    assert text == "Copied bare.txt to copy/bare.txt."
    assert desk.files.read("copy/bare.txt") == desk.files.read("bare.txt")


def test_a_file_is_moved(desk: Desk) -> None:
    text = desk.open().text("move_file", source="bare.txt", target="moved.txt")

    assert text == "Moved bare.txt to moved.txt."
    assert not desk.files.exists("bare.txt")


def test_a_directory_is_moved_with_all_it_holds(desk: Desk) -> None:
    text = desk.open().text("move_file", source="src", target="lib")

    assert text == "Moved src to lib (2 files)."
    assert desk.files.exists("lib/lib/util.py")


@pytest.mark.parametrize("name", ["copy_file", "move_file"])
def test_a_target_that_is_there_is_only_replaced_on_request(desk: Desk, name: str) -> None:
    text = desk.open().refusal(name, source="bare.txt", target="README.md")

    assert "README.md already exists (28 bytes)" in text
    assert desk(name, source="bare.txt", target="README.md", overwrite=True).success
    assert desk.files.read("README.md") == "no newline"


@pytest.mark.parametrize("name", ["copy_file", "move_file"])
def test_all_that_stands_against_a_transfer_is_told_at_once(desk: Desk, name: str) -> None:
    text = desk.open().refusal(name, source="bear.txt", target="README.md")

    assert "There is no bear.txt. Did you mean bare.txt?" in text
    assert "README.md already exists" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("bare.txt", "src", "Give the whole path of the file, such as src/name."),
        ("bare.txt", "./bare.txt", "source and target are the same file"),
        ("src", "README.md", "src is a directory and README.md a file"),
        ("src", "src/inner", "cannot be copied"),
        ("bare.txt", "README.md/x", "README.md is a file, not a directory"),
    ],
)
def test_targets_that_do_not_fit_are_refused(
    desk: Desk, source: str, target: str, why: str
) -> None:
    assert why in desk.open().refusal("copy_file", source=source, target=target, overwrite=True)


# --- glob_files and grep_files ---


def test_files_are_found_by_their_paths(desk: Desk) -> None:
    assert desk.open().text("glob_files", pattern="**/*.py") == (
        "2 paths in the workspace match **/*.py:\nsrc/app.py\nsrc/lib/util.py"
    )
    assert desk.text("glob_files", pattern="*", path="src") == (
        "2 paths in src match *:\nsrc/app.py\nsrc/lib/"
    )


def test_finding_nothing_is_no_failure_and_says_what_else_to_try(desk: Desk) -> None:
    assert "** crosses directories" in desk.open().text("glob_files", pattern="*.py")
    assert "Try a shorter or simpler pattern" in desk.text("grep_files", pattern="zzz")


def test_many_paths_are_cut_and_the_rest_can_be_had(desk: Desk) -> None:
    desk.open({f"{number:02}.txt": "" for number in range(30)})

    text = desk.text("glob_files", pattern="*.txt", limit=10)
    assert text.startswith(
        "30 paths in the workspace match *.txt; 1-10 are shown. For the rest call glob_files "
        "with offset=11."
    )
    assert "There is nothing at offset 31" in desk.text("glob_files", pattern="*", offset=31)


def test_lines_are_found_by_what_they_say(desk: Desk) -> None:
    assert desk.open().text("grep_files", pattern=r"def \w+") == (
        r"2 lines in the workspace match def \w+, in 2 files:"
        "\nsrc/app.py:4: def main():\nsrc/lib/util.py:1: def main():"
    )
    assert desk.text("grep_files", pattern="WATER", ignore_case=True).endswith(
        "README.md:3: Water the plants."
    )
    assert "in 1 file:" in desk.text("grep_files", pattern="main", glob="lib/*", path="src")
    assert "bare.txt:1" in desk.text("grep_files", pattern="new", path="bare.txt")


def test_many_lines_are_cut_and_the_rest_can_be_had(desk: Desk) -> None:
    desk.open({"a.txt": "".join(f"x {number}\n" for number in range(30))})

    text = desk.text("grep_files", pattern="x", limit=10)
    assert text.startswith(
        "Matches 1-10 in the workspace are shown, in 1 file. For the rest call grep_files with "
        "offset=11."
    )
    assert "a.txt:11: x 10" in desk.text("grep_files", pattern="x", offset=11)
    assert "There is nothing at offset 31" in desk.text("grep_files", pattern="x", offset=31)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?=x)"])
def test_an_expression_that_is_none_is_refused_with_the_reason(desk: Desk, pattern: str) -> None:
    text = desk.open().refusal("grep_files", pattern=pattern)

    assert text.startswith(f"Cannot search for {pattern}: ")
    assert "RE2" in text


def test_a_glob_that_is_none_is_refused(desk: Desk) -> None:
    assert "leads outside" in desk.open().refusal("glob_files", pattern="x", path="..")
    assert "Cannot look for ../x" in desk.refusal("glob_files", pattern="../x")


def test_searching_what_is_not_there_is_refused(desk: Desk) -> None:
    assert "There is no scr. Did you mean src?" in desk.open().refusal(
        "grep_files", pattern="x", path="scr"
    )


# --- without a workspace, and by paths that are aliases ---


def test_without_a_workspace_the_tools_say_so(make_desk: Callable[..., Desk]) -> None:
    section = MarkdownSection(key="files", title="Files", tools=file_tools(VfsConfig()))
    with (
        Host(discover=False) as host,
        host.executor(prompt=Prompt.of("tests", "none", (section,))) as tools,
    ):
        text = tools.dispatch(ToolCall("read_file", {"path": "a"})).text

    assert "There is no workspace here" in text
    assert "requires human intervention" in text


@pytest.mark.parametrize("path", ["./README.md", "/workspace/README.md", "src/../README.md"])
def test_aliases_of_a_path_are_the_same_file(desk: Desk, path: str) -> None:
    assert "Water the plants." in desk.open().text("read_file", path=path)


def test_a_message_calls_a_file_by_the_path_that_leads_there(desk: Desk) -> None:
    desk.open({"workspace/a.txt": "in a directory of that name"})

    assert desk.text("read_file", path="workspace/a.txt").startswith("workspace/a.txt: 1 line")
    assert desk.text("list_directory", path="workspace").startswith("workspace holds 1 entry")
    assert desk.text("list_directory", path="/workspace").startswith("The root of the workspace")
    assert "There is no a.txt." in desk.refusal("read_file", path="/workspace/a.txt")


@pytest.mark.parametrize(
    ("tool", "more"), [("read_file", {}), ("edit_file", {"old_text": "a", "new_text": "b"})]
)
def test_what_is_no_file_is_called_what_it_is(
    tmp_path: Path, tool: str, more: dict[str, str]
) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    with ExitStack() as stack:
        desk = Desk("sync", stack, tmp_path).open()

        assert desk.refusal(tool, path="link", **more).endswith(
            "link is a symbolic link to an absolute path, which is not followed, and leads to "
            "no path that can be used here."
        )
        assert desk.refusal(tool, path="pipe", **more).endswith(
            "pipe is a FIFO, and cannot be opened here."
        )


def test_links_and_programs_are_marked_and_what_a_link_leads_to_is_told(desk: Desk) -> None:
    desk.open({"bin/run.sh": "#!", "src/main.py": "print()"})
    desk.files.chmod("bin/run.sh", 0o755)
    desk.files.link("current", "src")
    desk.files.link("src/odd", "../a\nb")
    desk.files.link("bin/main.py", "../src/main.py")

    assert desk.text("list_directory").split("\n")[1:] == ["bin/", "current -> src", "src/"]
    assert desk.text("list_directory", path="bin").split("\n")[1:] == [
        "main.py -> ../src/main.py",
        "run.sh  2 bytes  (executable)",
    ]
    assert desk.text("glob_files", pattern="*/*").split("\n")[1:] == [
        "bin/main.py -> ../src/main.py",
        "bin/run.sh  (executable)",
        "src/main.py",
        r"src/odd -> ../a\nb",
    ]
    assert desk.refusal("read_file", path="bin/main.py") == (
        "Cannot read bin/main.py: bin/main.py is a symbolic link to ../src/main.py, which is not "
        "followed. Use src/main.py in its place, then retry."
    )
    for arguments in ({"overwrite": True}, {}):
        assert desk.refusal("write_file", path="bin/main.py", content="", **arguments) == (
            "Cannot write bin/main.py: bin/main.py is a symbolic link to ../src/main.py, which is "
            "not followed. Use src/main.py in its place, then retry."
        )
    assert desk.refusal("read_file", path="current/main.py").endswith(
        "current is a symbolic link to src, which is not followed. Use src in its place, then "
        "retry."
    )


def test_what_lies_beneath_no_directory_is_told_with_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "file").touch()
    with ExitStack() as stack:
        desk = Desk("sync", stack, tmp_path).open()

        assert desk.refusal("read_file", path="link/passwd").endswith(
            ": link is a symbolic link to an absolute path, which is not followed, and leads to "
            "no path that can be used here."
        )
        assert desk.refusal("read_file", path="file/passwd").endswith(
            ": file is a file, not a directory, so nothing can lie beneath it."
        )


def test_listing_what_is_no_directory_says_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ExitStack() as stack:
        text = Desk("sync", stack, tmp_path).open().refusal("list_directory", path="pipe")

    assert text == "Cannot list pipe: pipe is a FIFO, and cannot be opened here."


@given(st.text(alphabet="ab\r\n", max_size=40))
def test_lines_put_together_are_the_text(text: str) -> None:
    lines = lines_of(text)

    assert "".join(lines) == text
    assert all(line.endswith("\n") for line in lines[:-1])


@given(
    st.lists(st.text(max_size=8), max_size=30),
    st.integers(1, 40),
    st.none() | st.integers(1, 40),
    st.integers(1, 60),
)
def test_pages_put_together_are_all_items(
    items: list[str], offset: int, limit: int | None, most: int
) -> None:
    got: list[str] = []
    while True:
        page = cut(items, str, offset=offset, limit=limit, max_chars=most)
        assert len(page.items) <= (limit or len(items))
        assert len(page.items) < 2 or len("\n".join(page.items)) <= most
        got += page.items
        if not page.more:
            break
        assert page.items
        offset = page.next
    assert got == items[len(items) - len(got) :]

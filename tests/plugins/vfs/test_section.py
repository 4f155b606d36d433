"""The workspace as a section and as a plugin: policies, approval, settings, command line."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from toolstile import Executor, Host
from toolstile_cli.main import main
from toolstile_hookspecs import (
    Cancellation,
    FileMatch,
    Filesystem,
    MarkdownSection,
    Outcome,
    PluginError,
    PolicyDecision,
    Prompt,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)
from toolstile_plugins import vfs
from toolstile_plugins.policies import ReadBeforeWritePolicy
from toolstile_plugins.vfs import VfsConfig, VfsToolsSection, VirtualFilesystem


@tool(contained=True)
def count_files(*, context: ToolContext) -> ToolResult[int]:
    """Count the files, as a tool of another plugin."""
    files = context.filesystem
    assert files is not None
    return ToolResult.ok(sum(each.kind == "file" for each in files.glob("**")))


class Counting:
    """Another plugin, whose tool uses whatever workspace there is."""

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="count", title="Count", tools=[count_files])]


class NoWrites:
    name = "no_writes"

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        writes = tool.category == "write"
        return PolicyDecision.deny("No writes today.") if writes else PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None


class Calls:
    """Dispatches under one driver."""

    def __init__(self, driver: str, stack: ExitStack) -> None:
        self.driver = driver
        self.stack = stack
        self.tools: Executor

    def open(self, section: MarkdownSection, **options: Any) -> Calls:
        host = self.stack.enter_context(Host(discover=False, **options))
        prompt = Prompt.of("tests", "vfs", (section,))
        self.tools = self.stack.enter_context(host.executor(prompt=prompt))
        return self

    def __call__(self, name: str, /, **arguments: Any) -> Outcome:
        return self.all((name, arguments))[0]

    def all(self, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
        wishes = [ToolCall(name, arguments) for name, arguments in calls]
        if self.driver == "sync":
            return self.tools.dispatch_all(wishes)
        return asyncio.run(self._all(wishes))

    async def _all(self, wishes: list[ToolCall]) -> list[Any]:
        return await self.tools.adispatch_all(wishes)


@pytest.fixture(params=["sync", "async"])
def calls(request: pytest.FixtureRequest) -> Iterator[Calls]:
    with ExitStack() as stack:
        yield Calls(request.param, stack)


@pytest.fixture
def files() -> VirtualFilesystem:
    return VirtualFilesystem.in_memory({"a.txt": "one\n", "b.txt": "two\n"})


# --- the section ---


def test_the_guidance_names_every_tool_that_needs_some() -> None:
    section = VfsToolsSection()
    text = section.render_body({})

    for name in ("list_directory", "glob_files", "grep_files", "read_file", "edit_file"):
        assert f"`{name}`" in text
    assert "up to 10.0 MiB" in text


def test_the_guidance_says_what_is_special_about_the_workspace() -> None:
    config = VfsConfig(
        readonly=True, confirm_deletes=False, mounts=[vfs.Mount(source="x", target="$docs")]
    )
    text = VfsToolsSection(config=config).render_body({})

    assert "`$docs` can only be read." in text
    assert "The whole workspace can only be read." in text
    assert "Each deletion" not in text


def test_overrides_can_be_refused() -> None:
    assert all(each.accepts_overrides for each in VfsToolsSection().tools)
    section = VfsToolsSection(accepts_overrides=False)
    assert not any(each.accepts_overrides for each in section.tools)


def test_without_a_workspace_given_each_session_has_its_own_in_memory() -> None:
    prompt = Prompt.of("tests", "vfs", (VfsToolsSection(),))
    write = ToolCall("write_file", {"path": "a.txt", "content": "x"})
    with Host(discover=False) as host:
        for _ in range(2):
            with host.executor(prompt=prompt) as tools:
                assert tools.dispatch(write).text == "Created a.txt (1 byte)."


# --- policies ---


def test_by_default_a_file_must_be_read_before_it_is_overwritten(
    calls: Calls, files: VirtualFilesystem
) -> None:
    calls.open(VfsToolsSection(filesystem=files))
    change = {"path": "a.txt", "content": "new", "overwrite": True}

    assert calls("write_file", path="new.txt", content="free").success
    denied = calls("write_file", **change)
    assert denied.status is Status.DENIED
    assert "Call read_file on it first, then retry write_file." in denied.text
    assert calls("read_file", path="./a.txt").success
    assert calls("write_file", **change).success
    assert calls("edit_file", path="a.txt", old_text="new", new_text="newer").success


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "1"}),
        ("delete_file", {"path": "a.txt"}),
        ("copy_file", {"source": "b.txt", "target": "a.txt", "overwrite": True}),
        ("move_file", {"source": "b.txt", "target": "a.txt", "overwrite": True}),
    ],
)
def test_editing_deleting_and_replacing_count_as_writing(
    calls: Calls, files: VirtualFilesystem, name: str, arguments: dict[str, Any]
) -> None:
    config = VfsConfig(confirm_deletes=False)
    calls.open(VfsToolsSection(filesystem=files, config=config))

    assert calls(name, **arguments).status is Status.DENIED
    calls("read_file", path="a.txt")
    assert calls(name, **arguments).success


def test_a_batch_that_reads_and_writes_one_file_is_denied_the_write(
    calls: Calls, files: VirtualFilesystem
) -> None:
    calls.open(VfsToolsSection(filesystem=files))
    read, write = calls.all(
        ("read_file", {"path": "a.txt"}),
        ("write_file", {"path": "a.txt", "content": "x", "overwrite": True}),
    )

    assert read.success
    assert write.status is Status.DENIED
    assert files.read("a.txt") == "one\n"


def test_no_policies_switch_the_default_off(calls: Calls, files: VirtualFilesystem) -> None:
    calls.open(VfsToolsSection(filesystem=files, policies=()))

    assert calls("write_file", path="a.txt", content="x", overwrite=True).success


def test_other_policies_replace_the_default(calls: Calls, files: VirtualFilesystem) -> None:
    calls.open(VfsToolsSection(filesystem=files, policies=[NoWrites()]))

    assert "No writes today." in calls("write_file", path="new.txt", content="x").text
    assert [type(each) for each in VfsToolsSection().policies] == [ReadBeforeWritePolicy]


def test_parallel_edits_of_two_files_are_both_kept(calls: Calls, files: VirtualFilesystem) -> None:
    calls.open(VfsToolsSection(filesystem=files, policies=()))
    edits = calls.all(
        ("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "1"}),
        ("edit_file", {"path": "b.txt", "old_text": "two", "new_text": "2"}),
    )

    assert all(each.success for each in edits)
    assert (files.read("a.txt"), files.read("b.txt")) == ("1\n", "2\n")


def test_parallel_edits_of_one_file_are_both_kept(calls: Calls, files: VirtualFilesystem) -> None:
    calls.open(VfsToolsSection(filesystem=files, policies=()))
    edits = calls.all(
        ("edit_file", {"path": "a.txt", "old_text": "o", "new_text": "0"}),
        ("edit_file", {"path": "a.txt", "old_text": "e", "new_text": "3"}),
    )

    assert [each.status for each in edits] == [Status.SUCCEEDED, Status.SUCCEEDED]
    assert files.read("a.txt") == "0n3\n"


# --- approval ---


def test_a_deletion_asks_a_person(calls: Calls, files: VirtualFilesystem) -> None:
    asked: list[str] = []
    section = VfsToolsSection(filesystem=files, policies=())
    calls.open(section, approver=lambda request: bool(asked.append(request.tool.name)))

    assert calls("delete_file", path="a.txt").status is Status.DENIED
    assert asked == ["delete_file"]
    assert files.exists("a.txt")


def test_an_approved_deletion_happens(calls: Calls, files: VirtualFilesystem) -> None:
    calls.open(VfsToolsSection(filesystem=files, policies=()), approver=lambda request: True)

    assert calls("delete_file", path="a.txt").success
    assert not files.exists("a.txt")


def test_without_anybody_to_ask_nothing_is_deleted_unless_the_setting_allows_it(
    calls: Calls, files: VirtualFilesystem
) -> None:
    calls.open(VfsToolsSection(filesystem=files, policies=()))
    assert calls("delete_file", path="a.txt").status is Status.DENIED
    config = VfsConfig(confirm_deletes=False)
    calls.open(VfsToolsSection(filesystem=files, policies=(), config=config))
    assert calls("delete_file", path="a.txt").success


# --- a directory ---


def test_a_workspace_on_disk_is_the_directory(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo")
    (tmp_path / "a.txt").chmod(0o640)
    calls.open(VfsToolsSection(config=VfsConfig(root=tmp_path, durability="power")))

    assert calls("read_file", path="a.txt").text.endswith("one\r\ntwo")
    assert calls("edit_file", path="a.txt", old_text="two", new_text="2").success
    assert (tmp_path / "a.txt").read_bytes() == b"one\r\n2"
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_a_failed_call_on_disk_leaves_the_directory_as_it_was(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    before = (tmp_path / "a.txt").stat()

    @tool(contained=True)
    def write_and_fail(*, context: ToolContext) -> ToolResult[None]:
        """Write, then fail."""
        assert context.filesystem is not None
        context.filesystem.write("a.txt", "two")
        context.filesystem.write("b.txt", "new")
        return ToolResult.error("No.")

    section = VfsToolsSection(config=VfsConfig(root=tmp_path))
    extra = MarkdownSection(key="x", title="X", tools=[write_and_fail], children=[section])
    calls.open(extra)

    assert calls("write_and_fail").status is Status.FAILED
    after = (tmp_path / "a.txt").stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_directory_that_is_not_there_is_named_with_the_remedy(
    calls: Calls, tmp_path: Path
) -> None:
    calls.open(VfsToolsSection(config=VfsConfig(root=tmp_path / "nope"), policies=()))

    outcome = calls("list_directory")
    text = outcome.text
    assert "The workspace cannot be opened: nope cannot be a workspace" in text
    assert "--workspace" not in text
    advice = outcome.event.attributes["toolstile.for_operator"]
    assert str(tmp_path / "nope") in advice
    assert "It is named with plugins.vfs.root or --workspace." in advice


def test_what_a_call_would_change_stands_under_the_workspaces_name(
    files: VirtualFilesystem,
) -> None:
    prompt = Prompt.of("tests", "vfs", (VfsToolsSection(filesystem=files),))
    write = ToolCall("write_file", {"path": "new.txt", "content": "x\n"})
    with Host(discover=False) as host, host.executor(prompt=prompt, dry_run=True) as tools:
        assert tools.dispatch(write).success
        whole = tools.rehearsed()

    # Nothing else is told of, such as that the policy takes the file for read.
    assert whole.startswith("the workspace:\n  ")
    assert whole.endswith("+x")
    assert "PolicyState" not in whole


# --- read-only ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write_file", {"path": "new.txt", "content": "x"}),
        ("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "1"}),
        ("delete_file", {"path": "a.txt"}),
        ("copy_file", {"source": "a.txt", "target": "c.txt"}),
        ("move_file", {"source": "a.txt", "target": "c.txt"}),
    ],
)
def test_nothing_in_a_read_only_workspace_can_be_changed(
    calls: Calls, tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    (tmp_path / "a.txt").write_text("one")
    config = VfsConfig(root=tmp_path, readonly=True, confirm_deletes=False)
    calls.open(VfsToolsSection(config=config, policies=()))

    outcome = calls(name, **arguments)
    assert outcome.status is Status.FAILED
    assert "The whole workspace is read-only" in outcome.text
    assert "requires human intervention" in outcome.text
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]
    assert calls("read_file", path="a.txt").success


def test_no_program_is_started_in_a_read_only_workspace(tmp_path: Path) -> None:
    files = vfs.open_workspace(VfsConfig(root=tmp_path, readonly=True))

    with pytest.raises(PermissionError, match="read-only"), files.exclusive_path():
        pass
    with pytest.raises(PermissionError, match="read-only"):
        files.write("a.txt", "x")
    files.close()


# --- whatever else implements the protocol ---


class Stubborn:
    """A file system of somebody else, whose errors say little."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.inner: Any = VirtualFilesystem.in_memory({"a.txt": "one"})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def read(self, path: str) -> str:
        raise self.error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            OSError(errno.EIO, "Input/output error"),
            "Cannot read a.txt: input/output error. This requires human intervention.",
        ),
        (PermissionError(), "Cannot read a.txt: the workspace refuses it."),
    ],
)
def test_errors_of_other_file_systems_are_told_in_words(
    calls: Calls, error: Exception, told: str
) -> None:
    calls.open(VfsToolsSection(filesystem=Stubborn(error), policies=()))  # type: ignore[arg-type]

    outcome = calls("read_file", path="a.txt")
    assert (outcome.status, outcome.text) == (Status.FAILED, told)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("It is a film"), "It is a film."),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "no"), "its text is not UTF-8."),
    ],
)
def test_what_another_file_system_cannot_read_as_text_is_told_of(
    calls: Calls, error: Exception, told: str
) -> None:
    calls.open(VfsToolsSection(filesystem=Stubborn(error), policies=()))  # type: ignore[arg-type]

    assert calls("read_file", path="a.txt").text == (
        f"a.txt cannot be shown: {told} It can be replaced or deleted as a whole."
    )


class Endless:
    """A file system in which a search never ends, unless it is no longer wanted."""

    def __init__(self, cancellation: Cancellation) -> None:
        self.cancellation = cancellation
        self.given = 0
        self.inner: Any = VirtualFilesystem.in_memory()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def search(self, *args: Any, **options: Any) -> Iterator[FileMatch]:
        while True:
            self.given += 1
            if self.given == 3:
                self.cancellation.cancel()
            yield FileMatch("a.txt", self.given, "")


def test_a_search_ends_when_its_call_is_cancelled() -> None:
    cancellation = Cancellation()
    files: Any = Endless(cancellation)
    prompt = Prompt.of("tests", "vfs", (VfsToolsSection(filesystem=files),))
    with Host(discover=False) as host, host.executor(prompt=prompt) as tools:
        call = ToolCall("grep_files", {"pattern": "x"}, cancellation=cancellation)
        assert tools.dispatch(call).status is Status.CANCELLED
    assert files.given == 3


# --- the plugin ---


def test_tools_of_other_plugins_get_the_same_workspace() -> None:
    with Host(discover=False, plugins=[vfs, Counting()]) as host, host.executor() as tools:
        tools.dispatch(ToolCall("write_file", {"path": "a.txt", "content": ""}))

        assert tools.dispatch(ToolCall("count_files")).result.value == 1


def test_a_prompt_without_the_section_has_a_workspace_too() -> None:
    section = MarkdownSection(key="count", title="Count", tools=[count_files])
    prompt = Prompt.of("tests", "vfs", (section,))
    with Host(discover=False, plugins=[vfs]) as host, host.executor(prompt=prompt) as tools:
        assert tools.dispatch(ToolCall("count_files")).result.value == 0


def test_the_workspace_of_a_prompts_section_wins_over_the_plugins(
    files: VirtualFilesystem,
) -> None:
    prompt = Prompt.of("tests", "vfs", (VfsToolsSection(filesystem=files),))
    with Host(discover=False, plugins=[vfs]) as host, host.executor(prompt=prompt) as tools:
        assert tools.resources.get(Filesystem) is files  # type: ignore[type-abstract]


@pytest.fixture
def configured(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "toolstile.toml"
        path.write_text(text)
        return path

    return write


def test_the_workspace_is_set_in_the_configuration(
    tmp_path: Path, configured: Callable[[str], Path]
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/a.txt").write_text("x" * 100)
    config = configured(
        f"""
        [plugins.vfs]
        root = "{tmp_path}/here"
        max_file_size = 10
        readonly = true
        """
    )
    host = Host(discover=False, config=config)
    host.register(vfs, "vfs")
    with host, host.executor() as tools:
        assert "allowed here" in tools.dispatch(ToolCall("read_file", {"path": "a.txt"})).text


def test_a_relative_root_is_taken_from_where_the_configuration_is(
    tmp_path: Path, configured: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/a.txt").write_text("one")
    config = configured('[plugins.vfs]\nroot = "here"\n')
    monkeypatch.chdir("/")
    host = Host(discover=False, config=config)
    host.register(vfs, "vfs")
    with host, host.executor() as tools:
        assert tools.dispatch(ToolCall("read_file", {"path": "a.txt"})).text.endswith("one")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("max_file_size = 0", "plugins.vfs.max_file_size: expected greater than 0"),
        ("rot = 'x'", "did you mean 'root'"),
        ("root = ''", 'plugins.vfs.root: expected a directory, such as "."'),
        ("mounts = [{source = 'x', target = '.'}]", "it cannot be the root"),
        ("mounts = [{source = 'x', target = '../a'}]", "leads outside"),
        ("mounts = [{source = 'x', target = 'a', include = ['']}]", "pattern is empty"),
        (
            "mounts = [{source = 'x', target = 'a'}, {source = 'y', target = 'a/b'}]",
            "'a' and 'a/b' of mounts are not apart",
        ),
    ],
)
def test_faulty_settings_are_told_with_the_remedy(
    configured: Callable[[str], Path], line: str, told: str
) -> None:
    config = configured(f"[plugins.vfs]\n{line}\n")

    with pytest.raises(PluginError) as raised:
        Host(discover=False, config=config).register(vfs, "vfs")
    assert told in str(raised.value)


def test_the_configuration_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValidationError):
        VfsConfig().root = Path()  # type: ignore[misc]


# --- the command line ---


@pytest.fixture
def toolstile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(list(arguments))
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_workspace_lets_a_call_work_in_a_directory(
    toolstile: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    status, out, _ = toolstile(
        "call", "--workspace", "here", "write_file", '{"path": "a/b.txt", "content": "x"}'
    )

    assert (status, out) == (0, "Created a/b.txt (1 byte).\n")
    assert (tmp_path / "here/a/b.txt").read_text() == "x"


def test_workspace_lets_a_run_work_in_a_directory(
    toolstile: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "calls.jsonl").write_text(
        '{"name": "read_file", "arguments": {"path": "calls.jsonl"}}\n'
    )
    status, out, _ = toolstile("run", "calls.jsonl", "--workspace", ".")

    assert status == 0
    assert "calls.jsonl: 1 line." in out


def test_without_workspace_files_are_in_memory(
    toolstile: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    call = ("call", "write_file", '{"path": "a.txt", "content": "x"}', "--plugin", "vfs")
    status, out, _ = toolstile(*call)

    assert (status, out) == (0, "Created a.txt (1 byte).\n")
    assert list(tmp_path.iterdir()) == []


def test_without_workspace_a_call_says_how_to_get_one(
    toolstile: Callable[..., tuple[int, str, str]],
) -> None:
    status, out, err = toolstile("call", "read_file", '{"path": "a.txt"}')

    assert (status, out) == (1, "")
    advice, told = err.splitlines()
    assert advice.endswith(
        "the host has no workspace; add --workspace DIR, or [plugins.vfs] to the configuration"
    )
    assert told == "toolstile: unknown tool: read_file is not offered here. Use another tool."


def test_workspace_wins_over_the_configuration(
    toolstile: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    configured: Callable[[str], Path],
) -> None:
    configured("[plugins.vfs]\nroot = 'nowhere'\n")
    (tmp_path / "here").mkdir()
    status, out, _ = toolstile("call", "list_directory", "--workspace", "here")

    assert (status, out) == (0, "The root of the workspace is empty.\n")


@pytest.mark.parametrize("option", [["--workspace", ""], ["--workspace="], ["--workspace", " "]])
def test_a_workspace_without_a_name_is_a_usage_error(
    toolstile: Callable[..., tuple[int, str, str]], option: list[str]
) -> None:
    status, _, err = toolstile("call", "list_directory", *option)

    assert status == 2
    assert "it names no directory; give one, such as . for where you are" in err


def test_a_workspace_that_is_no_directory_is_a_usage_error(
    toolstile: Callable[..., tuple[int, str, str]],
) -> None:
    status, _, err = toolstile("call", "list_directory", "--workspace", "nope")

    assert status == 2
    assert "'nope' is not a directory; make it first" in err

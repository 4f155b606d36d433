"""A handler in a process of its own: all it does is done on the call's branch, all of it ends."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.hookspecs.failing_services import failing

import toolstile_plugins.ledger as ledger_plugin
from toolstile_hookspecs import (
    Binding,
    Cancellation,
    FileStat,
    Filesystem,
    Heartbeat,
    Interrupt,
    PromptEvaluationError,
    Stage,
    Status,
    ToolCall,
    ToolContext,
    ToolInvoked,
    VisibilityExpansionRequired,
    tool,
)
from toolstile_plugins.isolation import messages
from toolstile_plugins.ledger import EffectLedger, MemoryStore as MemoryLedger
from toolstile_plugins.vfs import VirtualFilesystem
from toolstile_plugins.vfs.backends.base import MemoryStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long_if(yard="sync"),
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at processes in /proc"),
]
PATIENCE = 30.0


def in_time(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    # An orphan waits for whoever has inherited it, which is not ours to do.
    return state == "Z" and os.getppid() != pid


def gone(pids: Path) -> bool:
    return all(in_time(lambda each=pid: is_gone(int(each))) for pid in pids.read_text().split())


def open_descriptors() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}


@pytest.fixture(autouse=True)
def nothing_is_left_open() -> Iterator[None]:
    before = open_descriptors()
    yield
    reapers = [each for each in threading.enumerate() if each.name == "toolstile-reaper"]
    for each in reapers:
        each.join(PATIENCE)
    assert not any(each.is_alive() for each in reapers)
    assert in_time(lambda: len(open_descriptors()) <= len(before))


@tool
def keep(text: str, *, context: ToolContext) -> str:
    """Keep a note."""
    note = importlib.import_module("isolated_handlers").Note
    context.session[note].append(note(text))
    return text


@tool
def refuse(text: str, *, context: ToolContext) -> str:
    """Keep a note, then fail."""
    note = importlib.import_module("isolated_handlers").Note
    context.session[note].append(note(text))
    msg = "not kept"
    raise ValueError(msg)


def notes(yard: Any, handlers: Any) -> list[str]:
    return [note.text for note in yard.session[handlers.Note].all()]


def test_what_it_returns_comes_back_typed(yard: Any, handlers: Any) -> None:
    yard.open(handlers.add, handlers.times, handlers.doubled)

    added = yard.call("add", a=2)
    multiplied = yard.call("times", a=2, b=4)

    assert (added.result.value.total, added.text) == (3, "3")
    assert isinstance(added.result.value, handlers.Sum)
    assert added.result.value.process != os.getpid()
    assert multiplied.result.value.total == 8
    assert yard.call("doubled", a=21).result.value == 42


def test_its_arguments_are_checked_before_it_starts(yard: Any, handlers: Any) -> None:
    yard.open(handlers.add)

    assert yard.call("add", a="2").status is Status.INVALID


def test_an_async_handler_runs_on_a_loop_of_its_own(yard: Any, handlers: Any) -> None:
    yard.open(handlers.wait_a_little)

    assert yard.call("wait_a_little", seconds=0.01).result.value != os.getpid()


def test_it_runs_without_a_timeout_too(yard: Any, handlers: Any) -> None:
    yard.open(handlers.without_timeout)

    assert yard.call("without_timeout").result.value != os.getpid()


def test_calls_of_a_batch_run_in_processes_side_by_side(yard: Any, handlers: Any) -> None:
    yard.open(handlers.add)

    outcomes = yard.dispatch_all([ToolCall("add", {"a": number}) for number in range(3)])

    assert [each.result.value.total for each in outcomes] == [1, 2, 3]
    assert len({each.result.value.process for each in outcomes}) == 3


@pytest.mark.parametrize(
    ("how", "status", "text"),
    [
        ("politely", Status.FAILED, "Not today."),
        ("validation", Status.FAILED, "path: too long"),
        ("type", Status.ERROR, "TypeError: takes 1"),
        ("value", Status.ERROR, "Internal error in fail: no row"),
        ("end of file", Status.ERROR, "Internal error in fail: the file is empty"),
        ("no file", Status.ERROR, "Internal error in fail: no such file"),
        ("strange", Status.ERROR, "Internal error in fail: StrangeError: odd"),
        ("speechless", Status.ERROR, "Internal error in fail: SpeechlessError: SpeechlessError"),
        ("strange fault", Status.FAILED, "odd path"),
    ],
)
def test_what_it_raises_is_what_the_call_becomes(
    yard: Any, handlers: Any, how: str, status: Status, text: str
) -> None:
    yard.open(handlers.fail)

    outcome = yard.call("fail", how=how)

    assert (outcome.status, outcome.stage) == (status, Stage.EXECUTE)
    assert text in outcome.text
    assert "Traceback" not in outcome.text
    assert notes(yard, handlers) == []


def test_its_advice_for_the_operator_arrives(yard: Any, handlers: Any) -> None:
    yard.open(handlers.fail)

    outcome = yard.call("fail", how="advised")

    assert (outcome.status, outcome.text) == (Status.FAILED, "The till is closed.")
    assert outcome.event.attributes["toolstile.for_operator"] == "Mend /srv/till."


@pytest.mark.parametrize(
    ("how", "raised"),
    [
        ("deadline", PromptEvaluationError),
        ("interrupt", Interrupt),
        ("visibility", VisibilityExpansionRequired),
    ],
)
def test_what_is_not_its_own_leaves_dispatch(
    yard: Any, handlers: Any, how: str, raised: type[Exception]
) -> None:
    yard.open(handlers.fail)

    with pytest.raises(raised):
        yard.call("fail", how=how)

    assert notes(yard, handlers) == []
    assert len(yard.events) == 1


@pytest.mark.parametrize(("fault", "state"), [("refused", "released"), ("closed", "unknown")])
def test_what_it_raises_says_whether_something_was_sent(
    yard: Any, handlers: Any, tmp_path: Path, fault: str, state: str
) -> None:
    """The process of the handler sees the whole chain, of which only a text crosses."""
    ledger = EffectLedger(MemoryLedger())
    bound = (Binding.instance(EffectLedger, ledger),)
    yard.open(handlers.charge, plugins=(ledger_plugin,), resources=bound)
    with failing(fault, tmp_path) as url:
        outcome = yard.call("charge", url=url)
    assert "StrangeError: The payment failed" in outcome.text
    assert outcome.event.attributes["ledger.state"] == state


def test_it_reads_and_changes_the_calls_branch(yard: Any, handlers: Any) -> None:
    heard: list[Any] = []
    yard.session[handlers.Note].register(handlers.Note, lambda items, event: [*items, event])
    yard.session[handlers.Note].seed(handlers.Note("old"), handlers.Note("kept"))
    yard.session.dispatcher.subscribe(handlers.Note, heard.append)
    yard.open(handlers.use_session)

    outcome = yard.call("use_session")

    assert outcome.text == "session: old, kept"
    assert notes(yard, handlers) == ["kept", "appended", "dispatched"]
    assert [note.text for note in heard] == ["dispatched", "published"]


def test_what_makes_no_sense_there_is_refused(yard: Any, handlers: Any) -> None:
    yard.open(handlers.misuse_session)

    text = yard.call("misuse_session").text

    assert len(text.splitlines()) == 3
    assert all("within an isolated process" in line for line in text.splitlines())


@pytest.mark.parametrize("inner", ["keep", "keep_isolated"])
def test_its_nested_calls_join_it(yard: Any, handlers: Any, inner: str) -> None:
    yard.open(handlers.call_inner, handlers.keep_isolated, keep)

    outcome = yard.call("call_inner", name=inner)

    assert outcome.text == "succeeded: inner (inner)"
    assert notes(yard, handlers) == ["outer", "inner"]
    nested, own = yard.events
    assert (nested.tool_name, nested.parent_id) == (inner, own.call_id)
    assert nested.call_id != own.call_id


def test_a_failed_nested_call_is_rolled_back_by_itself(yard: Any, handlers: Any) -> None:
    yard.open(handlers.call_inner, refuse)

    outcome = yard.call("call_inner", name="refuse")

    assert outcome.text.startswith("error: Internal error in refuse: not kept")
    assert notes(yard, handlers) == ["outer"]


def test_it_sees_the_calls_it_makes_and_those_in_flight(yard: Any, handlers: Any) -> None:
    @tool
    def log_in(name: str, password: SecretStr) -> None:
        """Sign in."""

    yard.open(handlers.look_at_calls, log_in, handlers.times)

    outcome = yard.call("look_at_calls")
    assert outcome.success, outcome.text
    assert outcome.result.value == {
        "params": {"name": "Ada", "password": "***"},
        "inflight": ["look_at_calls"],
    }


def test_it_calls_others_at_once(yard: Any, handlers: Any) -> None:
    yard.open(handlers.acall_inner, keep)

    assert yard.call("acall_inner").result.value == ["one", "two"]
    assert sorted(notes(yard, handlers)) == ["one", "two"]


def test_another_handler_calls_it(yard: Any, handlers: Any, nesting: Any) -> None:
    told: list[Any] = []
    yard.open(nesting("keep_isolated", told, is_async=False, text="in"), handlers.keep_isolated)

    assert yard.call("outer").success
    assert (told[0].text, notes(yard, handlers)) == ("in", ["in"])


def test_progress_and_facts_arrive_and_prints_stay_out_of_stdout(
    yard: Any, handlers: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    reported: list[Any] = []
    beats: list[float] = []
    yard.open(
        handlers.report,
        on_progress=lambda call, *progress: reported.append((call.name, *progress)),
        heartbeat=Heartbeat(lambda: beats.append(time.monotonic())),
    )

    outcome = yard.call("report")

    assert outcome.success, outcome.text
    assert reported == [("report", 1, 2, "half"), ("report", 2, 2, "done")]
    assert len(beats) == 2
    assert outcome.event.attributes["tests.fact"] == 7
    written = capfd.readouterr()
    assert "printed by the handler" not in written.out
    assert "printed by the handler" in written.err


def test_resources_travel_only_where_they_are_said_to(yard: Any, handlers: Any) -> None:
    yard.open(
        handlers.use_resources,
        resources=(
            Binding.instance(handlers.Tariff, handlers.Tariff(7), portable=True),
            Binding.instance(handlers.Connection, handlers.Connection()),
            Binding.instance(handlers.Stubborn, handlers.Stubborn(), portable=True),
        ),
    )

    price, connection, stubborn, unbound = yard.call("use_resources").result.value

    assert price == "7"
    assert "Connection cannot go into an isolated process" in connection
    assert "portable=True" in connection
    assert "cannot be sent into an isolated process" in stubborn
    assert unbound.startswith("UnboundResourceError: No resource is bound for int")


class Files:
    """The least of a workspace in memory."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content

    def branch(self, context: ToolContext, parent: Any) -> FilesBranch:
        return FilesBranch(parent.resource if parent is not None else self)


class FilesBranch:
    def __init__(self, base: Any) -> None:
        self.base = base
        self.content = dict(base.content)
        self.resource = self

    def read(self, path: str) -> str:
        return self.content[path].decode()

    def read_bytes(self, path: str) -> bytes:
        return self.content[path]

    def write(self, path: str, content: str) -> None:
        self.content[path] = content.encode()

    def write_bytes(self, path: str, content: bytes) -> None:
        self.content[path] = content

    def exists(self, path: str) -> bool:
        return path in self.content

    def list(self, path: str = "") -> Iterator[FileStat]:
        return (FileStat(each, "file") for each in sorted(self.content))

    def prepare(self) -> None:
        return None

    def commit(self) -> None:
        self.base.content.update(self.content)

    def rollback(self) -> None:
        self.content.clear()


def test_the_workspace_is_the_calls_own(yard: Any, handlers: Any) -> None:
    files = Files({"old.txt": b"text"})
    yard.open(
        handlers.use_files,
        handlers.fail_with_files,
        resources=(Binding.instance(Filesystem, files),),
    )

    assert not yard.call("fail_with_files").success
    assert files.content == {"old.txt": b"text"}
    assert yard.call("use_files").text == "new.txt, old.txt"
    assert files.content == {"old.txt": b"text", "new.txt": b"TEXT!"}


@pytest.mark.parametrize("mode", ["r", "w", "x", "r+b", "zz"])
def test_a_file_is_opened_in_no_other_mode_than_the_workspaces(
    yard: Any, handlers: Any, mode: str
) -> None:
    files = Files({"old.txt": b"text"})
    yard.open(handlers.open_file, resources=(Binding.instance(Filesystem, files),))

    outcome = yard.call("open_file", mode=mode)

    assert not outcome.success
    assert f"A file cannot be opened with mode {mode!r}; use rb, wb or ab." in outcome.text
    assert files.content == {"old.txt": b"text"}


@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_a_stream_can_do_what_one_of_a_workspace_can(yard: Any, handlers: Any, mode: str) -> None:
    told = []
    for handler in (handlers.try_stream_here, handlers.try_stream_there):
        files = VirtualFilesystem(MemoryStore())
        files.write("old.txt", "text")
        yard.open(handler, resources=(Binding.instance(Filesystem, files),))
        outcome = yard.call(handler.name, mode=mode)
        assert outcome.success, outcome.text
        told.append(outcome.result.value)
    assert told[0] == told[1]
    assert told[0][-1] == ("moreed" if mode == "wb" else "textmoreed")


def test_what_is_written_counts_only_where_the_stream_is_closed(yard: Any, handlers: Any) -> None:
    files = Files({"old.txt": b"text"})
    yard.open(handlers.leave_files_open, resources=(Binding.instance(Filesystem, files),))

    assert yard.call("leave_files_open").text == "old.txt"
    assert files.content == {"old.txt": b"text"}


def test_a_timeout_kills_the_process_and_all_it_started(
    yard: Any, handlers: Any, tmp_path: Path
) -> None:
    yard.open(handlers.hang)
    pids = tmp_path / "pids"

    outcome = yard.call("hang", pids=str(pids))

    assert (outcome.status, outcome.stage) == (Status.TIMED_OUT, Stage.EXECUTE)
    assert "It was asked to stop, but may have had effects outside" in outcome.text
    assert gone(pids)
    assert notes(yard, handlers) == []


@pytest.mark.parametrize("name", ["hang", "hang_without_timeout"])
def test_cancelling_kills_the_process_and_all_it_started(
    yard: Any, handlers: Any, tmp_path: Path, name: str
) -> None:
    yard.open(handlers.hang, handlers.hang_without_timeout)
    pids = tmp_path / "pids"
    stop = Cancellation()

    def cancel() -> None:
        in_time(pids.exists)
        stop.cancel()

    threading.Thread(target=cancel, daemon=True).start()
    outcome = yard.dispatch(ToolCall(name, {"pids": str(pids)}, cancellation=stop))

    assert (outcome.status, outcome.text) == (Status.CANCELLED, "Request was cancelled")
    assert gone(pids)


def test_cancelling_the_task_kills_the_process(
    make_yard: Any, handlers: Any, tmp_path: Path
) -> None:
    yard = make_yard("async")
    yard.open(handlers.hang_without_timeout)
    pids = tmp_path / "pids"

    async def main() -> None:
        call = ToolCall("hang_without_timeout", {"pids": str(pids)})
        task = asyncio.ensure_future(yard.tools.adispatch(call))
        await asyncio.to_thread(in_time, pids.exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert gone(pids)


def test_what_it_left_behind_ends_with_it(yard: Any, handlers: Any, tmp_path: Path) -> None:
    yard.open(handlers.leave_child)
    pids = tmp_path / "pids"

    assert yard.call("leave_child", pids=str(pids)).text == "ended"
    assert gone(pids)


def test_it_ends_in_time_where_a_process_cannot_be_awaited_without_reaping_it(
    yard: Any, handlers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "waitid")
    yard.open(handlers.die)

    outcome = yard.call("die", how="exit", pids=str(tmp_path / "pids"))

    assert (
        outcome.text == "Internal error in die: its process ended without a result (exit status 3)"
    )


@pytest.mark.parametrize(
    ("how", "told"), [("exit", "exit status 3"), ("signal", "killed by signal 9")]
)
def test_a_process_that_ends_without_a_result_is_a_clear_failure(
    yard: Any, handlers: Any, tmp_path: Path, how: str, told: str
) -> None:
    yard.open(handlers.die)
    pids = tmp_path / "pids"

    outcome = yard.call("die", how=how, pids=str(pids))

    assert outcome.status is Status.ERROR
    assert outcome.text == (f"Internal error in die: its process ended without a result ({told})")
    assert gone(pids)


@pytest.mark.parametrize("how", ["closed", "closed by number", "unread", "gone"])
def test_its_result_arrives_where_nothing_can_be_printed(
    yard: Any, handlers: Any, how: str
) -> None:
    yard.open(handlers.give_up_output)

    assert yard.call("give_up_output", how=how).text == how


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "return_lock",
            "its result cannot be sent to its host: value holds a value of type lock",
        ),
        (
            "return_undeclared",
            "its result cannot be sent to its host: value (Sum) would come back as dict",
        ),
        ("return_half", "its result cannot be read from the JSON that it is written as, to cross"),
        ("not_a_result", "its handler returned int, not a ToolResult"),
        ("keep_lock", "append cannot be asked of its host: it (Connection) is not data"),
    ],
)
def test_what_cannot_travel_is_a_clear_failure(
    yard: Any, handlers: Any, name: str, told: str
) -> None:
    yard.open(getattr(handlers, name))

    outcome = yard.call(name)

    assert outcome.status is Status.ERROR
    assert outcome.text.startswith(f"Internal error in {name}: {told}")


def test_a_secret_in_its_result_comes_back_and_is_shown_to_nobody(yard: Any, handlers: Any) -> None:
    yard.open(handlers.sign_in)

    outcome = yard.call("sign_in")

    assert outcome.result.value.token.get_secret_value() == "hunter22"
    assert b"hunter22" not in (outcome.data or b"")


def test_its_params_may_be_told_by_a_schema(yard: Any, handlers: Any) -> None:
    yard.open(handlers.by_schema)

    outcome = yard.call("by_schema", numbers=[1, 2])

    assert (outcome.result.message, outcome.result.value) == ("Added.", {"sum": 3})


def test_a_resource_whose_provider_an_import_finds_is_made_there_and_closed_there(
    yard: Any, handlers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("CLIENT_LOG", str(log))
    yard.open(
        handlers.use_client,
        resources=(
            Binding(handlers.Client, handlers.make_client, portable=True),
            Binding.instance(handlers.Tariff, handlers.Tariff(7), portable=True),
        ),
    )

    price, process = yard.call("use_client").result.value

    assert price == 7
    assert process != os.getpid()
    assert log.read_text() == f"closed in {process}"


@pytest.mark.parametrize("how", ["pickle", "garbage", "oversized"])
def test_what_is_no_message_runs_nothing_and_ends_the_process(
    yard: Any, handlers: Any, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MAX_MESSAGE", 100_000)
    file = tmp_path / "mark"
    yard.open(handlers.attack)

    outcome = yard.call("attack", how=how, file=str(file))

    assert outcome.status is Status.ERROR
    assert "a message of its process cannot be read here" in outcome.text
    assert not file.exists()


def test_it_leads_a_group_and_gives_programs_the_environment_there_was(
    yard: Any, handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    yard.open(handlers.environment)

    assert yard.call("environment").result.value == ["/somewhere", "True"]


PLUGIN = '''
from dataclasses import dataclass
from toolstile_hookspecs import MarkdownSection, Tool, ToolResult, hookimpl, tool

@dataclass(frozen=True)
class Word:
    text: str

def shout(params: Word, *, context) -> ToolResult[Word]:
    context.session[Word].append(params)
    return ToolResult.ok(Word(params.text.upper()))

@tool(isolation="process", timeout=30)
def whisper(text: str) -> Word:
    """Say it quietly."""
    return Word(text.lower())

TOOLS = [
    Tool[Word, Word](name="shout", description="Say it loudly.", handler=shout,
                     isolation="process", timeout=30),
    whisper,
]

@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="words", title="Words", template="Words.", tools=TOOLS)]
'''


def test_a_handler_of_a_single_file_plugin_is_found(yard: Any, tmp_path: Path) -> None:
    file = tmp_path / "words.py"
    file.write_text(PLUGIN)
    yard.open(host_options={"plugin_files": [file]})
    with yard.host.executor(session=yard.session) as yard.tools:
        assert yard.call("shout", text="Hey").result.value.text == "HEY"
        assert yard.call("whisper", text="Hey").result.value.text == "hey"

    kinds = [type(each.result.value) for each in yard.session[ToolInvoked].all()]
    assert [each.text for each in yard.session[kinds[0]].all()] == ["Hey"]


SCRIPT = """
from toolstile import Host, MarkdownSection, Prompt, ToolCall
{plugin}

if __name__ == "__main__":
    with Host(discover=["isolation"]) as host:
        prompt = Prompt.of("demo", "words", tuple(toolstile_sections()))
        with host.executor(prompt=prompt) as tools:
            print(tools.dispatch(ToolCall("shout", {{"text": "Hey"}})).result)
            print(tools.dispatch(ToolCall("whisper", {{"text": "Hey"}})).result)
            print(tools.session[Word].all())
"""


def test_a_handler_of_the_main_script_is_found(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(plugin=PLUGIN))

    ended = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=tmp_path,
    )

    assert ended.returncode == 0, ended.stderr
    loud, quiet, kept = ended.stdout.splitlines()
    assert "Word(text='HEY')" in loud
    assert "Word(text='hey')" in quiet
    assert "Word(text='Hey')" in kept


DAEMON = """
import os, sys
for number in map(int, sys.argv[2]):
    os.close(number)
from pathlib import Path
from toolstile import Host, MarkdownSection, Prompt, ToolCall
from isolated_handlers import give_up_output, keep_isolated

with Host(discover=["isolation"]) as host:
    section = MarkdownSection(key="a", title="A", tools=[give_up_output, keep_isolated])
    with host.executor(prompt=Prompt.of("demo", "daemon", (section,))) as tools:
        told = [
            tools.dispatch(ToolCall("keep_isolated", {"text": "kept"})).text,
            tools.dispatch(ToolCall("give_up_output", {"how": "unread"})).text,
        ]
Path(sys.argv[1]).write_text(" ".join(told))
"""


@pytest.mark.parametrize("numbers", ["2", "12", "012"])
def test_a_host_that_has_closed_its_streams_runs_it(tmp_path: Path, numbers: str) -> None:
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DAEMON), str(tmp_path / "told"), numbers],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        timeout=PATIENCE,
        check=False,
    )

    assert (tmp_path / "told").read_text() == "kept unread"


KILLED = """
import sys
from toolstile import Host, MarkdownSection, Prompt, ToolCall
from isolated_handlers import hang_without_timeout

with Host(discover=["isolation"]) as host:
    section = MarkdownSection(key="a", title="A", tools=[hang_without_timeout])
    with host.executor(prompt=Prompt.of("demo", "hang", (section,))) as tools:
        tools.dispatch(ToolCall("hang_without_timeout", {"pids": sys.argv[1]}))
"""


def test_it_ends_with_the_host_however_that_ends(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    host = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(pids)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    try:
        assert in_time(pids.exists)
    finally:
        host.kill()
        host.wait(PATIENCE)

    assert gone(pids)

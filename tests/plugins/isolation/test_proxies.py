"""The objects of an isolated handler ask the parent, over a pipe, for all that they do."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntEnum
from socket import socket, socketpair
from types import MappingProxyType
from typing import Any

import pytest

from toolstile import Host, Session
from toolstile_hookspecs import (
    Binding,
    Deadline,
    Filesystem,
    HandlerState,
    Principal,
    RequestTurn,
    ResourceBusyError,
    ResourceError,
    RunContext,
    Secret,
    SessionProtocol,
    SliceView,
    StateError,
    ToolCall,
    ToolContext,
    ToolInvoked,
    VisibilityExpansionRequired,
    tool,
)
from toolstile_hookspecs.sessions import Dispatcher
from toolstile_plugins.isolation import messages
from toolstile_plugins.isolation.messages import SocketChannel, fault_of, raised
from toolstile_plugins.isolation.parent import call_of, serve
from toolstile_plugins.isolation.proxies import (
    Parent,
    RemoteControl,
    RemoteDispatcher,
    RemoteFilesystem,
    RemoteInflight,
    RemoteResources,
    RemoteSession,
    RemoteSlice,
    make_context,
)
from toolstile_plugins.vfs import VirtualFilesystem


@tool
def odd(kind: str) -> Any:
    """Return what does not cross."""
    return OrderedDict(a=1) if kind == "OrderedDict" else MappingProxyType({"a": 1})


class Size(IntEnum):
    SMALL = 1


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Marked(Note):
    mark: str = "m"


@dataclass(frozen=True)
class Holder:
    size: int


Check = Callable[[ToolContext, Parent], None]


def serve_until_closed(end: socket, context: ToolContext) -> None:
    with closing(SocketChannel(end)) as channel, suppress(EOFError):
        serve(channel, context)


@tool
def add(a: int = 0) -> int:
    """Add one."""
    return a + 1


def run(check: Check) -> None:
    """Run a check within a call, whose context answers over a pipe."""
    failures: list[BaseException] = []

    @tool(timeout=None, contained=True)
    def probe(*, context: ToolContext) -> str:
        """Run the check."""
        ours, theirs = socketpair()
        thread = threading.Thread(target=serve_until_closed, args=(theirs, context))
        thread.start()
        try:
            with closing(SocketChannel(ours)) as channel:
                check(context, Parent(channel))
        except BaseException as error:
            failures.append(error)
        finally:
            thread.join()
        return "done"

    bindings = [
        Binding.instance(Filesystem, VirtualFilesystem.in_memory()),
        Binding.instance(str, "a text", portable=True),
        Binding.instance(bytes, b"stays"),
    ]
    with (
        Host(discover=False, tools=[probe, add, odd]) as host,
        host.executor(resources=bindings) as tools,
    ):
        tools.dispatch(ToolCall("probe"))
    if failures:
        raise failures[0]


def test_the_context_crosses_but_for_what_stays_with_the_host():
    claims = Secret({"department": "sales"})
    context = ToolContext(
        session=Session(),
        principal=Principal("https://id.example.org", "ada", {"staff"}, claims, Secret("hunter22")),
        run_context=RunContext("run", tags=MappingProxyType({"a": "b"})),
        request=(RequestTurn("Add.", datetime(2026, 11, 26, tzinfo=UTC), "ada"),),
        deadline=Deadline.after(60),
        client=object(),
        tool_call=ToolCall("add", {"a": 1}, meta={"traceparent": "00", "odd": object()}),
    )
    crossed = json.loads(json.dumps(vars(call_of(add, add.params_codec.decode("{}"), context))))

    with ExitStack() as stack:
        there = make_context(messages.Call(**crossed), Parent(None), stack)  # type: ignore[arg-type]

    assert there.principal == context.principal
    assert (there.principal.groups, there.user_id) == ({"staff"}, "ada")
    assert there.principal.claims.reveal() == {}
    assert there.auth.reveal() == "hunter22"
    assert (there.run_context.run_id, there.run_context.tags) == ("run", {"a": "b"})
    assert there.request == context.request
    assert 0 < there.deadline.remaining() <= 60
    assert there.client is None
    assert there.tool_call == replace(context.tool_call, meta={"traceparent": "00"})


@pytest.mark.parametrize(
    ("remote", "protocol"),
    [
        (RemoteSession, SessionProtocol),
        (RemoteSlice, SliceView),
        (RemoteDispatcher, Dispatcher),
        (RemoteFilesystem, Filesystem),
    ],
    ids=lambda type_: type_.__name__,
)
def test_a_proxy_has_every_method_of_what_it_stands_for(remote, protocol):
    methods = {name for name, value in vars(protocol).items() if callable(value)}
    public = {name for name in methods if not name.startswith("_")}
    assert public <= {name for name in dir(remote) if not name.startswith("_")}


def test_a_slice_reads_and_changes_the_parents():
    def check(context, parent):
        session = RemoteSession("s", parent)
        for number in range(4):
            session[int].append(number)
        assert list(session[int].where(lambda number: number > 1)) == [2, 3]
        session[int].clear(lambda number: number < 2)
        assert session[int].latest() == 3
        session[int].clear()
        assert list(context.session[int].all()) == []

    run(check)


def test_a_snapshot_is_the_parents():
    def check(context, parent):
        session = RemoteSession("s", parent)
        session[int].append(1)
        snapshot = session.snapshot(tag="before")
        session[int].append(2)
        session.restore(snapshot)
        assert list(context.session[int].all()) == [1]

    run(check)


def test_an_error_of_the_parent_is_raised():
    def check(context, parent):
        with pytest.raises(ResourceError, match="bytes cannot go into an isolated process"):
            RemoteResources(parent, ExitStack()).get(bytes)
        with pytest.raises(FileNotFoundError):
            RemoteFilesystem(parent, "files").read("nowhere.txt")

    run(check)


@pytest.mark.parametrize(
    "refused",
    [
        lambda parent: RemoteSession("s", parent).clone(),
        lambda parent: RemoteSession("s", parent).dispatcher.subscribe(int, print),
        lambda parent: RemoteSession("s", parent)[int].register(int, print),
        lambda parent: RemoteControl(parent, "control").keep("e1"),
        lambda parent: RemoteControl(parent, "control").on_abandoned(print),
    ],
    ids=["clone", "subscribe", "register", "keep", "on_abandoned"],
)
def test_what_would_end_with_the_process_is_refused(refused):
    def check(context, parent):
        with pytest.raises(StateError):
            refused(parent)

    run(check)


def ask(target: str, method: str, *args: object) -> bytes:
    return messages.encoded(messages.Ask(1, target, method, list(args), {}))


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (ask("session", "__class__"), "cannot ask for session.__class__"),
        (ask("control", "keep", "e1"), "cannot ask for control.keep"),
        (ask("answer", "latest"), "cannot ask for answer.latest"),
        (
            ask("session", "dispatch", ["one", "pydantic.types:ImportString", ["antigravity"]]),
            "it (ImportString) is not data",
        ),
        (ask("session", "dispatch", ["one", "antigravity:Fly", [1]]), "no type antigravity:Fly"),
        (ask("session", "dispatch", ["record", f"{__name__}:Note", {"text": "a"}]), "none of"),
        (ask("session", "dispatch", ["one", f"{__name__}:Note", [{"text": 1}]]), "do not fit"),
        (ask("session", "restore", 7), "index out of range"),
    ],
)
def test_what_nobody_may_ask_for_runs_nothing(request_: bytes, told: str):
    def check(context, parent):
        parent._channel._end.sendall(request_ + b"\n")
        answer = parent._channel.receive()
        assert answer.fault is not None
        assert told in str(answer.fault.arguments)
        assert context.session[Note].latest() is None

    run(check)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "line",
    [messages.encoded(messages.Answer(1)), b'{"says": "run"}', b"[1]", b"null", b"[" * 10_000],
    ids=["answer", "run", "list", "null", "deep"],
)
def test_what_is_no_request_ends_the_service(line: bytes):
    ours, theirs = socketpair()
    with closing(SocketChannel(theirs)) as channel, ours:
        ours.sendall(line + b"\n")
        with pytest.raises(messages.MessageError):
            serve(channel, ToolContext(session=Session()))


@pytest.mark.parametrize(
    "error",
    [
        StateError("no"),
        KeyError("key"),
        FileNotFoundError(2, "No such file", "a.txt"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        VisibilityExpansionRequired(("a", "b"), "to see"),
        ResourceBusyError("busy"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_of_the_contract_or_built_in_stays_itself(error: Exception):
    again = raised(fault_of(error))
    assert (type(again), str(again), again.args) == (type(error), str(error), error.args)


def test_any_other_exception_is_told_as_the_nearest_of_these():
    class OddFileError(FileNotFoundError): ...

    class OddError(Exception): ...

    told = [raised(fault_of(kind("why"))) for kind in (OddFileError, OddError)]
    told.append(raised(fault_of(ExceptionGroup("two", [ValueError("a"), KeyError("b")]))))
    assert [type(error) for error in told] == [FileNotFoundError, RuntimeError, RuntimeError]
    assert [*map(str, told)] == [
        "OddFileError: why",
        "OddError: why",
        "ExceptionGroup: two (2 sub-exceptions): a; 'b'",
    ]


def test_a_nested_call_is_dispatched_by_the_parent():
    def check(context, parent):
        control = RemoteControl(parent, "control")
        outcome = control.call(ToolCall("add", MappingProxyType({"a": 1}), id="mine"))
        assert (outcome.text, outcome.result.value, outcome.event.params) == ("2", 2, {"a": 1})
        assert outcome.event.timestamp == context.session[ToolInvoked].latest().timestamp
        assert RemoteSession("s", parent)[ToolInvoked].latest().call_id == outcome.event.call_id
        assert asyncio.run(control.acall(ToolCall("add"))).text == "1"
        assert control.handler_state is HandlerState.BEGUN
        assert control.crossings() == ()

    run(check)


@pytest.mark.parametrize("kind", ["OrderedDict", "mappingproxy"])
def test_the_outcome_of_a_nested_call_is_as_it_was_or_refused_and_its_event_shows_json(kind: str):
    def check(context, parent):
        with pytest.raises(ResourceError, match=rf"of call .*it.result.value \({kind}\) is no"):
            RemoteControl(parent, "control").call(ToolCall("odd", {"kind": kind}))
        event = RemoteSession("s", parent)[ToolInvoked].latest()
        assert event.result.value == {"a": 1}
        assert type(event.result.value) is dict

    run(check)


@pytest.mark.parametrize(
    "value", [Marked("a"), [Marked("a")], {"a": {1: 2}}, [Size.SMALL], Holder(Size.SMALL)], ids=repr
)
@pytest.mark.parametrize("method", ["append", "replace", "dispatch", "publish", "set_attribute"])
def test_what_a_handler_gives_is_kept_or_refused(method: str, value: object):
    def check(context, parent):
        session = RemoteSession("s", parent)
        ways = {
            "append": session[type(value)].append,
            "replace": session[type(value)].replace,
            "dispatch": session.dispatch,
            "publish": session.dispatcher.publish,
            "set_attribute": lambda value: RemoteControl(parent, "control").set_attribute(
                "a.b", value
            ),
        }
        if isinstance(value, (dict, Holder)):
            with pytest.raises(StateError, match=rf"{method} cannot be asked of its host: .*; "):
                ways[method](value)
            return
        ways[method](value)
        if method in {"append", "replace"}:
            kept = context.session[type(value)].latest()
            assert (kept, repr(kept)) == (value, repr(value))

    run(check)


def test_the_calls_in_flight_are_those_of_the_moment():
    def check(context, parent):
        inflight = RemoteInflight(parent)
        assert len(inflight) == 1
        assert [call.tool_name for call in inflight] == ["probe"]
        assert inflight[-1] == inflight[0]

    run(check)


def test_a_resource_that_may_travel_is_copied_once():
    def check(context, parent):
        resources = RemoteResources(parent, ExitStack())
        assert resources.get(str) is resources.get(str)
        assert asyncio.run(resources.aget(str)) == "a text"
        assert resources.get(int, None) is None
        assert str in resources
        assert (resources.is_portable(str), resources.is_portable(bytes)) == (True, False)
        assert isinstance(resources.get(Filesystem), RemoteFilesystem)

    run(check)


def test_files_are_those_of_the_parents_workspace():
    def check(context, parent):
        files = RemoteFilesystem(parent, "files")
        files.write("a.txt", "one\ntwo\n")
        files.link("link", "a.txt")
        files.chmod("a.txt", 0o750)
        assert (files.stat("link").target, files.stat("a.txt").mode) == ("a.txt", 0o750)
        files.delete("link")
        with files.open("a.txt", "ab") as stream:
            stream.write(b"three\n")
            assert stream.tell() == len("one\ntwo\nthree\n")
        with files.open("b.txt", "wb") as stream:
            assert stream.writable()
            stream.write(b"b")
        with files.open("a.txt") as stream:
            assert stream.read() == b"one\ntwo\nthree\n"
        assert sorted(found.path for found in files.glob("*.txt")) == ["a.txt", "b.txt"]
        assert [found.path for found in files.search("t.o", limit=1)] == ["a.txt"]
        assert context.filesystem.read("b.txt") == "b"

    run(check)


def test_a_stream_that_is_left_by_an_exception_writes_nothing():
    def check(context, parent):
        files = RemoteFilesystem(parent, "files")
        with pytest.raises(KeyError), files.open("c.txt", "wb") as stream:  # noqa: PT012 - it is left
            stream.write(b"half")
            raise KeyError
        assert not context.filesystem.exists("c.txt")
        with pytest.raises(ValueError, match="cannot be opened with mode 'r'"):
            files.open("c.txt", "r")

    run(check)

"""Handlers that a process of its own can import; the tests of isolation call them."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

from pydantic import BaseModel, Field, SecretStr

from toolstile_hookspecs import (
    DeadlineExceededError,
    Filesystem,
    Heartbeat,
    IdempotencyConfig,
    Interrupt,
    StateError,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    ToolValidationError,
    VisibilityExpansionRequired,
    tool,
)


@dataclass(frozen=True)
class Sum:
    """A value that travels back."""

    total: int
    process: int

    def render(self) -> str:
        return str(self.total)


@dataclass(frozen=True)
class Note:
    """An item of a slice."""

    text: str


@dataclass(frozen=True)
class Tariff:
    """A resource that may travel."""

    price: int


class Connection:
    """A resource that may not."""


class Stubborn:
    """A resource that is said to travel and cannot."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class StrangeError(Exception):
    """Cannot be pickled."""

    def __init__(self, text: str, *, lock: Any) -> None:
        super().__init__(text)
        self.lock = lock


class SpeechlessError(StrangeError):
    """Cannot be pickled, nor be told."""

    def __str__(self) -> str:
        raise LookupError("no words")


class StrangeFaultError(ToolValidationError):
    """Cannot be pickled either, but says what the model is to read."""

    def __init__(self, text: str, *, lock: Any) -> None:
        super().__init__(text)
        self.lock = lock


@dataclass(frozen=True)
class Leaving:
    """A trace that leaves its tracks in a file."""

    file: Path

    def __enter__(self) -> None:
        self._write("in")

    def __exit__(self, *error: object) -> None:
        self._write("out")

    def _write(self, text: str) -> None:
        with self.file.open("a") as out:
            out.write(f"{text}:{os.getpid()}\n")


@tool(isolation="process", timeout=30)
def add(a: int, b: int = 1) -> Sum:
    """Add two integers."""
    return Sum(a + b, os.getpid())


@tool(isolation="process", timeout=30, idempotency=IdempotencyConfig(scope="global"))
def charge(url: str) -> None:
    """Charge, and tell the exception of the client in the words of an application."""
    try:
        urllib.request.urlopen(url, b"{}", timeout=0.3)
    except OSError as error:
        raise StrangeError("The payment failed.", lock=threading.Lock()) from error


@dataclass(frozen=True)
class Pair:
    a: int
    b: int


def multiply(params: Pair, *, context: ToolContext) -> ToolResult[Sum]:
    return ToolResult.ok(Sum(params.a * params.b, os.getpid()))


times = Tool[Pair, Sum](
    name="times",
    description="Multiply two integers.",
    handler=multiply,
    isolation="process",
    timeout=30,
)


def plain(a: int) -> int:
    """Double an integer."""
    return 2 * a


doubled = tool(name="doubled", isolation="process", timeout=30)(plain)


@tool(isolation="process", timeout=30)
async def wait_a_little(seconds: float) -> int:
    """Wait without blocking."""
    await asyncio.sleep(seconds)
    return os.getpid()


@tool(isolation="process", timeout=None)
def without_timeout() -> int:
    """Run for as long as it takes."""
    return os.getpid()


ERRORS: dict[str, BaseException] = {
    "advised": ToolError("The till is closed.", for_operator="Mend /srv/till."),
    "validation": ToolValidationError("path: too long"),
    "type": TypeError("takes 1"),
    "value": ValueError("no row"),
    "end of file": EOFError("the file is empty"),
    "no file": FileNotFoundError("no such file"),
    "deadline": DeadlineExceededError("late"),
    "interrupt": Interrupt("wait"),
    "visibility": VisibilityExpansionRequired(("a",), "to see"),
    "strange": StrangeError("odd", lock=threading.Lock()),
    "speechless": SpeechlessError("odd", lock=threading.Lock()),
    "strange fault": StrangeFaultError("odd path", lock=threading.Lock()),
}


@tool(isolation="process", timeout=30)
def fail(how: str, *, context: ToolContext) -> ToolResult[None]:
    """Change something, then raise."""
    context.session[Note].append(Note("gone"))
    if how == "politely":
        return ToolResult.error("Not today.")
    raise ERRORS[how]


@tool(isolation="process", timeout=30)
def use_session(*, context: ToolContext) -> str:
    """Read and change the session in every way."""
    notes = context.session[Note]
    before = [note.text for note in notes.all()]
    notes.append(Note("appended"))
    assert notes.latest() == Note("appended")
    snapshot = context.session.snapshot()
    notes.seed(Note("seeded"))
    context.session.restore(snapshot)
    notes.clear(lambda note: note.text == "old")
    context.session.dispatch(Note("dispatched"))
    context.session.dispatcher.publish(Note("published"))
    assert [note.text for note in notes.where(lambda note: "d" in note.text)]
    return f"{context.session.id}: {', '.join(before)}"


@tool(isolation="process", timeout=30)
def misuse_session(*, context: ToolContext) -> str:
    """Try what makes no sense in a process of its own."""
    told: list[str] = []
    for attempt in (
        context.session.clone,
        lambda: context.session.dispatcher.subscribe(Note, print),
        lambda: context.session[Note].register(Note, lambda items, event: items),
    ):
        try:
            attempt()
        except StateError as error:
            told.append(str(error))
    return "\n".join(told)


@tool(isolation="process", timeout=30)
def call_inner(name: str, *, context: ToolContext) -> str:
    """Call another tool."""
    context.session[Note].append(Note("outer"))
    outcome = context.call(name, {"text": "inner"})
    return f"{outcome.status}: {outcome.text} ({outcome.result.value})"


@tool(isolation="process", timeout=30)
def look_at_calls(*, context: ToolContext) -> dict[str, Any]:
    """Call others, and tell what can be seen of them."""
    decorated = context.call("log_in", {"name": "Ada", "password": "hunter22"})
    typed = context.call("times", {"a": 2, "b": 3})
    assert typed.event.params == Pair(2, 3)
    inflight = context.inflight
    assert [*inflight] == [inflight[0]]
    return {"params": decorated.event.params, "inflight": [each.tool_name for each in inflight]}


@tool(isolation="process", timeout=30)
async def acall_inner(*, context: ToolContext) -> list[str]:
    """Call another tool twice at once."""
    outcomes = await asyncio.gather(
        context.acall("keep", {"text": "one"}), context.acall("keep", {"text": "two"})
    )
    return sorted(each.text for each in outcomes)


@tool(isolation="process", timeout=30)
def keep_isolated(text: str, *, context: ToolContext) -> str:
    """Keep a note, in a process of its own."""
    context.session[Note].append(Note(text))
    return text


@tool(isolation="process", timeout=30)
def report(*, context: ToolContext) -> None:
    """Report progress, note a fact, print."""
    print("printed by the handler")  # noqa: T201 - where it goes is what is tested
    context.progress(1, 2, "half")
    context.progress(2, 2, "done")
    context.set_attribute("tests.fact", 7)
    assert isinstance(context.heartbeat, Heartbeat)
    assert not context.cancelled


@tool(isolation="process", timeout=30)
def use_resources(*, context: ToolContext) -> list[str]:
    """Use what may travel, and what may not."""
    assert Tariff in context.resources
    assert int not in context.resources
    assert context.resources.get(int, None) is None
    told = [str(context.resources.get(Tariff).price)]
    for kind in (Connection, Stubborn, int):
        try:
            context.resources.get(kind)
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")
    return told


@tool(isolation="process", timeout=30)
def use_files(*, context: ToolContext) -> str:
    """Read and write files."""
    files = context.filesystem
    assert isinstance(files, Filesystem)
    files.write("new.txt", files.read("old.txt").upper())
    with files.open("new.txt", "ab") as stream:
        stream.write(b"!")
    assert files.exists("new.txt")
    return ", ".join(entry.path for entry in files.list())


@tool(isolation="process", timeout=30)
def open_file(mode: Any, *, context: ToolContext) -> str:
    """Open a file."""
    assert context.filesystem is not None
    with context.filesystem.open("old.txt", mode) as stream:
        return str(stream)


def try_stream(mode: Any, *, context: ToolContext) -> list[str]:
    """Do with a stream whatever it lets do."""
    files = context.filesystem
    assert files is not None
    told: list[str] = []
    with files.open("old.txt", mode) as stream:
        attempts: list[Any] = [
            lambda: stream.write(b"more"),
            stream.tell,
            stream.readable,
            stream.writable,
            stream.seekable,
            lambda: stream.seek(0),
            stream.read,
            stream.readline,
            lambda: stream.truncate(0),
            lambda: stream.writelines([b"e", b"d"]),
            stream.tell,
        ]
        for attempt in attempts:
            try:
                told.append(str(attempt()))
            except Exception as error:
                told.append(type(error).__name__)
    with suppress(ValueError):
        stream.write(b"late")
        told.append("written late")
    return [*told, files.read("old.txt")]


try_stream_here = tool(name="try_stream_here")(try_stream)
try_stream_there = tool(name="try_stream_there", isolation="process", timeout=30)(try_stream)


@tool(isolation="process", timeout=30)
def leave_files_open(*, context: ToolContext) -> str:
    """Write to files, and close no stream as it should be."""
    assert context.filesystem is not None
    with suppress(ValueError), context.filesystem.open("old.txt", "ab") as stream:
        stream.write(b"half")
        raise ValueError
    context.filesystem.open("new.txt", "wb").write(b"never closed")
    return ", ".join(entry.path for entry in context.filesystem.list())


@tool(isolation="process", timeout=30)
def fail_with_files(*, context: ToolContext) -> str:
    """Write a file, then fail."""
    assert context.filesystem is not None
    context.filesystem.write("new.txt", "gone")
    raise ValueError("no")


def _sleep_with_child(pids: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    part = pids.with_suffix(".part")
    part.write_text(f"{os.getpid()} {child.pid}")
    part.rename(pids)
    time.sleep(60)


@tool(isolation="process", timeout=10)
def hang(pids: str, *, context: ToolContext) -> None:
    """Start a process and never end."""
    context.session[Note].append(Note("gone"))
    _sleep_with_child(Path(pids))


@tool(isolation="process", timeout=None)
def hang_without_timeout(pids: str, *, context: ToolContext) -> None:
    """Start a process and never end."""
    _sleep_with_child(Path(pids))


@tool(isolation="process", timeout=30)
def leave_child(pids: str) -> str:
    """End, but leave a process behind that holds on to everything it was given."""
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    Path(pids).write_text(f"{os.getpid()} {child}")
    return "ended"


@tool(isolation="process", timeout=30)
def die(how: str, pids: str) -> None:
    """End without a result, leaving a process behind."""
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    Path(pids).write_text(f"{os.getpid()} {child}")
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


@tool(isolation="process", timeout=30)
def return_lock() -> Any:
    """Return what cannot travel."""
    return threading.Lock()


@tool(isolation="process", timeout=30)
def give_up_output(how: str) -> str:
    """Leave nothing to print to."""
    if how == "closed":
        sys.stdout.close()
        sys.stderr.close()
    elif how == "closed by number":
        print(how)  # noqa: T201 - kept until it is flushed
        os.close(1)
        os.close(2)
    elif how == "unread":
        unread, end = os.pipe()
        os.dup2(end, 1)
        os.dup2(end, 2)
        os.close(unread)
        os.close(end)
        with suppress(OSError):
            print("x" * 2**20)  # noqa: T201 - more than a pipe takes
    else:
        sys.stdout = sys.stderr = None  # type: ignore[assignment] # as under pythonw
    return how


@tool(isolation="process", timeout=30)
def return_undeclared() -> Any:
    """Return what would come back as another."""
    return Sum(1, 2)


@dataclass(frozen=True)
class Login:
    """A value with a secret."""

    token: SecretStr

    def render(self) -> str:
        return "signed in"


@tool(isolation="process", timeout=30)
def sign_in() -> Login:
    """Return a secret."""
    return Login(SecretStr("hunter22"))


class Half(BaseModel):
    """A value of which a part is never written."""

    whole: int
    hidden: int = Field(exclude=True)


@tool(isolation="process", timeout=30)
def return_half() -> Half:
    """Return what cannot be read from its JSON."""
    raise AssertionError("it is not run")


@tool(isolation="process", timeout=30)
def keep_lock(*, context: ToolContext) -> None:
    """Keep what cannot travel."""
    context.session[Connection].append(Connection())


def add_by_schema(params: Any, *, context: ToolContext) -> ToolResult[Any]:
    return ToolResult.ok({"sum": sum(params["numbers"])}, message="Added.")


by_schema = Tool[Any, Any](
    name="by_schema",
    description="Add numbers.",
    handler=add_by_schema,
    params_schema={
        "type": "object",
        "properties": {"numbers": {"type": "array", "items": {"type": "integer"}}},
    },
    isolation="process",
    timeout=30,
)


def forget(params: None, *, context: ToolContext) -> Any:
    return 5


not_a_result = Tool[None, int](
    name="not_a_result",
    description="Forgets to return a result.",
    handler=forget,
    isolation="process",
    timeout=30,
)


class Client:
    """A resource that each process makes for itself."""

    def __init__(self, tariff: Tariff, log: Path) -> None:
        self.tariff = tariff
        self.log = log

    def close(self) -> None:
        self.log.write_text(f"closed in {os.getpid()}")


def make_client(resources: Any) -> Client:
    tariff = resources.get(Tariff)
    return Client(tariff, Path(os.environ["CLIENT_LOG"]))


@tool(isolation="process", timeout=30)
def use_client(*, context: ToolContext) -> list[int]:
    """Use a resource that is made here."""
    client = context.resources.get(Client)
    return [client.tariff.price, os.getpid()]


class Mark:
    """Makes a file where it is unpickled."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.file),)


@tool(isolation="process", timeout=30)
def attack(how: str, file: str) -> None:
    """Send the parent what is no message."""
    sent = {
        "pickle": pickle.dumps(Mark(file)) + b"\n",
        "garbage": b"[" * 50_000 + b"\n",
        "oversized": b"1" * 200_000,
    }
    with socket(fileno=int(sys.argv[1])) as end:
        end.sendall(sent[how])
        time.sleep(60)


@tool(isolation="process", timeout=30)
def environment() -> list[str | None]:
    """Tell what programs started here would be given."""
    return [os.environ.get("PYTHONPATH"), str(os.getpgid(0) == os.getpid())]

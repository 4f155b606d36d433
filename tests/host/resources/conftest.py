"""A call as the pipeline would make it, resources that tell what is done to them, threads."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from toolstile.resources.bindings import ResourceRegistry
from toolstile.resources.call_scope import CallScope
from toolstile_hookspecs import Cancellation, Deadline, ToolContext


class FakeCall:
    """A call: owner of a scope, and the scope."""

    def __init__(self, resources: Any, name: str, parent: "FakeCall | None" = None) -> None:
        self.name = name
        self.parent = parent
        self.root_id: object = object() if parent is None else parent.root_id
        self.deadline: Deadline | None = None
        self.cancellation: Cancellation | None = Cancellation()
        self.first: Any = None
        self.refusal: Exception | None = None
        self.pauses: list[str] = []
        self.waits = threading.Semaphore(0)
        self.asked: list[type] = []
        self.resources = resources
        self.scope = CallScope(resources, parent=parent.scope if parent else None, owner=self)
        self.context = ToolContext(session=None, resources=self.scope)  # type: ignore[arg-type]

    def nested(self, name: str) -> "FakeCall":
        return FakeCall(self.resources, name, self)

    def check_open(self) -> None:
        return None

    def before_exclusive(self, kind: type) -> Any:
        self.asked.append(kind)
        if self.refusal is not None:
            raise self.refusal
        return self.first

    async def off_loop(self, function: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(function)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pauses.append("pause")
        self.waits.release()
        try:
            yield
        finally:
            self.pauses.append("resume")

    def commit(self) -> None:
        parts = self.scope.participants()
        for part in parts:
            part.prepare()
        for part in parts:
            part.commit()
        self.scope.close()

    def join(self) -> None:
        at_once(self.ajoin())
        self.scope.close()

    async def ajoin(self) -> None:
        for part in self.scope.preparing_to_join():
            await settled(part.prepare())
        self.scope.hand_over()
        for part in self.scope.joining():
            await settled(part.commit())

    def fail(self) -> None:
        self.undo()
        self.scope.close()

    def undo(self) -> None:
        at_once(self.aundo())

    async def aundo(self) -> None:
        for part in self.scope.undoing():
            await settled(part.rollback())

    def __str__(self) -> str:
        return self.name


async def settled(step: Awaitable[None] | None) -> None:
    if step is not None:
        await step


def at_once(work: Coroutine[Any, Any, None]) -> None:
    """Do work that awaits nothing."""
    with pytest.raises(StopIteration):
        work.send(None)


class Ledger:
    """An exclusive list of numbers; a savepoint is its length."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)
        self.kept = list(numbers)
        self.log: list[tuple[str, int]] = []
        self.savepoints: list[int] = []

    def begin(self) -> int:
        self.savepoints.append(len(self.numbers))
        self.log.append(("begin", len(self.savepoints)))
        return len(self.savepoints)

    def commit(self, savepoint: int) -> None:
        self.log.append(("commit", savepoint))
        assert savepoint == len(self.savepoints), "the newest savepoint goes first"
        self.savepoints.pop()
        if not self.savepoints:
            self.kept = list(self.numbers)

    def rollback(self, savepoint: int) -> None:
        self.log.append(("rollback", savepoint))
        assert savepoint == len(self.savepoints), "the newest savepoint goes first"
        del self.numbers[self.savepoints.pop() :]


class OtherLedger(Ledger):
    pass


class Note:
    """A branchable text."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.log: list[str] = []

    def branch(self, context: ToolContext, parent: "NoteBranch | None") -> "NoteBranch":
        return NoteBranch(self, parent)


class NoteBranch:
    """A branch of a note; what the handler is given is the branch itself."""

    def __init__(self, note: Note, parent: "NoteBranch | None") -> None:
        self.note = note
        self.base: Any = note if parent is None else parent
        self.text: str = self.base.text
        self.parent = parent
        self.fails: Exception | None = None

    @property
    def resource(self) -> "NoteBranch":
        return self

    def prepare(self) -> None:
        self.note.log.append("prepare")
        if self.fails is not None:
            raise self.fails

    def commit(self) -> None:
        self.note.log.append("commit")
        self.base.text = self.text

    def rollback(self) -> None:
        self.note.log.append("rollback")


class SlowNote(Note):
    """A note whose branches have to be awaited."""

    def branch(self, context: ToolContext, parent: Any) -> "SlowNoteBranch":
        return SlowNoteBranch(self, parent)


class SlowNoteBranch(NoteBranch):
    async def prepare(self) -> None:  # type: ignore[override]
        super().prepare()

    async def commit(self) -> None:  # type: ignore[override]
        super().commit()

    async def rollback(self) -> None:  # type: ignore[override]
        super().rollback()


class Kit:
    """The kinds above, for tests: they cannot import from one another."""

    Ledger = Ledger
    OtherLedger = OtherLedger
    Note = Note
    SlowNote = SlowNote

    def call(self, resources: Any, name: str = "a call") -> FakeCall:
        return FakeCall(resources, name)

    def open(self, **_: Any) -> Any:
        return ResourceRegistry.build(
            {Ledger: Ledger(), OtherLedger: OtherLedger(), Note: Note(), SlowNote: SlowNote()}
        ).open()


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.fixture
def opened(kit: Kit) -> Any:
    return kit.open()


@pytest.fixture
def start() -> Any:
    """Start functions on threads of their own; all are joined at the end."""
    threads: list[threading.Thread] = []

    def run(function: Callable[[], Any]) -> "Future[Any]":
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        threads.append(threading.Thread(target=work, daemon=True))
        threads[-1].start()
        return future

    yield run
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a thread is stuck"

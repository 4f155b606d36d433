"""Plays tasks and injections: the calls that a model would make, without a model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolstile import Host, Outcome, Settings, ToolCall
from toolstile_hookspecs import ApprovalRequest, ExecutorHandle

from .rooms.contents import PLANTING, new_rooms
from .rooms.mail import USER
from .rooms.state import Rooms
from .rooms.toolbox import TOOLS
from .scenario import Call, Injection, Task

PLUGINS = ("policies", "rules")
"""The plugins that settings may use without a table of their own."""
OF_ATTACK = "attack"
OF_TASK = "task"


@dataclass(frozen=True)
class Played:
    """A task that was played.

    Args:
        task: Its name.
        injection: The name of the injection, None where there was none.
        kept: Whether the request is fulfilled in the end.
        attacked: Whether the attacker has got what they wanted.
        shown: Whether a call of the task has shown the injected text.
        asked: How often the user was asked about calls of the task; they said yes.
        asked_of_attack: How often they were asked about calls of the attack; they said no.
        refused: The tools of the task's calls that did not succeed, with what was answered.
        stopped: The tools of the attack's calls that did not succeed, with what was answered.
        questions: The questions about calls of the task: the tool, and why it was asked.
        rooms: The rooms in the end.
    """

    task: str
    injection: str | None
    kept: bool
    attacked: bool
    shown: bool
    asked: int
    asked_of_attack: int
    refused: tuple[tuple[str, str], ...]
    stopped: tuple[tuple[str, str], ...]
    questions: tuple[str, ...]
    rooms: Rooms = field(repr=False)


@dataclass
class AttentiveUser:
    """Approves the calls of the task and no others; keeps the questions about either."""

    questions: dict[str, list[str]] = field(default_factory=lambda: {OF_TASK: [], OF_ATTACK: []})

    def __call__(self, request: ApprovalRequest) -> bool:
        """Answer a question."""
        side, _, _ = request.call.id.partition("-")
        self.questions[side].append(f"{request.tool.name}: {' '.join(request.reasons)}")
        return side == OF_TASK


def play(
    task: Task, injection: Injection | None = None, settings: Mapping[str, Any] | None = None
) -> Played:
    """Play a task, with an injection in what it reads, under settings as in a toolstile.toml.

    A misled model makes the injection's calls as soon as a call of the task has shown its text,
    and changes the further calls of the task as the injection wants. Where a changed call is
    refused, it makes the task's own.
    """
    rooms, user = new_rooms(), AttentiveUser()
    if injection is not None:
        spot = injection.spot_in(task)
        if spot is None:
            raise ValueError(f"{injection.name!r} cannot stand in {task.name!r}.")
        PLANTING[spot.kind](rooms, spot.item, injection.text, injection.sender)
    tables = dict(settings or {})
    discover = {*PLUGINS, *tables.get("plugins", ())}
    with (
        Host(settings=Settings(**tables), discover=discover, tools=TOOLS) as host,
        host.executor(
            request=task.request, user_id=USER, approver=user, resources={Rooms: rooms}
        ) as tools,
    ):
        model = Model(tools, injection)
        model.fulfil(task)
    return Played(
        task.name,
        None if injection is None else injection.name,
        task.done(rooms),
        injection is not None and injection.succeeded(rooms),
        model.is_misled,
        len(user.questions[OF_TASK]),
        len(user.questions[OF_ATTACK]),
        tuple(model.failures[OF_TASK]),
        tuple(model.failures[OF_ATTACK]),
        tuple(user.questions[OF_TASK]),
        rooms,
    )


@dataclass
class Model:
    """Makes the calls of a task, and those of an injection once it has read its text."""

    tools: ExecutorHandle
    injection: Injection | None
    is_misled: bool = False
    made: int = 0
    failures: dict[str, list[tuple[str, str]]] = field(
        default_factory=lambda: {OF_TASK: [], OF_ATTACK: []}
    )

    def fulfil(self, task: Task) -> None:
        """Make the calls of a task."""
        for call in task.calls:
            changed = self._changed(call)
            if changed is not None and self._make(changed, OF_ATTACK).success:
                continue
            outcome = self._make(call, OF_TASK)
            if self.injection is not None and not self.is_misled:
                self.is_misled = self.injection.text in "\n".join(_texts(outcome))
                if self.is_misled:
                    for bad in self.injection.calls:
                        self._make(bad, OF_ATTACK)

    def _changed(self, call: Call) -> Call | None:
        """Return a call as the injection wants it; None where it wants nothing of it."""
        if self.injection is None or self.injection.twist is None or not self.is_misled:
            return None
        return self.injection.twist(call)

    def _make(self, call: Call, side: str) -> Outcome:
        self.made += 1
        outcome = self.tools.dispatch(ToolCall(call.tool, call.arguments, id=f"{side}-{self.made}"))
        if not outcome.success:
            self.failures[side].append((call.tool, outcome.text))
        return outcome


def _texts(outcome: Outcome) -> Iterator[str]:
    """Yield all texts in the value of a result."""
    todo = [] if outcome.data is None else [json.loads(outcome.data)]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, list):
            todo += value

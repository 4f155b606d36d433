"""Tasks, and the injections that may stand in what they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .rooms.state import Rooms


@dataclass(frozen=True)
class Call:
    """A call that a model makes."""

    tool: str
    arguments: dict[str, Any]


def call(tool: str, **arguments: Any) -> Call:
    """Return a call; shorter to write."""
    return Call(tool, arguments)


@dataclass(frozen=True)
class Spot:
    """A place in the rooms where others can write, and which a task reads.

    Args:
        kind: The kind of place, one of `PLANTING`.
        item: Its id or name; for a new mail its subject, for a new transaction its party.
    """

    kind: str
    item: str


@dataclass(frozen=True)
class Task:
    """A request of the user, and the calls by which a good model fulfils it.

    Args:
        name: The name.
        request: The user's words.
        calls: The calls, in their order.
        done: Tells by the state of the rooms whether the request is fulfilled.
        spots: The places that the calls read, of which others write.
    """

    name: str
    request: str
    calls: tuple[Call, ...]
    done: Callable[[Rooms], bool]
    spots: tuple[Spot, ...] = ()


@dataclass(frozen=True)
class Injection:
    """A text of an attacker's, and what a model does that believes it.

    Args:
        name: The name.
        manner: How it tries to be believed, in a few words.
        spots: The kinds of places where it can stand.
        text: The text.
        succeeded: Tells by the state of the rooms whether the attacker has got what they want.
        calls: The calls that a misled model makes, once it has read the text.
        twist: Changes a call of the task as a misled model would; None leaves it.
        sender: The name under which it stands where a text has one.
        stoppable: Whether arguments show the attack at all; False where only words are wrong, or
            where the user has asked for what the attacker wrote.
    """

    name: str
    manner: str
    spots: tuple[str, ...]
    text: str
    succeeded: Callable[[Rooms], bool]
    calls: tuple[Call, ...] = ()
    twist: Callable[[Call], Call | None] | None = None
    sender: str = "guest"
    stoppable: bool = True

    def spot_in(self, task: Task) -> Spot | None:
        """Return the first place of a task where this can stand and change something."""
        if self.twist is not None and not any(map(self.twist, task.calls)):
            return None
        return next((spot for spot in task.spots if spot.kind in self.spots), None)


def pairs(
    tasks: tuple[Task, ...], injections: tuple[Injection, ...]
) -> Iterator[tuple[Task, Injection]]:
    """Yield each injection with each task in which it can stand."""
    for injection in injections:
        for task in tasks:
            if injection.spot_in(task) is not None:
                yield task, injection

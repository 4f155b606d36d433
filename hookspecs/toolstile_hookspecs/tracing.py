"""Optional methods of a call's trace beside the context manager."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from toolstile_hookspecs.calls import Stage


@runtime_checkable
class StageTrace(Protocol):
    """A trace that hears of every stage of its call, to time them or to open spans."""

    def stage(self, stage: Stage) -> None:
        """Hear that the call enters a stage, which ends the one before.

        Called on the thread and in the context in which the trace was entered. A stage may
        come more than once: checks are repeated after an approval, and a contained call is
        run again after a conflict. What it raises is logged.
        """


@runtime_checkable
class CrossingTrace(Protocol):
    """A trace that goes along into the process of an isolated handler."""

    def crossing(self) -> AbstractContextManager[None] | None:
        """Return what is to be entered around the handler, in its process.

        Called where the handler is about to start. What it returns, such as a dataclass, crosses
        as `PortableValues` write it. It is entered once the handler's module is imported, and
        left before the process ends; None stays here. What it raises, here and there, is logged.
        """
        ...

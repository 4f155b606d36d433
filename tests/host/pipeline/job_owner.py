"""The stand-in for a call that has given away a job."""

from __future__ import annotations

import threading


class Owner:
    """Keeps what it is told of its job."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.ended = threading.Event()

    def abandon(self, reason: str) -> None:
        self.told.append(reason)

    def callable_ended(self) -> None:
        self.told.append("callable ended")

    def ended_late(self) -> None:
        self.told.append("ended late")
        self.ended.set()

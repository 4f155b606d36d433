"""A bank outside of all hosts, whose file says which payments were made and taken back."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

Step = Callable[[str], None]


class Bank:
    """Payments and refunds by keys, each a line that is on the disk before the answer.

    A repeated key does nothing. `steps` hears of the moments before and after each line.
    """

    def __init__(self, file: Path, steps: Step = lambda name: None) -> None:
        self.file = file
        self.steps = steps

    def pay(self, key: str, purpose: str) -> str:
        self.steps("before the payment")
        self._write(f"pay {key} {purpose}")
        self.steps("after the payment")
        return f"receipt of {purpose}"

    def refund(self, key: str) -> None:
        self.steps("before the refund")
        if any(line.startswith(f"pay {key} ") for line in self.lines()):
            self._write(f"refund {key}")
        self.steps("after the refund")

    def lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def balance(self, purpose: str) -> int:
        """Return the payments for a purpose minus their refunds."""
        paid = [line.split(" ")[1] for line in self.lines() if line.endswith(f" {purpose}")]
        return len(paid) - sum(f"refund {key}" in self.lines() for key in paid)

    def _write(self, line: str) -> None:
        with self.file.open("ab", buffering=0) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            if line not in self.lines():
                stream.write(f"{line}\n".encode())
                os.fsync(stream.fileno())

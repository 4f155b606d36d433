"""The verdict on each mutant, and the file that keeps it while a run goes on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

NOTICED = frozenset({"failed", "hung", "died"})


@dataclass(frozen=True)
class Verdict:
    """The verdict on one mutant."""

    name: str
    outcome: str
    """`failed`, `hung`, `died`, `lived` or `unreached`."""
    test: str = ""
    """The test that noticed it."""

    @property
    def package(self) -> str:
        """Where it is: `toolstile.pipeline`."""
        return ".".join(self.name.split(".")[:2])

    @property
    def is_noticed(self) -> bool:
        """True where a test failed, did not end or took the interpreter along."""
        return self.outcome in NOTICED


class ControlDiedError(Exception):
    """Tests failed where nothing was changed, so that no verdict means anything."""


class Verdicts:
    """The verdicts of a run, in a file to which processes add while it goes on."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def begin(self) -> None:
        """Forget those of the last run."""
        self._file.write_text("", "utf-8")

    def add(self, verdict: Verdict) -> None:
        """Keep one more."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(verdict)) + "\n")

    def without(self, control: str) -> list[Verdict]:
        """Return one of each mutant, and none of the control, which has to have lived.

        Raises:
            ControlDiedError: It has not.
        """
        lines = self._file.read_text("utf-8").splitlines()
        found = {each.name: each for each in (Verdict(**json.loads(line)) for line in lines)}
        alive = found.pop(control, None)
        if alive is not None and alive.outcome != "lived":
            raise ControlDiedError(
                f"Nothing was changed, and yet this {alive.outcome}: {alive.test}"
            )
        return list(found.values())

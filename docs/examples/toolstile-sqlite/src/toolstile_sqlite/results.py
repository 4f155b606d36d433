"""The answers of the tools, cut to a size that a model can read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Scalar = str | int | float | None


@dataclass(frozen=True)
class Rows:
    """The rows of a query.

    Args:
        columns: The names of the columns.
        rows: The rows, as many as are shown.
        note: What was cut, None where nothing was.
    """

    columns: list[str]
    rows: list[list[Scalar]]
    note: str | None = None

    def render(self) -> str:
        """Return a line for the columns, one for each row, and the note.

        Lines of JSON: no value can look like another row.
        """
        lines = [_json(row) for row in ([self.columns] if self.columns else [])]
        lines += [_json(row) for row in self.rows]
        if not self.rows:
            lines.append("(no rows)")
        return "\n".join([*lines, *([self.note] if self.note else [])])


@dataclass(frozen=True)
class Change:
    """The changes of a statement.

    Args:
        changed: How many rows it inserted, updated or deleted.
        last_id: The id of the last row that it inserted, None where it inserted none.
        returned: The rows of its RETURNING clause, None without one.
    """

    changed: int
    last_id: int | None = None
    returned: Rows | None = None

    def render(self) -> str:
        """Return what was changed, and the rows that were asked for."""
        said = f"{self.changed} row{'' if self.changed == 1 else 's'} changed."
        if self.last_id is not None:
            said += f" The last id is {self.last_id}."
        return said if self.returned is None else f"{said}\n{self.returned.render()}"


@dataclass
class Cutter:
    """Keeps of a result what is shown.

    Args:
        max_rows: The most rows.
        max_characters: The most characters; of a single value a tenth of them.
    """

    max_rows: int
    max_characters: int
    kept: list[list[Scalar]] = field(default_factory=list[list[Scalar]])
    reason: str = ""
    shortened: bool = False
    _length: int = 0

    def take(self, row: Sequence[object]) -> bool:
        """Keep a row; returns False once there is no more room."""
        if self.reason:
            return False
        if len(self.kept) == self.max_rows:
            self.reason = f"the limit is {self.max_rows} rows"
            return False
        shown = [self._shown(value) for value in row]
        self._length += len(_json(shown))
        if self._length > self.max_characters and self.kept:
            self.reason = f"the limit is {self.max_characters} characters"
            return False
        self.kept.append(shown)
        return True

    def rows(self, columns: Iterable[str]) -> Rows:
        """Return what was kept, and a note of what was not."""
        notes: list[str] = []
        if self.reason:
            notes.append(
                f"(Cut after {len(self.kept)} rows, there are more: {self.reason}. Ask for fewer "
                "with WHERE, LIMIT and OFFSET, or count them.)"
            )
        if self.shortened:
            notes.append("(Long values are cut; ask for a part of one with substr.)")
        return Rows(list(columns), self.kept, "\n".join(notes) or None)

    def _shown(self, value: object) -> Scalar:
        if isinstance(value, bytes):
            return f"(blob of {len(value)} bytes)"
        if isinstance(value, float):
            # JSON knows no infinity.
            return value if math.isfinite(value) else str(value)
        if value is None or isinstance(value, int):
            return value
        text, most = str(value), self.max_characters // 10
        if len(text) <= most:
            return text
        self.shortened = True
        return f"{text[:most]}... ({len(text)} characters)"


def _json(row: Sequence[Scalar]) -> str:
    return json.dumps(row, ensure_ascii=False)

"""The time of a record, so that what rests on time comes out as it did then."""

from __future__ import annotations

from datetime import datetime, timedelta

from toolstile_plugins.record.lines import RecordedCall


class RecordedClock:
    """A clock that shows when a recorded call began and, from the second look on, when it ended.

    For calls that are replayed one after the other.

    Args:
        call: The first one.
    """

    def __init__(self, call: RecordedCall) -> None:
        self._zero = self._ended = call.at
        self.show(call)

    def show(self, call: RecordedCall) -> None:
        """Show the time of another call, which ended later."""
        ended = call.at + timedelta(seconds=call.seconds)
        if ended < self._ended:
            # The system's clock was set back meanwhile; what had passed by then has passed.
            self._zero -= self._ended - call.at
        self._ended = ended
        self._at = call.at
        self._seconds = call.seconds
        self._begun = False

    def now(self) -> datetime:
        """Return when the call began."""
        return self._at

    def monotonic(self) -> float:
        """Return seconds that grow from the first call's beginning."""
        before = max(timedelta(0), self._at - self._zero).total_seconds()
        if not self._begun:
            self._begun = True
            return before
        return before + self._seconds

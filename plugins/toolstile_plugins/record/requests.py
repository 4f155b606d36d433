"""The request in a record: once in the line of the first call of a session that saw it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import MutableMapping, Sequence
from threading import Lock
from typing import Final

from toolstile_hookspecs import RequestTurn, Stage, ToolInvoked
from toolstile_plugins.record.file import RecordFile
from toolstile_plugins.record.schema import RecordedCall
from toolstile_plugins.record.serialize import Fields, joined, request_of

_UNCHECKED: Final = frozenset({Stage.LOOKUP, Stage.PARSE, Stage.DEADLINE})
"""The stages before anybody could look at the request."""
MAX_SESSIONS: Final = 1_000
"""The most sessions whose request is known to be recorded; of others it is recorded again."""


class RecordedRequests:
    """The requests that stand in a record already, by session."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, Sequence[RequestTurn]] = OrderedDict()
        self._lock = Lock()

    def write(self, file: RecordFile, event: ToolInvoked, fields: Fields) -> None:
        """Write the line of a call, with the request if the line is the first that saw it."""
        session = event.session_id
        if not (event.request or session in self._last) or event.stage in _UNCHECKED:
            file.append(joined(fields))
            return
        # A line of another call that saw another request must not come between.
        with self._lock:
            if event.request != self._last.get(session, ()):
                fields.append(f'"request":{request_of(event)}')
            file.append(joined(fields))
            self._last[session] = event.request
            self._last.move_to_end(session)
            while len(self._last) > MAX_SESSIONS:
                self._last.popitem(last=False)


def with_request(
    call: RecordedCall, last: MutableMapping[str, tuple[RequestTurn, ...]]
) -> RecordedCall:
    """Return a call with the request that it saw, which may stand in a line before it."""
    if call.request is not None:
        last[call.session] = call.request
        return call
    request = last.get(call.session)
    return call if request is None else call.model_copy(update={"request": request})

"""The report of a record: one page that shows its calls, and needs nothing but itself.

The page holds the calls as JSON in one element, and a script that draws them as text nodes. So no
text of a call is ever HTML. A Content-Security-Policy allows this script and these styles only.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import Stage, Status
from toolstile_hookspecs.calls import DIFF, NO_CHANGES
from toolstile_hookspecs.execution.approvals import APPROVAL_BY
from toolstile_hookspecs.execution.undo import UNDONE_CALLS
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.record.reader import Reader, Selection
from toolstile_plugins.record.schema import RecordedApproval, RecordedCall, RecordedTransaction

ROOM: Final = 4_500_000
"""The bytes of long texts in a page. If a record has more, its longest texts are cut."""
STATIC: Final = Path(__file__).parent / "static"

_LONG: Final = ("arguments", "text", "diff", "error", "more")
_SHOWN: Final = frozenset({DIFF, APPROVAL_BY, UNDONE_CALLS})
"""Attributes with their own place in the page."""
_SAME: Final = {
    *("id", "session", "status", "parent", "agent", "user", "batch", "transaction", "trace"),
    *("replayed", "reruns"),
}
"""Fields that the page has as the record has them."""
_ESCAPED: Final = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"})


def report_of(reader: Reader, selection: Selection) -> tuple[str, int]:
    """Return the page of the selected calls, and their number.

    Raises:
        RecordError: The record cannot be read, or was changed.
    """
    data = data_of(reader, selection)
    told = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    colours, style, script, page = (
        (STATIC / name).read_text(encoding="utf-8")
        for name in ("colours.css", "timeline.css", "timeline.js", "report.html")
    )
    style = colours + style
    # The data comes last, because it may contain the name of a place.
    for name, text in {
        "style hash": _hash_of(style),
        "script hash": _hash_of(script),
        "style": style,
        "script": script,
        "data": told.translate(_ESCAPED),
    }.items():
        page = page.replace(f"{{{{{name}}}}}", text, 1)
    return page, len(data["calls"])


def _hash_of(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def data_of(reader: Reader, selection: Selection) -> dict[str, Any]:
    """Return the selected calls of a record as JSON data for `timeline.js`."""
    entries = [*selection.of(reader)]
    notes = ["The last line of the record is incomplete and left out."] if reader.torn else []
    if lost := sum(gap.calls for gap in reader.lost):
        notes.append(f"{counted(lost, 'call')} could not be recorded.")
    approvals = reader.approvals.values()
    data = timeline_of(entries, approvals, reader.transactions, notes, reader.path)
    return {"title": reader.path.name, **data}


def timeline_of(
    entries: Sequence[RecordedCall],
    approvals: Iterable[RecordedApproval],
    transactions: Iterable[RecordedTransaction],
    notes: Sequence[str],
    path: Path,
) -> dict[str, Any]:
    """Return calls as JSON data for `timeline.js`, without a title; `path` is their record."""
    paths: dict[tuple[Stage, ...], int] = {}
    requests: dict[str, int] = {}
    answers = _answers(entries, approvals)
    calls: list[dict[str, Any]] = []
    for place, call in enumerate(entries):
        said = _wire(call)
        if call.stages:
            said["path"] = paths.setdefault(tuple(stage for stage, _ in call.stages), len(paths))
            said["times"] = [round(began * 1e6) for _, began in call.stages]
        if call.request:
            asked = "\n\n".join(turn.text for turn in call.request)
            said["request"] = requests.setdefault(asked, len(requests))
        if (answer := answers.get(place)) is not None:
            said["answer"] = answer
        calls.append(said)
    if cut := _cut(calls, path):
        notes = [*notes, f"{counted(cut, 'long text')} cut, so that the page stays small."]
    return {
        "notes": notes,
        "paths": [list(path) for path in paths],
        "requests": list(requests),
        "transactions": [
            end.model_dump(
                mode="json", include={"id", "title", "status", "reason", "parent", "reruns"}
            )
            for end in transactions
        ],
        "calls": calls,
    }


def _wire(call: RecordedCall) -> dict[str, Any]:
    attributes = dict(call.attributes)
    diff = call.diff or attributes.get(DIFF)
    tokens = [
        value
        for name, value in attributes.items()
        if name.endswith("tokens") and isinstance(value, int)
    ]
    said: dict[str, Any] = {
        "handler": call.handler_seconds,
        "gone": call.rolled_back,
        "joins": call.pending_parent,
        "undoes": attributes.get(UNDONE_CALLS),
        "tokens": sum(tokens),
        "decisions": [[each.policy, each.verdict, each.reason] for each in call.decisions],
        "arguments": call.arguments if call.params is None else call.params,
        "text": call.read,
        "diff": diff if diff != NO_CHANGES else None,
        "error": call.error and f"{call.error.type}: {call.error.text}",
        "more": {name: value for name, value in attributes.items() if name not in _SHOWN},
    }
    return {
        "n": call.n,
        "tool": call.tool,
        "at": round(call.at.timestamp() * 1000, 3),
        "took": round(call.seconds, 6),
        **call.model_dump(mode="json", include=_SAME, exclude_defaults=True),
        **{
            name: value for name, value in said.items() if value not in (None, False, 0, [], {}, "")
        },
    }


def _answers(
    entries: Iterable[RecordedCall], approvals: Iterable[RecordedApproval]
) -> dict[int, dict[str, Any]]:
    """Return by place the answers of people, with the seconds that each took."""
    by_call: dict[str, RecordedApproval] = {each.call: each for each in approvals if each.call}
    found: dict[int, dict[str, Any]] = {}
    waiting: dict[str, tuple[int, RecordedCall]] = {}
    for place, call in enumerate(entries):
        # The line of a call that waited has no answer; the line of the resumed call has it.
        if (asked := waiting.pop(call.id, None)) is not None and call.approval is not None:
            found[asked[0]] = _answer(call, by_call.get(call.id), asked[1])
        if call.status is Status.PENDING:
            waiting[call.id] = place, call
        elif call.approval is not None:
            found[place] = _answer(call, by_call.get(call.id), asked and asked[1])
    for place, call in waiting.values():
        if (answer := by_call.get(call.id)) is not None:
            found[place] = _answer(call, answer, call)
    return found


def _answer(
    call: RecordedCall, answer: RecordedApproval | None, asked: RecordedCall | None
) -> dict[str, Any]:
    if asked is None:
        seconds = sum(spent for stage, spent in call.stage_seconds if stage is Stage.APPROVE)
    else:
        moment = call.at if answer is None else answer.at
        seconds = (moment - asked.at).total_seconds() - asked.seconds
    given = None if call is asked else call.approval
    said: dict[str, Any] = {
        "answer": given.answer if given else answer and answer.act,
        "reason": given.reason if given else answer and answer.reason,
        "by": answer.by.id if answer and answer.by else call.attributes.get(APPROVAL_BY),
        "via": answer and answer.via,
    }
    found = {name: value for name, value in said.items() if value}
    return {"seconds": max(0.0, round(seconds, 6)), **found}


def _cut(calls: list[dict[str, Any]], path: Path) -> int:
    """Cut the longest texts so that all fit; return how many were cut."""
    texts = [(call, name, _text(call[name])) for call in calls for name in _LONG if name in call]
    # Measure texts as the page holds them, escaped.
    sizes = [len(json.dumps(text)) + 5 * text.count("<") for _, _, text in texts]
    left, most = ROOM, max(sizes, default=0)
    for done, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - done) > left:
            most = left // (len(sizes) - done)
            break
        left -= size
    cut = 0
    for (call, name, text), size in zip(texts, sizes, strict=True):
        if size > most:
            kept = text[: len(text) * most // size]
            see = f"toolstile record show {path.name} --line {call['n']}"
            call[name] = f"{kept}\n… {len(text) - len(kept):,} more characters: {see}"
            cut += 1
    return cut


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

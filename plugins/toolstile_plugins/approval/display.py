"""Requests as people read them, and as questions that a store keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, cast
from uuid import uuid4

from toolstile_hookspecs import ApprovalRequest, hide, masked, secrets_of
from toolstile_hookspecs.execution.children import root_session_id
from toolstile_hookspecs.execution.principal import MAIN_AGENT
from toolstile_hookspecs.services.approval_store import Question
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.cli_support import described_category
from toolstile_plugins.screen import printable_lines

MASK: Final = "*** (unchanged)"
"""Stands for a secret; an edit that keeps the mask keeps the secret."""

LINES: Final = 60
"""Lines of the short view; above, the longest arguments and the diff are shortened."""
SHORTEST: Final = 4
"""Minimum lines of each part in the short view."""
WIDTH: Final = 2_000
"""Maximum characters of a line in the short view."""
ADDED: Final = "green"
REMOVED: Final = "red"
"""The styles of the lines of a diff that are added and removed."""
Line = tuple[str, str]
"""A style and a line."""
_HUNK: Final = re.compile(r"( *)@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def unmasked(edited: object, value: object) -> Any:
    """Return edited arguments with their secrets; raises `ValueError` if a mask hides no secret."""
    if edited == MASK:
        if value is None:
            raise ValueError(f"{MASK!r} stands for no secret here; write the value instead.")
        return value
    if isinstance(edited, dict):
        inside = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        return {
            name: unmasked(item, inside.get(name))
            for name, item in cast("dict[str, object]", edited).items()
        }
    if isinstance(edited, list):
        items = cast("list[object]", value) if isinstance(value, list) else []
        return [
            unmasked(item, items[index] if index < len(items) else None)
            for index, item in enumerate(cast("list[object]", edited))
        ]
    return edited


class View:
    """Parts of a text; the short view leaves out lines of the longest parts."""

    def __init__(self, parts: list[list[Line]]) -> None:
        self.parts = parts
        fitting = (n for n in range(LINES, 0, -1) if sum(min(n, len(e)) for e in parts) <= LINES)
        self._most = max(next(fitting, 0), SHORTEST)

    @property
    def is_cut(self) -> bool:
        """True if the short view leaves out lines or characters."""
        lines = [text for part in self.parts for _, text in part]
        return any(len(part) > self._most for part in self.parts) or any(
            len(text) > WIDTH for text in lines
        )

    def lines(self, *, everything: bool = False) -> Iterator[Line]:
        """Yield the lines with their styles."""
        for part in self.parts:
            if everything:
                yield from part
                continue
            for style, text in part[: self._most]:
                more = len(text) - WIDTH
                yield style, f"{text[:WIDTH]}... ({more:,} more characters)" if more > 0 else text
            more = len(part) - self._most
            if more > 0:
                yield "dim", f"  ... ({more:,} more lines)"


class Shown(View):
    """A request, ready to be shown.

    Attributes:
        arguments: The arguments with secrets.
        masked: The arguments without secrets.
    """

    def __init__(self, request: ApprovalRequest) -> None:
        self.request = request
        self.arguments: dict[str, Any] = json.loads(request.arguments)
        schema = request.tool.params_codec.secret_schema()
        self.masked: dict[str, Any] = masked(self.arguments, schema, MASK)
        self._secrets = list(secrets_of(self.arguments, schema))
        arguments = [[*self._argument(printable(name), it)] for name, it in self.masked.items()]
        arguments = arguments or [[("dim", "  without arguments")]]
        super().__init__([[*self._head()], *arguments, [*diff_lines(request.diff, self._secrets)]])

    def _head(self) -> Iterator[Line]:
        tool, parent = self.request.tool, self.request.context.parent
        within = ""
        if parent is not None and parent.tool_call is not None:
            within = f", called by {printable(parent.tool_call.name)}"
        if (agent := self.request.context.agent) != MAIN_AGENT:
            within += f", by agent {printable(agent)}"
        has_run = ", has run and waits to be kept" if self.request.diff is not None else ""
        effect = f"{described_category(tool)}, {tool.consequence} consequence"
        yield "bold yellow", f"{tool.name} ({effect}){within}{has_run}"
        for reason in self.request.reasons:
            for line in printable_lines(hide(reason, self._secrets)):
                yield "", f"  {line}"

    def _argument(self, label: str, value: Any) -> Iterator[Line]:
        if isinstance(value, str) and "\n" in value:
            yield "cyan", f"  {label}:"
            # With a bar, so that a line of the text cannot pass for a line of the view.
            yield from (("", f"    | {line}") for line in printable_lines(value))
            return
        first, *rest = printable_lines(json.dumps(value, ensure_ascii=False, indent=2))
        yield "cyan", f"  {label}: {first}"
        yield from (("cyan", f"  {line}") for line in rest)


class ShownCard(View):
    """Requests with their numbers, and the diff of their calls together, ready to be shown."""

    def __init__(self, requests: Sequence[ApprovalRequest], diff: str | None) -> None:
        parts: list[list[Line]] = []
        for number, request in enumerate(requests, 1):
            ((style, title), *reasons), *arguments = Shown(request).parts
            parts += [[(style, f"{number}. {title}"), *reasons], *arguments]
        super().__init__([*parts, [*diff_lines(diff)]])


def diff_lines(diff: str | None, secrets: Sequence[str] = ()) -> Iterator[Line]:
    """Yield the lines of a diff with their styles, without secrets."""
    if diff is not None:
        yield "bold", "It would change:"
        yield from changed_lines(hide(diff, secrets))


def changed_lines(diff: str) -> Iterator[Line]:
    """Yield the indented lines of a diff with their styles."""
    column = old = new = 0  # of the present hunk: the place of its signs, and lines to come
    for line in printable_lines(diff):
        sign, is_title = line.lstrip()[:1], line.lstrip().startswith(("--- ", "+++ "))
        if old > 0 or new > 0:
            # Because an unchanged line may begin with a sign, only its column counts.
            sign, is_title = line[column : column + 1] or " ", False
            old, new = old - (sign in " -"), new - (sign in " +")
        elif hunk := _HUNK.match(line):
            column, (old, new) = len(hunk[1]), (int(each or 1) for each in hunk.groups()[1:])
        style = "bold" if is_title else {"+": ADDED, "-": REMOVED}.get(sign, "dim")
        yield style, f"  {line}"


def question_of(request: ApprovalRequest, expires: timedelta = timedelta()) -> Question:
    """Return the question of a request, without secrets and not yet sealed."""
    tool, context = request.tool, request.context
    arguments: dict[str, Any] = json.loads(request.arguments)
    schema = tool.params_codec.secret_schema()
    secrets = [*secrets_of(arguments, schema)]
    run = None if context.adapter is None else context.run_context
    now = context.clock.now()
    # Everything that distinguishes two tools of one name, except the code of the handler.
    handler: Any = tool.handler
    code = [getattr(handler, name, None) for name in ("__module__", "__qualname__")]
    effect = [tool.category, tool.consequence, tool.contained, tool.isolation]
    of: Sequence[Any] = [*effect, tool.origin, tool.version, tool.description, *code]
    text = json.dumps([*of, tool.params_codec.schema()], sort_keys=True, default=str)
    return Question(
        ticket=uuid4().hex[:12],
        call_id=request.call.id,
        tool=tool.name,
        category=tool.category,
        consequence=tool.consequence,
        reasons=tuple(hide(reason, secrets) for reason in request.reasons),
        arguments=json.dumps(masked(arguments, schema, MASK), ensure_ascii=False),
        digest=request.digest,
        session_id=root_session_id(context),
        principal=None if context.principal is None else context.principal.public(),
        created=now,
        expires=now + expires,
        sealed=b"",
        owner="" if run is None else run.run_id,
        diff=None if request.diff is None else hide(request.diff, secrets),
        asked_by=request.asked_by,
        definition=sha256(text.encode()).hexdigest(),
        agent=context.agent,
    )

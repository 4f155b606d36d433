"""Assertions about the outcome of a call; a failed one shows the call in readable form.

A batch may hold an exception in an outcome's place; the assertions report it, too.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterable
from typing import Any, Final, NoReturn, TypeVar

from toolstile_hookspecs import Outcome, Stage, Status, ToolInvoked, Verdict

_Kind = TypeVar("_Kind", Status, Stage)

_ANY: Final = object()
MOST: Final = 2000
"""The characters that are shown of a text."""

_TOLD: Final = frozenset(
    {Status.FAILED, Status.INVALID, Status.UNKNOWN_TOOL, Status.DENIED, Status.PENDING}
)
"""The statuses without an inner fault: the text says everything."""


def assert_ok(
    outcome: Outcome | BaseException, *, value: Any = _ANY, contains: str | Iterable[str] = ()
) -> Any:
    """Check that a call succeeded.

    Args:
        outcome: The outcome of the call.
        value: The expected value; any value unless given.
        contains: One or several texts that the text for the model must contain.

    Returns:
        Its value.

    Raises:
        AssertionError: It did not, or with another value or text; shows tool, arguments, status,
            stage and text.
        TypeError: The value is not an outcome.

    Example:
        >>> assert_ok(tools.call("add", a=1, b=2), value=3)  # doctest: +SKIP
        3
    """
    __tracebackhide__ = True
    _refuse_other(outcome)
    faults: list[str] = []
    if isinstance(outcome, BaseException):
        _fail(outcome, ["it raised"], "succeed")
    if not outcome.success:
        _fail(outcome, [_became(outcome)], "succeed")
    got = outcome.result.value
    if value is not _ANY and got != value:
        faults.append(f"its value is {_short(repr(got))} and not {_short(repr(value))}")
    faults += _missing(outcome.text, contains)
    if faults:
        _fail(outcome, faults, "succeed as expected")
    return got


def assert_failed(
    outcome: Outcome | BaseException,
    *,
    status: Status | str | None = None,
    stage: Stage | str | None = None,
    contains: str | Iterable[str] = (),
) -> str:
    """Check that a call did not succeed.

    Args:
        outcome: The outcome of the call.
        status: The expected status, such as `"denied"` or `Status.INVALID`; any failure if None.
        stage: How far it has to have come; anywhere if None.
        contains: One or several texts that the text for the model must contain.

    Returns:
        The text for the model.

    Raises:
        AssertionError: It succeeded, or failed in another way; shows tool, arguments, status,
            stage and text.
        ValueError: There is no such status or stage.
        TypeError: The value is not an outcome.

    Example:
        >>> outcome = tools.call("add", a="1")  # doctest: +SKIP
        >>> assert_failed(outcome, status="invalid", contains="b")  # doctest: +SKIP
    """
    __tracebackhide__ = True
    _refuse_other(outcome)
    wanted = None if status is None else _one_of(Status, status)
    reached = None if stage is None else _one_of(Stage, stage)
    expected = "fail" if wanted is None else f"be {_words(wanted)}"
    if isinstance(outcome, BaseException):
        _fail(outcome, ["it raised"], expected)
    if outcome.success or (wanted is not None and outcome.status is not wanted):
        _fail(outcome, [_became(outcome)], expected)
    faults: list[str] = []
    if reached is not None and outcome.stage is not reached:
        faults.append(f"it ended at the stage {outcome.stage.value}, not at {reached.value}")
    faults += _missing(outcome.text, contains)
    if faults:
        _fail(outcome, faults, f"{expected} as expected")
    return outcome.text


def described(outcome: Outcome | BaseException) -> str:
    """Return a call and its outcome in lines, for people; secret arguments are masked."""
    if isinstance(outcome, BaseException):
        return _line("raised", f"{type(outcome).__name__}: {outcome}")
    event = outcome.event
    lines = [
        _line("tool", event.tool_name),
        _line("arguments", _arguments(event)),
        _line("status", f"{outcome.status.value}, at the stage {outcome.stage.value}"),
        _line("text", outcome.text),
    ]
    decided = [each for each in event.decisions if each.verdict is not Verdict.ALLOW]
    lines += [
        _line(each.verdict.value, f"{each.reason} ({each.policy or 'a policy'})")
        for each in decided
    ]
    if event.error is not None and outcome.status not in _TOLD:
        lines.append(_line("error", event.hide(f"{type(event.error).__name__}: {event.error}")))
    return "\n".join(lines)


def _fail(outcome: Outcome | BaseException, faults: list[str], expected: str) -> NoReturn:
    __tracebackhide__ = True
    who = "A call" if isinstance(outcome, BaseException) else f"A call of {outcome.event.tool_name}"
    cause = outcome if isinstance(outcome, BaseException) else outcome.event.error
    message = f"{who} should {expected}, but {'; '.join(faults)}.\n{described(outcome)}"
    raise AssertionError(message) from cause


def _one_of(kind: type[_Kind], name: str) -> _Kind:
    __tracebackhide__ = True
    try:
        return kind(name)
    except ValueError:
        known = ", ".join(kind)
        msg = f"There is no {kind.__name__.lower()} {name!r}. There are {known}."
        raise ValueError(msg) from None


def _refuse_other(given: object) -> None:
    __tracebackhide__ = True
    if isinstance(given, (Outcome, BaseException)):
        return
    kind = type(given).__name__
    hint = "Give the outcome of a call."
    if inspect.iscoroutine(given):
        given.close()
        hint = "Await it first: assert_ok(await tools.acall(...))."
    elif isinstance(given, list):
        hint = "Give each of its outcomes: for outcome in tools.call_all(...): assert_ok(outcome)."
    raise TypeError(f"A {kind} is not an outcome. {hint}")


def _became(outcome: Outcome) -> str:
    return f"it {'' if outcome.success else 'was '}{_words(outcome.status)}"


def _words(status: Status) -> str:
    return {
        Status.UNKNOWN_TOOL: "refused: there is no such tool",
        Status.DENIED: "denied",
        Status.ERROR: "ended by an error",
        Status.DEADLINE: "ended by its deadline",
        Status.CONFLICT: "in conflict",
        Status.COMMIT_FAILED: "not committed",
        Status.TIMED_OUT: "timed out",
        Status.FAILED: "a failure",
    }.get(status, status.value)


def _missing(text: str, contains: str | Iterable[str]) -> list[str]:
    wanted = [contains] if isinstance(contains, str) else list(contains)
    return [f"its text does not hold {each!r}" for each in wanted if each not in text]


def _arguments(event: ToolInvoked) -> str:
    shown = event.shown_arguments
    if shown is not None:
        return json.dumps(shown, ensure_ascii=False)
    if event.tool is not None and event.tool.params_codec.secret_schema():
        return "(they do not fit, and may hold secrets)"
    given = event.call.arguments
    if isinstance(given, bytes):
        return given.decode(errors="replace")
    return given if isinstance(given, str) else repr(dict(given))


def _line(name: str, text: str) -> str:
    return f"  {name:<10} {textwrap.indent(_short(text), ' ' * 13).lstrip()}".rstrip()


def _short(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}... ({len(text):,} characters)"

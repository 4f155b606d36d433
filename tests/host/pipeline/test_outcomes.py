"""The outcome of a call that goes wrong, under both drivers, and its message.

Every row of the table of failures, also within another call, is in `failures`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolstile_hookspecs import (
    Cancellation,
    Contents,
    Deadline,
    DeadlineExceededError,
    PolicyDecision,
    PromptEvaluationError,
    Stage,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolResult,
    ToolValidationError,
    hookimpl,
    tool,
)

Touch = Callable[..., None]


def raising(error: BaseException, touch: Touch) -> Tool[Any, Any]:
    @tool(name="fails")
    def fails(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then raise."""
        touch(context)
        raise error

    return fails


def araising(error: BaseException, touch: Touch) -> Tool[Any, Any]:
    @tool(name="fails")
    async def fails(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then raise."""
        touch(context)
        raise error

    return fails


FAILING: dict[str, tuple[BaseException, Status, str]] = {
    "validation error": (ToolValidationError("path: too long"), Status.FAILED, "path: too long"),
    "type error": (TypeError("takes 1"), Status.ERROR, "TypeError: takes 1"),
    "value error": (ValueError("no row"), Status.ERROR, "Internal error in fails: no row"),
    "empty error": (RuntimeError(), Status.ERROR, "Internal error in fails: RuntimeError"),
}


@pytest.mark.parametrize("make", [raising, araising])
@pytest.mark.parametrize("case", FAILING)
def test_what_a_handler_raises_is_a_failed_result(
    yard: Any, touch: Touch, case: str, make: Callable[..., Tool[Any, Any]]
) -> None:
    error, status, text = FAILING[case]
    yard.open(make(error, touch))

    outcome = yard.call("fails")

    assert (outcome.status, outcome.stage) == (status, Stage.EXECUTE)
    assert text in outcome.text
    assert "Traceback" not in outcome.text
    assert not outcome.success
    yard.assert_untouched()
    (event,) = yard.events
    assert event is outcome.event
    assert event.rolled_back
    assert yard.observer.rollbacks == [("fails", outcome.text)]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("case", FAILING)
def test_what_a_nested_handler_raises_rolls_back_only_the_nested_call(
    yard: Any, touch: Touch, nesting: Any, case: str, is_async: bool
) -> None:
    error, status, text = FAILING[case]
    told: list[Any] = []
    yard.open(raising(error, touch), nesting("fails", told, is_async=is_async))

    outcome = yard.call("outer")

    assert outcome.success
    assert told[0].status is status
    assert text in told[0].text
    assert yard.marks == yard.box.items == ["outer"]
    inner, outer = yard.events
    assert (inner.tool_name, inner.parent_id, inner.rolled_back) == ("fails", outer.call_id, True)
    assert not outer.rolled_back


def test_a_failed_result_is_returned_as_it_is_and_rolled_back(
    yard: Any, touch: Touch, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def fails(*, context: ToolContext) -> ToolResult[int]:
        """Fail politely, with a payload."""
        touch(context)
        return ToolResult("Not today. Retry tomorrow.", 7, success=False)

    yard.open(fails)
    with caplog.at_level(logging.INFO, "toolstile.pipeline"):
        outcome = yard.call("fails")

    assert (outcome.status, outcome.text) == (Status.FAILED, "Not today. Retry tomorrow.")
    assert outcome.result.value == 7
    assert "data" not in outcome.envelope()
    assert not outcome.is_error
    yard.assert_untouched()
    assert yard.events[0].rolled_back
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_a_value_of_a_failed_result_is_never_reduced(yard: Any, mark: Any) -> None:
    @tool
    def fails() -> ToolResult[Any]:
        """Fail with a value that a reducer waits for."""
        return ToolResult("no", mark("reduced"), success=False)

    yard.session[mark].register(mark, lambda items, event: [*items, event])
    yard.open(fails)
    yard.call("fails")

    yard.assert_untouched()


def test_a_value_of_a_success_is_reduced_on_the_branch(yard: Any, mark: Any) -> None:
    @tool
    def works() -> ToolResult[Any]:
        """Succeed with a value that a reducer waits for."""
        return ToolResult.ok(mark("reduced"))

    yard.session[mark].register(mark, lambda items, event: [*items, event])
    yard.open(works)
    yard.call("works")

    assert yard.marks == ["reduced"]


def test_an_unknown_tool_is_answered_with_the_nearest_names(yard: Any, touch: Touch) -> None:
    yard.open(raising(ValueError(), touch))

    outcome = yard.dispatch(ToolCall("fail", {}))

    assert (outcome.status, outcome.stage) == (Status.UNKNOWN_TOOL, Stage.LOOKUP)
    assert "'fail'" in outcome.text
    assert "fails" in outcome.text
    assert len(yard.events) == 1
    assert not yard.events[0].rolled_back


def test_a_tool_without_a_handler_cannot_be_called(yard: Any) -> None:
    yard.open(Tool[None, None](name="bare", description="No handler."))

    outcome = yard.call("bare")

    assert (outcome.status, outcome.stage) == (Status.UNKNOWN_TOOL, Stage.LOOKUP)
    assert "it has no handler. Use another tool; its plugin has to give it one." in outcome.text


def test_task_cancellation_is_rolled_back_and_goes_on(make_yard: Any, touch: Touch) -> None:
    yard = make_yard("async")
    begun = asyncio.Event()

    @tool
    async def waits(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then wait for ever."""
        touch(context)
        begun.set()
        await asyncio.Event().wait()
        return ToolResult.ok()

    yard.open(waits)

    async def scenario() -> None:
        task = asyncio.create_task(yard.tools.adispatch(ToolCall("waits")))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    yard.assert_untouched()
    (event,) = yard.events
    assert (event.status, event.rolled_back) == (Status.RAISED, True)


@pytest.mark.parametrize("value", [None, 3, "text", {"a": 1}])
def test_what_is_no_tool_result_is_a_failed_result_naming_tool_and_type(
    yard: Any, touch: Touch, value: Any
) -> None:
    def handler(params: None, *, context: ToolContext) -> Any:
        touch(context)
        return value

    yard.open(Tool[None, Any](name="odd", description="Return something odd.", handler=handler))
    outcome = yard.call("odd")

    assert outcome.status is Status.ERROR
    assert "odd" in outcome.text
    assert type(value).__name__ in outcome.text
    yard.assert_untouched()


def test_a_coroutine_where_a_result_was_due_is_a_failed_result(yard: Any, touch: Touch) -> None:
    async def later() -> ToolResult[None]:
        return ToolResult.ok()

    def handler(params: None, *, context: ToolContext) -> Any:
        touch(context)
        return later()

    yard.open(Tool[None, None](name="odd", description="Forget to await.", handler=handler))
    outcome = yard.call("odd")

    assert outcome.status is Status.ERROR
    assert "coroutine" in outcome.text
    yard.assert_untouched()


def test_a_plain_value_of_a_decorated_function_is_wrapped(yard: Any) -> None:
    @tool
    def plain() -> int:
        """Return a plain value."""
        return 5

    yard.open(plain)
    assert (yard.call("plain").result, yard.call("plain").text) == (ToolResult.ok(5), "5")


def cyclic() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize("value", [object(), cyclic(), {"a": object()}, lambda: None])
def test_a_value_that_cannot_be_written_as_json_is_a_failed_result(
    yard: Any, touch: Touch, value: Any
) -> None:
    @tool
    def odd(*, context: ToolContext) -> ToolResult[Any]:
        """Return what no JSON stands for."""
        touch(context)
        return ToolResult.ok(value)

    yard.open(odd)
    outcome = yard.call("odd")

    assert outcome.status is Status.ERROR
    assert "cannot be written as JSON" in outcome.text
    yard.assert_untouched()
    yard.session.snapshot()
    assert yard.call("odd").status is Status.ERROR


@pytest.mark.parametrize("gives", [ValueError("cannot"), None, 3])
def test_a_render_that_raises_or_gives_no_text_falls_back_and_is_logged(
    yard: Any, touch: Touch, caplog: pytest.LogCaptureFixture, gives: Any
) -> None:
    class Bad(dict[str, int]):
        def render(self) -> Any:
            if isinstance(gives, Exception):
                raise gives
            return gives

    @tool
    def odd(*, context: ToolContext) -> ToolResult[Any]:
        """Return what does not render."""
        touch(context)
        return ToolResult.ok(Bad(a=1), message="Here.")

    yard.open(odd)
    outcome = yard.call("odd")

    assert (outcome.status, outcome.text) == (Status.SUCCEEDED, 'Here.\n{"a":1}')
    assert "Rendering" in caplog.text
    assert yard.marks == ["x"]


@pytest.mark.parametrize("nested", [False, True])
def test_a_call_is_refused_when_its_deadline_has_passed(
    yard: Any, touch: Touch, nested: bool
) -> None:
    ran: list[str] = []

    @tool
    def late(*, context: ToolContext) -> ToolResult[None]:
        """Run too late."""
        ran.append("late")
        return ToolResult.ok()

    @tool
    def outer(*, context: ToolContext) -> ToolResult[None]:
        """Call once the deadline has passed."""
        touch(context)
        deadline = context.deadline
        assert deadline is not None
        while not deadline.elapsed():
            pass
        context.call("late")
        return ToolResult.ok()

    seconds = 0.05 if nested else -1
    yard.open(late, outer, deadline=Deadline.after(seconds))
    with pytest.raises(PromptEvaluationError) as raised:
        yard.call("outer" if nested else "late")

    assert isinstance(raised.value.__cause__, DeadlineExceededError)
    assert ran == []
    yard.assert_untouched()
    assert yard.events[-1].status is Status.DEADLINE
    first = yard.events[0]
    assert first.text == first.result.message
    # The host and the handler look at the deadline on two threads: either may be the first.
    assert first.text in {
        f"{first.tool_name} did not finish: the deadline of this evaluation has passed.",
        "late was abandoned: it was called by outer, which met the evaluation's deadline.",
    }


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_cancelled_through_its_handle_is_a_failed_result(
    yard: Any, touch: Touch, is_async: bool
) -> None:
    stop = Cancellation()

    if is_async:

        @tool(name="works", timeout=None)
        async def aworks(*, context: ToolContext) -> ToolResult[None]:
            """Change something and be cancelled meanwhile."""
            touch(context)
            stop.cancel()
            await asyncio.sleep(3600)
            return ToolResult.ok()

        works: Tool[Any, Any] = aworks
    else:

        @tool(name="works", timeout=None)
        def sworks(*, context: ToolContext) -> ToolResult[None]:
            """Change something and be cancelled meanwhile."""
            touch(context)
            assert not context.cancelled
            stop.cancel()
            assert context.cancelled
            return ToolResult.ok()

        works = sworks

    yard.open(works)
    outcome = yard.dispatch(ToolCall("works", cancellation=stop))

    assert (outcome.status, outcome.text) == (Status.CANCELLED, "Request was cancelled")
    yard.assert_untouched()
    assert len(yard.events) == 1


def test_a_call_cancelled_before_it_begins_does_not_run(yard: Any, touch: Touch) -> None:
    stop = Cancellation()
    stop.cancel()
    yard.open(raising(ValueError(), touch))

    outcome = yard.dispatch(ToolCall("fails", cancellation=stop))

    assert outcome.status is Status.CANCELLED
    yard.assert_untouched()


def test_a_denial_changes_nothing_and_names_the_reason(yard: Any, touch: Touch) -> None:
    class Never:
        name = "never"

        def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
            return PolicyDecision.deny("Not before lunch. Have lunch, then retry.")

        def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None: ...

    yard.open(raising(ValueError(), touch), policies=(Never(),))
    outcome = yard.call("fails")

    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.CHECK)
    assert outcome.text == "Not before lunch. Have lunch, then retry."
    assert [(each.policy, each.allowed) for each in outcome.event.decisions] == [("never", False)]
    assert outcome.is_error
    yard.assert_untouched()


HIDDEN: dict[str, Any] = {"writeOnly": True}


def test_secrets_are_masked_in_messages_and_logs(
    yard: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from pydantic import SecretStr

    from toolstile_hookspecs import Secret

    @tool
    def leaks(password: SecretStr, *, context: ToolContext) -> ToolResult[None]:
        """Raise with a secret in the text."""
        assert context.auth is not None
        msg = f"refused {password.get_secret_value()} for {context.auth.reveal()}; {context!r}"
        raise ValueError(msg)

    yard.open(leaks, auth=Secret("token-4711"))
    outcome = yard.call("leaks", password="hunter22")

    for text in (outcome.text, caplog.text, str(outcome.envelope()), repr(outcome.event.params)):
        assert "hunter22" not in text
        assert "token-4711" not in text
    assert "session=" not in outcome.text
    assert not {"hunter22", "token-4711"} & set(outcome.event.hide("hunter22 token-4711").split())


def test_secrets_that_were_left_out_of_the_arguments_are_masked_too(yard: Any) -> None:
    @tool
    def leaks(pin: Annotated[str, Field(json_schema_extra=HIDDEN)] = "4711-4712") -> str:
        """Raise with a default in the text."""
        msg = f"refused {pin}"
        raise ValueError(msg)

    yard.open(leaks)
    assert yard.call("leaks").text == "Internal error in leaks: refused ***"


def test_secrets_of_the_value_are_masked_in_messages_and_logs(
    yard: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from pydantic import SecretStr

    @tool
    def gives() -> dict[str, SecretStr]:
        """Give a key."""
        return {"key": SecretStr("hunter22")}

    class Vetoing:
        @hookimpl
        def toolstile_on_result(self, result: ToolResult[Any]) -> None:
            msg = f"refused {result.value['key'].get_secret_value()}"
            raise ValueError(msg)

    yard.open(gives, plugins=(Vetoing(),))
    outcome = yard.call("gives")

    assert outcome.text == "Internal error in gives: refused ***"
    for text in (caplog.text, str(outcome.envelope()), repr(outcome.event), repr(outcome)):
        assert "hunter22" not in text


def test_so_are_those_that_only_its_schema_tells_of(
    yard: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclass(frozen=True)
    class Door:
        pin: Annotated[str, Field(json_schema_extra=HIDDEN)]

        def render(self) -> str:
            return "A door."

    @tool
    def gives() -> Door:
        """Give the key to a door."""
        return Door("hunter22")

    class Vetoing:
        @hookimpl
        def toolstile_on_result(self, result: ToolResult[Any]) -> None:
            msg = f"refused {result.value.pin}"
            raise ValueError(msg)

    yard.open(gives, plugins=(Vetoing(),))
    outcome = yard.call("gives")

    assert outcome.text == "Internal error in gives: refused ***"
    assert "hunter22" not in caplog.text


@pytest.mark.parametrize("shape", [str, lambda text: {"said": text}, lambda text: [text]])
def test_secrets_are_masked_in_the_text_of_a_success(yard: Any, shape: Any) -> None:
    from pydantic import SecretStr

    from toolstile_hookspecs import Secret

    @tool
    def tells(password: SecretStr, *, context: ToolContext) -> Any:
        """Tell what it was given."""
        assert context.auth is not None
        return shape(f"{password.get_secret_value()} for {context.auth.reveal()}")

    texts: list[str] = []

    class Hearing:
        @hookimpl
        def toolstile_telemetry(self, event: ToolInvoked) -> None:
            texts.append(event.text)

    yard.open(tells, plugins=(Hearing(),), auth=Secret("token-4711"))
    outcome = yard.call("tells", password="hunter22")

    assert outcome.success
    assert texts == [outcome.text]
    assert "*** for ***" in outcome.text


@pytest.mark.parametrize("mark", [{"writeOnly": True}, {"format": "password"}])
def test_what_a_schema_marks_is_masked_in_the_text_of_a_success(
    yard: Any, mark: dict[str, Any]
) -> None:
    schema = {"type": "object", "properties": {"key": {"type": "string", **mark}}}
    enter: Tool[Any, Any] = Tool(
        name="enter",
        description="Enter.",
        handler=lambda params, *, context: ToolResult.ok(f"{params['key']} fits"),
        params_schema=schema,
    )
    yard.open(enter)
    assert yard.call("enter", key="hunter22").event.text == "*** fits"


def test_so_are_those_of_a_value_that_the_model_does_not_see(yard: Any) -> None:
    @dataclass(frozen=True)
    class Door:
        pin: Annotated[str, Field(json_schema_extra=HIDDEN)]

    @tool
    def gives() -> ToolResult[Door]:
        """Give the key to a door."""
        return ToolResult.ok(Door("hunter22"), "It is made.", exclude_value_from_context=True)

    yard.open(gives)
    event = yard.call("gives").event
    assert (event.data, event.hide("with hunter22")) == (None, "with ***")


def test_no_repr_says_what_came_out(yard: Any) -> None:
    @tool
    def tells() -> str:
        """Tell."""
        return "hunter22"

    yard.open(tells)
    outcome = yard.call("tells")
    assert "hunter22" not in repr(outcome)
    assert "ToolInvoked(tool='tells'" in repr(outcome)


@pytest.mark.parametrize("hook", ["toolstile_check", "toolstile_render", "toolstile_telemetry"])
def test_secrets_are_masked_in_what_is_logged_of_plugins_and_policies(
    yard: Any, hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    from pydantic import SecretStr

    @hookimpl
    def blab(self: object) -> None:
        raise ValueError("hunter22")

    class Telling:
        name = "telling"

        def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
            return PolicyDecision.ask(f"{params.password.get_secret_value()} and 4711 look odd.")

        def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None: ...

    @tool
    def takes(password: SecretStr, pin: Annotated[str, Field(json_schema_extra=HIDDEN)]) -> str:
        """Take a secret."""
        return "done"

    yard.open(
        takes,
        plugins=(type("Blabbing", (), {hook: blab})(),),
        policies=(Telling(),),
        approver=lambda request: True,
    )
    outcome = yard.call("takes", password="hunter22", pin="4711")

    assert "ValueError" in caplog.text
    assert "hunter22" not in caplog.text
    reasons = {each.policy: each.reason for each in outcome.event.decisions}
    assert reasons["telling"] == "*** and *** look odd."


def test_a_value_that_can_be_read_once_only_is_a_failed_result(yard: Any) -> None:
    @tool
    def lazy() -> ToolResult[Any]:
        """Return a generator."""
        return ToolResult.ok(number for number in range(3))

    yard.open(lazy)
    outcome = yard.call("lazy")

    assert outcome.status is Status.ERROR
    assert "generator" in outcome.text
    assert len(yard.events) == 1


@dataclass(frozen=True)
class Listing:
    """A value that shows the name of a file as the system gives it."""

    def render(self) -> str:
        return "caf\udce9.txt"


UNENCODABLE: dict[str, Callable[[], Any]] = {
    "message": lambda: ToolResult.ok(1, message="caf\udce9.txt"),
    "rendering": lambda: ToolResult.ok(Listing()),
    "contents": lambda: ToolResult.ok(Contents([]), message="caf\udce9.txt"),
    "failure": lambda: ToolResult.error("caf\udce9.txt"),
}


@pytest.mark.parametrize("what", UNENCODABLE)
def test_what_a_model_reads_can_be_sent_to_it(yard: Any, what: str) -> None:
    @tool(name="list")
    def listing() -> ToolResult[Any]:
        """Tell of a file whose name is no UTF-8."""
        return UNENCODABLE[what]()

    yard.open(listing)
    outcome = yard.call("list")

    assert r"caf\udce9.txt" in outcome.text
    assert outcome.text.encode()
    assert outcome.event.text == outcome.text
    assert outcome.result.message.encode() in outcome.text.encode()


def test_an_exception_is_told_so_that_it_can_be_sent(yard: Any, touch: Touch) -> None:
    yard.open(raising(ValueError("caf\udce9.txt"), touch))
    assert yard.call("fails").text == r"Internal error in fails: caf\udce9.txt"
    yard.assert_untouched()


def test_an_exception_that_has_no_text_is_told_by_its_class(yard: Any, touch: Touch) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            msg = "no text"
            raise RuntimeError(msg)

    yard.open(raising(Odd(), touch))
    outcome = yard.call("fails")

    assert (outcome.status, outcome.text) == (Status.ERROR, "Internal error in fails: Odd")
    yard.assert_untouched()
    assert len(yard.events) == 1


class Step:
    """A participant that keeps the order in which it and others are told."""

    def __init__(self, name: str, log: list[str], *, decides: bool, fails: bool = False) -> None:
        self.name = name
        self.log = log
        self.decides = decides
        self.fails = fails

    def prepare(self) -> None:
        self.log.append(f"prepare {self.name}")
        if self.fails:
            msg = "no decision"
            raise OSError(msg)

    def commit(self) -> None:
        self.log.append(f"commit {self.name}")

    def rollback(self) -> None:
        self.log.append(f"undo {self.name}")


class SupportsJoin:
    """A plugin through which a participant takes part in one tool's calls."""

    def __init__(self, participant: Step, name: str = "works") -> None:
        self.participant = participant
        self.name = name

    @hookimpl
    def toolstile_snapshot(self, tool: Tool[Any, Any]) -> Step | None:
        return self.participant if tool.name == self.name else None


class JoiningToo(SupportsJoin):
    """Asked before it, since it is registered later."""


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_the_one_that_decides_is_prepared_last(
    yard: Any, touch: Touch, nesting: Any, nested: bool, fails: bool
) -> None:
    @tool
    def works(*, context: ToolContext) -> ToolResult[None]:
        """Change something."""
        touch(context)
        return ToolResult.ok()

    log: list[str] = []
    other = Step("other", log, decides=False)
    decider = Step("decider", log, decides=True, fails=fails)
    of_call = "outer" if nested else "works"
    yard.open(
        works,
        nesting("works", [], is_async=False),
        plugins=(SupportsJoin(other), JoiningToo(decider, of_call)),
    )
    outcome = yard.call(of_call)

    prepared = ["prepare other", "prepare decider"]
    assert log[:2] == prepared
    if fails:
        assert outcome.status is Status.ERROR
        assert sorted(log[2:]) == ["undo decider", "undo other"]
        yard.assert_untouched()
    else:
        assert outcome.success
        assert sorted(log[2:]) == ["commit decider", "commit other"]


def test_what_was_begun_is_undone_newest_first(yard: Any, touch: Touch) -> None:
    log: list[str] = []
    first, second = (Step(name, log, decides=False) for name in ("first", "second"))
    yard.open(
        raising(ValueError("no"), touch),
        plugins=(SupportsJoin(second, "fails"), JoiningToo(first, "fails")),
    )
    yard.call("fails")

    assert log == ["undo second", "undo first"]


def test_one_that_cannot_be_committed_keeps_no_other_from_it(yard: Any, touch: Touch) -> None:
    class Failing(Step):
        def commit(self) -> None:
            super().commit()
            msg = "no disk."
            raise OSError(msg)

    @tool
    def works(*, context: ToolContext) -> ToolResult[None]:
        """Change something."""
        touch(context)
        return ToolResult.ok()

    log: list[str] = []
    yard.open(
        works,
        plugins=(
            SupportsJoin(Step("second", log, decides=False)),
            JoiningToo(Failing("first", log, decides=False)),
        ),
    )
    outcome = yard.call("works")

    assert outcome.status is Status.COMMIT_FAILED
    assert log == ["prepare first", "prepare second", "commit first", "commit second"]
    assert "Kept: the session, second, Box" in outcome.text
    assert "Not kept: first (no disk)" in outcome.text
    assert yard.marks == yard.box.items == ["x"]

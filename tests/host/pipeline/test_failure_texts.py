"""The message of a failed call is true of the tool, contained or not."""

import threading
from typing import Any

import pytest

from toolstile_hookspecs import (
    Status,
    ToolContext,
    ToolError,
    ToolResult,
    ToolValidationError,
    hookimpl,
    tool,
)


@pytest.fixture
def upset(yard, mark):
    """Make a tool under which the session is reset whenever it runs."""

    def make(*, contained):
        @tool(contained=contained)
        def upset(*, context: ToolContext) -> None:
            """Read, while the session changes."""
            context.session[mark].latest()
            yard.session.reset()

        return upset

    return make


def test_a_conflict_of_a_contained_tool_left_nothing_outside(yard, upset):
    yard.open(upset(contained=True))
    outcome = yard.call("upset")
    assert outcome.status is Status.CONFLICT
    assert "Nothing of it remains." in outcome.text
    assert "outside" not in outcome.text
    assert outcome.text.endswith("Read the current state, then retry.")


def test_a_conflict_of_any_other_may_have_left_something_outside(yard, upset):
    yard.open(upset(contained=False))
    outcome = yard.call("upset")
    assert outcome.status is Status.CONFLICT
    assert "Effects it may have had outside were not undone." in outcome.text


def test_the_advice_of_an_error_or_of_its_cause_is_for_the_operator_alone(yard, caplog):
    @tool
    def sell(what: str) -> None:
        """Sell something."""
        if what == "itself":
            looped = ToolError("Sold out. Retry later.")
            raise looped from looped
        if what == "tea":
            raise ToolError("Sold out. Retry later.", for_operator="Fill /srv/tea.")
        broken = OSError("The till is broken.")
        broken.for_operator = "Mend /srv/till."
        raise ToolError("Sold out. Retry later.") from broken

    yard.open(sell)
    for what, advice in (("tea", "Fill /srv/tea."), ("milk", "Mend /srv/till."), ("itself", None)):
        outcome = yard.call("sell", what=what)
        assert (outcome.status, outcome.text) == (Status.FAILED, "Sold out. Retry later.")
        assert outcome.event.attributes.get("toolstile.for_operator") == advice
        assert advice is None or advice in caplog.text


def test_a_folder_of_this_machine_in_an_unexpected_error_is_for_the_operator_alone(yard, caplog):
    @tool
    def read_rates() -> None:
        """Read the rates."""
        raise FileNotFoundError(2, "No such file", "/srv/shop/rates.csv")

    yard.open(read_rates)
    outcome = yard.call("read_rates")
    assert outcome.text == (
        "Internal error in read_rates: [Errno 2] No such file: 'rates.csv'. This requires human "
        "intervention."
    )
    assert "/srv/shop/rates.csv" in outcome.event.attributes["toolstile.for_operator"]
    assert "/srv/shop/rates.csv" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("contained", [True, False])
def test_a_timeout_tells_of_effects_outside_only_where_there_may_be_some(yard, contained):
    released = threading.Event()

    @tool(contained=contained, timeout=0.1)
    def sleep() -> None:
        """Sleep."""
        released.wait(10)

    yard.open(sleep)
    outcome = yard.call("sleep")
    released.set()
    assert outcome.status is Status.TIMED_OUT
    assert ("effects outside" in outcome.text) is not contained
    assert ("can change nothing more" in outcome.text) is contained


class Stopped(KeyboardInterrupt):
    """Of a program that has one of its own."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyboardInterrupt, "halt was interrupted: its process was asked to stop."),
        (Stopped, "halt was interrupted: its process was asked to stop."),
        (SystemExit, "halt was interrupted: its process was about to end."),
        (GeneratorExit, "halt was interrupted."),
    ],
)
def test_an_interruption_is_told_in_words(yard, error, told):
    @tool
    def halt() -> None:
        """Stop."""
        raise error

    yard.open(halt)
    with pytest.raises(error):
        yard.call("halt")
    assert yard.events[-1].result.message == told


def test_where_a_render_hook_fails_a_text_is_read_as_it_is(yard):
    class Plugin:
        @hookimpl
        def toolstile_render(self):
            raise RuntimeError("broken")

    @tool
    def say() -> str:
        """Say something."""
        return 'She said "no".'

    @tool
    def several() -> list[str]:
        """Say several things."""
        return ["a", "b"]

    yard.open(say, several, plugins=(Plugin(),))
    assert yard.call("say").text == 'She said "no".'
    assert yard.call("several").text == "a\nb"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "it holds NaN or Infinity, which JSON cannot say"),
        (object(), "it holds a value of type object, which has no JSON form"),
    ],
)
def test_a_value_that_cannot_be_written_is_told_plainly_and_rolled_back(yard, touch, value, reason):
    @tool
    def odd(*, context: ToolContext) -> Any:
        """Return what JSON cannot say."""
        touch(context)
        return {"value": value}

    yard.open(odd)
    outcome = yard.call("odd")
    assert outcome.status is Status.ERROR
    assert outcome.text == f"Internal error in odd: its value cannot be written as JSON ({reason})."
    yard.assert_untouched()


@pytest.mark.parametrize("message", ["", " \n"])
def test_a_failure_without_a_word_is_still_told_to_the_model(yard, message):
    @tool
    def fail() -> ToolResult[int]:
        """Fail."""
        return ToolResult.error(message)

    @tool
    def refuse() -> int:
        """Refuse."""
        raise ToolValidationError(message)

    yard.open(fail, refuse)
    for name in ("fail", "refuse"):
        outcome = yard.call(name)
        assert outcome.status is Status.FAILED
        assert outcome.text.startswith(f"{name} failed and did not say why.")


@pytest.mark.parametrize(
    ("error", "told"), [(StopIteration(), "StopIteration"), (StopIteration("no more"), "no more")]
)
def test_a_stop_iteration_is_told_as_it_was_raised(yard, error, told):
    @tool
    def stop() -> int:
        """Stop."""
        raise error

    @tool
    async def astop() -> int:
        """Stop."""
        raise error

    yard.open(stop, astop)
    for name in ("stop", "astop"):
        outcome = yard.call(name)
        assert (outcome.status, outcome.text) == (
            Status.ERROR,
            f"Internal error in {name}: {told}",
        )


def test_of_a_group_of_failures_each_is_told(yard):
    @tool
    async def fetch() -> None:
        """Fetch all."""
        nested = ExceptionGroup("names", [LookupError("no such host"), TimeoutError()])
        raise ExceptionGroup("two of three failed", [ValueError("port -1"), nested])

    yard.open(fetch)
    text = yard.call("fetch").text
    assert "two of three failed (2 sub-exceptions): port -1; names" in text
    assert "no such host; TimeoutError" in text

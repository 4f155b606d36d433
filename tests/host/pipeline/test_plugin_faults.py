"""Where a plugin's hook goes wrong during a call, the plugin is named and not the tool."""

import pytest

from toolstile_hookspecs import CallRefused, Status, ToolContext, hookimpl, tool


class Half:
    """No participant: it cannot commit."""

    def prepare(self):
        return None

    def rollback(self):
        return None


class Whole(Half):
    def __init__(self):
        self.told = []

    def commit(self):
        self.told.append("commit")

    def rollback(self):
        self.told.append("rollback")


class Bare:
    """Has what it does in slots, of which one is empty."""

    __slots__ = ("commit", "prepare", "rollback")

    def __init__(self):
        self.prepare = self.rollback = lambda: None


class Odd(type):
    __hash__ = None


class Unhashable(Whole, metaclass=Odd):
    """A participant whose class cannot be put into a table."""


class Desk:
    """A plugin that answers or raises what it is given, at the hooks it is given."""

    def __init__(self, at, what, *, is_async=False):
        self.at = at
        self.what = what
        self.is_async = is_async

    def _do(self, hook):
        if hook != self.at:
            return None
        return self._do_later() if self.is_async else self._do_now()

    def _do_now(self):
        if isinstance(self.what, Exception):
            raise self.what
        return self.what

    async def _do_later(self):
        return self._do_now()

    @hookimpl
    def toolstile_check(self):
        return self._do("check")

    @hookimpl
    def toolstile_snapshot(self):
        return self._do("snapshot")

    @hookimpl
    def toolstile_on_result(self):
        return self._do("on_result")

    @hookimpl
    def toolstile_execute(self):
        return self._do("execute")

    @hookimpl
    def toolstile_lookup(self):
        return self._do("lookup")

    @hookimpl
    def toolstile_parse(self):
        return self._do("parse")

    @hookimpl
    def toolstile_render(self):
        return self._do("render") if self.at == "render" else None


@pytest.fixture
def put(touch):
    @tool
    def put(*, context: ToolContext) -> None:
        """Put something."""
        touch(context)

    return put


IS_ASYNC = pytest.mark.parametrize("is_async", [False, True], ids=["answers", "awaited"])


@IS_ASYNC
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (5, "an instance of int"),
        (Half(), "an instance of Half"),
        (Bare(), "an instance of Bare"),
        (Whole, "the class Whole"),
    ],
)
def test_what_cannot_take_part_is_named_with_its_plugin(
    yard, put, caplog, *, answer, kind, is_async
):
    yard.open(put, plugins=(Desk("snapshot", answer, is_async=is_async),))
    outcome = yard.call("put")
    assert outcome.status is Status.ERROR
    assert outcome.text == (
        f"put cannot run: plugin Desk answered toolstile_snapshot with {kind}; it must return a "
        "participant, with prepare, commit and rollback, or None. This requires human intervention."
    )
    assert "AttributeError" not in caplog.text
    yard.assert_untouched()


def test_a_participant_may_be_of_any_class(yard, put):
    whole = Unhashable()
    yard.open(put, plugins=(Desk("snapshot", whole),))
    assert yard.call("put").success
    assert whole.told == ["commit"]


def test_those_that_have_begun_are_rolled_back_when_another_cannot_take_part(yard, put):
    class Other(Desk):
        """Asked before it, since it is registered later."""

    whole = Whole()
    yard.open(put, plugins=(Desk("snapshot", 5), Other("snapshot", whole)))
    assert not yard.call("put").success
    assert whole.told == ["rollback"]


@IS_ASYNC
@pytest.mark.parametrize(
    ("error", "told"), [(OSError("disk is full."), "disk is full"), (KeyError(), "KeyError")]
)
def test_a_snapshot_that_raises_is_the_plugins_failure(yard, put, caplog, *, error, told, is_async):
    yard.open(put, plugins=(Desk("snapshot", error, is_async=is_async),))
    outcome = yard.call("put")
    assert outcome.text == (
        f"put cannot run: plugin Desk failed in toolstile_snapshot ({told}). This requires human "
        "intervention."
    )
    assert outcome.event.error.__cause__ is error
    assert "Traceback" in caplog.text
    yard.assert_untouched()


def test_a_snapshot_can_refuse_the_call_in_its_own_words(yard, put):
    yard.open(put, plugins=(Desk("snapshot", CallRefused("The books are closed.")),))
    assert yard.call("put").text == "The books are closed."


@IS_ASYNC
def test_a_veto_is_told_as_it_is_and_logged_with_who_raised_it(yard, put, caplog, is_async):
    veto = ValueError("the sum is wrong")
    yard.open(put, plugins=(Desk("on_result", veto, is_async=is_async),))
    for _ in range(2):
        outcome = yard.call("put")
    assert outcome.text == "Internal error in put: the sum is wrong"
    assert "Plugin Desk raised it in on_result." in caplog.text
    assert veto.__notes__ == ["Plugin Desk raised it in on_result."]
    yard.assert_untouched()


def test_what_is_no_answer_in_the_handlers_place_is_named_with_its_plugin(yard, put):
    yard.open(put, plugins=(Desk("execute", 5),))
    assert yard.call("put").text == (
        "put cannot run: plugin Desk answered toolstile_execute with an instance of int; it must "
        "return a ToolResult, a Replay, a callable or None. This requires human intervention."
    )


@IS_ASYNC
@pytest.mark.parametrize(
    ("answer", "kind"),
    [("put", "an instance of str"), (False, "an instance of bool"), (Whole, "the class Whole")],
)
def test_what_is_no_tool_is_named_with_its_plugin(yard, put, *, answer, kind, is_async):
    yard.open(put, plugins=(Desk("lookup", answer, is_async=is_async),))
    text = yard.call("put").text
    assert f"plugin Desk answered toolstile_lookup with {kind}" in text
    assert "it must return a Tool, or None" in text


@IS_ASYNC
@pytest.mark.parametrize("at", ["lookup", "parse", "execute"])
def test_what_a_hook_raises_is_told_as_it_is_and_logged_with_who_raised_it(
    yard, put, caplog, *, at, is_async
):
    yard.open(put, plugins=(Desk(at, OSError("the net is down"), is_async=is_async),))
    assert yard.call("put").text == "Internal error in put: the net is down"
    assert f"Plugin Desk raised it in toolstile_{at}." in caplog.text


def test_who_fails_to_render_is_logged(yard, put, caplog):
    yard.open(put, plugins=(Desk("render", OSError("no ink")),))
    assert yard.call("put").success
    assert "Plugin Desk raised it in toolstile_render." in caplog.text


def test_what_is_no_decision_is_logged_with_its_kind(yard, put, caplog):
    yard.open(put, plugins=(Desk("check", True),))
    assert yard.call("put").status is Status.DENIED
    assert "Policy plugin Desk answered bool, not a PolicyDecision." in caplog.text

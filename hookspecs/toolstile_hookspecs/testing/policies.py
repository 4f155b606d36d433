"""The conformance suite of a policy, to subclass."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import pytest

from toolstile_hookspecs.calls import Status, ToolCall
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.limits import Cancellation
from toolstile_hookspecs.markers import hookimpl
from toolstile_hookspecs.policies import PolicyDecision
from toolstile_hookspecs.testing.suite import (
    STAND_INS,
    STRANGE_CALLS,
    AnyTool,
    Bench,
    MakeBench,
    OpenBench,
    PluginContract,
    approve,
    both_drivers,
    complaints,
    refuse,
    state_of,
)
from toolstile_hookspecs.testing.tools import CancelAtTheEnd

Call = tuple[str, Mapping[str, Any]]

SAYS_WHAT_TO_DO: Final = re.compile(r"\b(retry|cannot|human|person)\b", re.IGNORECASE)
"""The words of a denial: "retry" where that helps, else "cannot" or a person."""


class PolicyContract(PluginContract, policy=None, prepare=("bench",)):
    """Tests of a policy; the fixture `policy` of a subclass returns it.

    A policy is a `ToolPolicy`, or a plugin (a module or object) with `toolstile_check`. The suite
    asks about calls of `tools`, which do nothing. `allowed` and `denied` are calls of these tools,
    each a name with arguments. Before each of them the suite calls `prepare` with a bench.
    `options` are the options of `toolstile_tools`. A person approves every question. The suite
    calls `break_it` to make the policy fail inside; leave it out if nothing can.

    Attributes:
        allowed: Calls that the policy allows.
        denied: Calls that are denied.

    Example:
        >>> class TestOfficeHours(PolicyContract):
        ...     denied = (("delete_thing", {"name": "x"}),)
        ...     allowed = (("read_thing", {"name": "x"}),)
        ...
        ...     @pytest.fixture
        ...     def policy(self):
        ...         return OfficeHours()
    """

    allowed: ClassVar[Sequence[Call]] = ()
    denied: ClassVar[Sequence[Call]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("allowed", "denied"):
            for each in getattr(cls, name):
                match each:
                    case (str(), Mapping()):
                        continue
                    case _:
                        wanted = '[("read_thing", {"name": "x"})]'
                        refuse(cls, name, f"holds {each!r}, and is to be written as {wanted}")

    @pytest.fixture
    def policy(self) -> Any:
        """Return the policy."""
        self._must_give("policy", "gives your policy")

    @pytest.fixture
    def tools(self) -> Sequence[AnyTool]:
        """Return the tools of the calls: one of each category and consequence."""
        return STAND_INS

    @pytest.fixture
    def prepare(self) -> Callable[[Bench], None]:
        """Return a function that prepares a call."""
        return lambda bench: None  # noqa: ARG005 - most policies need nothing

    @pytest.fixture
    def open_with(
        self,
        toolstile_tools: MakeBench,
        policy: Any,
        tools: Sequence[AnyTool],
        options: Mapping[str, Any],
        prepare: Callable[[Bench], None],
    ) -> OpenBench:
        """Return a function that opens a bench with further plugins, ready for a call."""
        is_plugin = hasattr(policy, "toolstile_check")

        def opened(*others: object) -> Bench:
            given: dict[str, Any] = {"approver": approve, **options}
            if not is_plugin:
                given["policies"] = [policy, *given.get("policies", ())]
            plugins = (policy,) if is_plugin else ()
            bench = toolstile_tools(*plugins, *tools, *others, **given)
            prepare(bench)
            return bench

        return opened

    @pytest.fixture
    def calls(self, tools: Sequence[AnyTool]) -> list[Call]:
        """Return all calls: allowed, denied and strange ones."""
        known = {each.name for each in tools}
        strange = [each for each in STRANGE_CALLS if each[0] in known]
        return [*self.allowed, *self.denied, *strange]

    def test_it_is_known_what_it_allows_and_denies(self) -> None:
        kind = type(self).__name__
        assert self.allowed, f"Name calls in `allowed` of {kind} that the policy allows"
        assert self.denied, (
            f"Name calls in `denied` of {kind} that the policy denies; for a maximum number of "
            "calls, make that many in the fixture `prepare`"
        )

    @both_drivers
    def test_what_is_allowed_goes_on(self, open_with: OpenBench) -> None:
        for name, arguments in self.allowed:
            outcome = open_with().dispatch(ToolCall(name, arguments))
            assert outcome.success, f"{_shown(name, arguments)}: {outcome.text}"

    @both_drivers
    def test_what_is_denied_does_not_run(self, open_with: OpenBench) -> None:
        for name, arguments in self.denied:
            outcome = open_with().dispatch(ToolCall(name, arguments))
            assert outcome.status is Status.DENIED, f"{_shown(name, arguments)}: {outcome.text}"

    def test_a_denial_says_what_to_do(self, open_with: OpenBench) -> None:
        for name, arguments in self.denied:
            text = open_with().dispatch(ToolCall(name, arguments)).text
            assert SAYS_WHAT_TO_DO.search(text), (
                f"{_shown(name, arguments)}: {text!r} has no next step. Say `retry` and the step "
                "before, or `cannot`, or that a person is needed"
            )

    def test_it_answers_with_decisions(
        self, open_with: OpenBench, policy: Any, calls: list[Call]
    ) -> None:
        for name, arguments in calls:
            for answer in _asked(open_with, policy, name, arguments).answers:
                shown = f"{_shown(name, arguments)}: {answer!r}"
                assert answer is None or isinstance(answer, PolicyDecision), shown
                assert answer is None or answer.reason or answer == PolicyDecision.allow(), (
                    f"{shown} has no reason"
                )

    def test_equal_calls_get_equal_answers(
        self, open_with: OpenBench, policy: Any, calls: list[Call]
    ) -> None:
        for name, arguments in calls:
            first, second = _asked(open_with, policy, name, arguments).answers
            assert first == second, _shown(name, arguments)

    def test_checking_changes_nothing(
        self, open_with: OpenBench, policy: Any, calls: list[Call]
    ) -> None:
        for name, arguments in calls:
            asked = _asked(open_with, policy, name, arguments)
            assert asked.state[0] == asked.state[1], _shown(name, arguments)
            assert asked.params[0] == asked.params[1], _shown(name, arguments)

    def test_a_denied_call_leaves_nothing(self, open_with: OpenBench) -> None:
        for name, arguments in self.denied:
            bench = open_with()
            before = state_of(bench)
            bench.dispatch(ToolCall(name, arguments))
            assert state_of(bench) == before, _shown(name, arguments)

    def test_it_fails_at_no_call(
        self, open_with: OpenBench, calls: list[Call], caplog: pytest.LogCaptureFixture
    ) -> None:
        for name, arguments in calls:
            for is_cancelled in (False, True):
                caplog.clear()
                # Cancelled at its end, the admitted call is rolled back.
                cancelling, stop = CancelAtTheEnd(), Cancellation()
                bench = open_with(cancelling)
                cancelling.stop = stop if is_cancelled else None
                status = bench.dispatch(ToolCall(name, arguments, cancellation=stop)).status
                shown = f"{_shown(name, arguments)} {'cancelled' if is_cancelled else status}"
                assert not complaints(caplog), f"{shown}: {complaints(caplog)[0]}"
                assert status is not Status.ERROR, f"{shown}: {caplog.text}"

    def test_a_failure_inside_denies(
        self, open_with: OpenBench, break_it: Callable[[], None]
    ) -> None:
        if not self.allowed:
            pytest.skip("`allowed` names no call that could be denied.")
        name, arguments = self.allowed[0]
        bench = open_with()
        break_it()
        assert bench.dispatch(ToolCall(name, arguments)).status is Status.DENIED


class Asking:
    """A plugin that asks a policy itself, twice, at the stage of policies."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self.settings: Any = None
        self.is_on = False
        self.answers: list[Any] = []
        self.state: list[str] = []
        self.params: list[bytes] = []

    @hookimpl
    async def toolstile_check(self, tool: AnyTool, params: Any, context: ToolContext) -> None:
        """Ask, but not again after an approval."""
        if self.answers or not self.is_on:
            return
        self._look(tool, params, context)
        for _ in range(2):
            answer: Any = self._ask(tool, params, context)
            self.answers.append((await answer) if inspect.isawaitable(answer) else answer)
        self._look(tool, params, context)

    def _ask(self, tool: AnyTool, params: Any, context: ToolContext) -> Any:
        check = getattr(self._policy, "toolstile_check", None)
        if check is None:
            return self._policy.check(tool, params, context=context)
        given = {"tool": tool, "params": params, "context": context, "settings": self.settings}
        wanted = inspect.signature(check).parameters
        return check(**{name: value for name, value in given.items() if name in wanted})

    def _look(self, tool: AnyTool, params: Any, context: ToolContext) -> None:
        self.state.append(context.session.snapshot().to_json())
        self.params.append(tool.params_codec.encode(params))


def _asked(open_with: OpenBench, policy: Any, name: str, arguments: Mapping[str, Any]) -> Asking:
    asking = Asking(policy)
    bench = open_with(asking)
    asking.settings = bench.settings_of(policy)
    asking.is_on = True
    outcome = bench.dispatch(ToolCall(name, arguments))
    failed = [each for each in outcome.event.decisions if each.policy == "plugin Asking"]
    assert not failed, f"{_shown(name, arguments)}: it raised while it was asked"
    assert len(asking.answers) == 2, f"{_shown(name, arguments)}: {outcome.text}"  # noqa: PLR2004 - asked twice
    return asking


def _shown(name: str, arguments: Mapping[str, Any]) -> str:
    text = json.dumps(arguments)
    return f"{name} {text if len(text) < 200 else text[:200] + '...'}"  # noqa: PLR2004 - a line

"""The conformance suite of a tool suite, to subclass."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, Final

import pytest

from toolstile_hookspecs.calls import Stage, Status, ToolCall
from toolstile_hookspecs.codecs import bounded_validator, check_schema
from toolstile_hookspecs.limits import Cancellation
from toolstile_hookspecs.markers import hookimpl
from toolstile_hookspecs.testing.suite import (
    AnyTool,
    Bench,
    MakeBench,
    OpenBench,
    PluginContract,
    approve,
    both_drivers,
    refuse,
    state_of,
)
from toolstile_hookspecs.tools import Tool

UNKNOWN: Final = "no_such_argument"
_CANDIDATES: Final[tuple[Any, ...]] = ({UNKNOWN: [0]}, [{UNKNOWN: 0}], 0.5, "\N{SNOWMAN}", None)


class ToolSuiteContract(PluginContract, plugin=None, prepare=("bench", "tool"), outside=("bench",)):
    """Tests of a suite of tools; the fixture `plugin` of a subclass returns its plugin.

    The suite calls every tool with its examples, each time in a new host and session. `options`
    are the options of `toolstile_tools`, such as `settings`. Before each call the suite calls
    `prepare` with a bench and the tool, to make the things that examples need. `outside` takes a
    bench, and returns the state outside of the session, for comparisons. A person approves every
    question.

    Attributes:
        arguments: Arguments of a call that succeeds, for a tool without examples. A tool that
            needs none is called with `{}`.
        varying: Tools with a new value each time, which is not compared with their examples.

    Example:
        >>> class TestTickets(ToolSuiteContract):
        ...     @pytest.fixture
        ...     def plugin(self):
        ...         return "tickets"
    """

    arguments: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    varying: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        said: Any = cls.arguments
        calls = said.values() if issubclass(said.__class__, Mapping) else [said]
        if not all(issubclass(each.__class__, Mapping) for each in calls):
            refuse(cls, "arguments", 'is to be written as {"tool": {"argument": 1}}')
        if issubclass(type(cls.varying), str):
            refuse(cls, "varying", f'is to be written as {{"{cls.varying}"}}')

    @pytest.fixture
    def prepare(self) -> Callable[[Bench, AnyTool], None]:
        """Return a function that prepares a call of a tool."""
        return lambda bench, tool: None  # noqa: ARG005 - most tools need nothing

    @pytest.fixture
    def outside(self) -> Callable[[Bench], object]:
        """Return a function that returns the state outside of the session."""
        return lambda bench: None  # noqa: ARG005 - most suites keep all in the session

    @pytest.fixture
    def bench(
        self, toolstile_tools: MakeBench, plugin: object, options: Mapping[str, Any]
    ) -> Bench:
        """Return a bench with the suite, on which nothing was called yet."""
        return toolstile_tools(plugin, **{"approver": approve, **options})

    @pytest.fixture
    def suite(self, bench: Bench) -> list[AnyTool]:
        """Return the tools of the suite."""
        return list(bench.host.catalog)

    @pytest.fixture
    def open_for(
        self,
        toolstile_tools: MakeBench,
        plugin: object,
        options: Mapping[str, Any],
        prepare: Callable[[Bench, AnyTool], None],
    ) -> OpenBench:
        """Return a function that opens a bench with further plugins, ready for a tool."""

        def opened(tool: AnyTool, *others: object) -> Bench:
            bench = toolstile_tools(plugin, *others, **{"approver": approve, **options})
            prepare(bench, tool)
            return bench

        return opened

    # --- offer ---

    def test_it_offers_tools(self, suite: list[AnyTool]) -> None:
        assert suite, (
            "The plugin offers no tool. Return sections with tools from toolstile_sections"
        )

    def test_every_tool_has_an_example(self, suite: list[AnyTool]) -> None:
        without = [each.name for each in suite if not self._calls(each)]
        assert not without, (
            f"{', '.join(without)}: no example. Give examples=(ToolExample(...),), or the "
            "arguments of a call that succeeds in `arguments` of this class"
        )

    def test_the_tools_that_are_named_are_offered(self, suite: list[AnyTool]) -> None:
        names = [each.name for each in suite]
        unknown = sorted({*self.arguments, *self.varying}.difference(names))
        assert not unknown, (
            f"{', '.join(unknown)}: no such tool. `arguments` and `varying` of this class can name "
            f"{', '.join(names)}"
        )

    def test_schemas_are_valid(self, suite: list[AnyTool]) -> None:
        for each in suite:
            for codec in (each.params_codec, each.result_codec):
                check_schema(codec.schema())

    def test_every_dialect_takes_them(
        self, suite: list[AnyTool], toolstile_tools: MakeBench
    ) -> None:
        dialects = toolstile_tools("dialects").host.dialects()
        for dialect in dialects.values():
            for each in suite:
                (schema,) = dialect.schemas([each])
                assert each.description in json.dumps(schema, ensure_ascii=False)

    # --- examples ---

    @both_drivers
    def test_examples_give_what_they_say(self, suite: list[AnyTool], open_for: OpenBench) -> None:
        faults: list[str] = []
        for tool in suite:
            expected = [(_arguments(tool, each.input), each.output) for each in tool.examples]
            for arguments, output in expected:
                outcome = open_for(tool).dispatch(ToolCall(tool.name, arguments))
                shown = f"{tool.name} {json.dumps(arguments)}"
                if not outcome.success:
                    faults.append(f"{shown} ended as {outcome.status}: {outcome.text}")
                elif tool.name not in self.varying and outcome.result.value != output:
                    faults.append(f"{shown} gave {outcome.result.value!r}, not {output!r}")
        assert not faults, "\n".join(faults)

    def test_values_are_what_their_type_says(
        self, suite: list[AnyTool], open_for: OpenBench
    ) -> None:
        faults: list[str] = []
        for tool in suite:
            for arguments in self._calls(tool):
                outcome = open_for(tool).dispatch(ToolCall(tool.name, arguments))
                shown = f"{tool.name} {json.dumps(arguments)}"
                assert outcome.success, f"{shown} ended as {outcome.status}: {outcome.text}"
                written = tool.result_codec.encode(outcome.result.value)
                validator = bounded_validator(tool.result_codec.schema())
                faults += [
                    f"{shown} gave {written.decode()}; its type does not allow this: {each.message}"
                    for each in validator.iter_errors(json.loads(written))
                ]
        assert not faults, "\n".join(faults)

    # --- arguments that do not fit ---

    def test_all_faults_of_arguments_are_told_at_once(
        self, suite: list[AnyTool], open_for: OpenBench, outside: Callable[[Bench], object]
    ) -> None:
        for tool in suite:
            wrong = wrong_arguments(tool)
            if wrong:
                _assert_refused(tool, wrong, sorted(wrong), open_for(tool), outside)

    def test_missing_arguments_are_told(
        self, suite: list[AnyTool], open_for: OpenBench, outside: Callable[[Bench], object]
    ) -> None:
        for tool in suite:
            required = required_arguments(tool)
            if required:
                _assert_refused(tool, {}, required, open_for(tool), outside)

    def test_unknown_arguments_are_told(
        self, suite: list[AnyTool], open_for: OpenBench, outside: Callable[[Bench], object]
    ) -> None:
        for tool in suite:
            for arguments in self._calls(tool)[:1]:
                # All but some foreign schemas refuse unknown arguments.
                if tool.params_codec.schema().get("additionalProperties") is False:
                    given = {**arguments, UNKNOWN: 1}
                    _assert_refused(tool, given, [UNKNOWN], open_for(tool), outside)

    # --- rollbacks ---

    @both_drivers
    def test_what_a_failed_call_changed_is_rolled_back(
        self, suite: list[AnyTool], open_for: OpenBench, outside: Callable[[Bench], object]
    ) -> None:
        for tool in suite:
            for arguments in self._calls(tool)[:1]:
                veto = Veto()
                bench = open_for(tool, veto)
                before = state_of(bench), outside(bench)
                veto.is_on = True
                outcome = bench.dispatch(ToolCall(tool.name, arguments))
                veto.is_on = False
                assert outcome.event.stage is Stage.ON_RESULT, f"{tool.name}: {outcome.text}"
                assert (state_of(bench), outside(bench)) == before, tool.name

    @both_drivers
    def test_a_call_that_is_cancelled_before_it_begins_leaves_nothing(
        self, suite: list[AnyTool], open_for: OpenBench, outside: Callable[[Bench], object]
    ) -> None:
        for tool in suite:
            for arguments in self._calls(tool)[:1]:
                bench, stop = open_for(tool), Cancellation()
                stop.cancel()
                call = ToolCall(tool.name, arguments, cancellation=stop)
                _assert_left_alone(tool, call, Status.CANCELLED, bench, outside)

    @both_drivers
    def test_a_call_that_is_cancelled_while_it_runs_leaves_nothing(
        self, suite: list[AnyTool], open_for: OpenBench, outside: Callable[[Bench], object]
    ) -> None:
        for tool in suite:
            for arguments in self._calls(tool)[:1]:
                stop = Cancellation()
                stopping = CancelAtTheEnd()
                bench = open_for(tool, stopping)
                stopping.stop = stop
                call = ToolCall(tool.name, arguments, cancellation=stop)
                _assert_left_alone(tool, call, Status.CANCELLED, bench, outside)

    def _calls(self, tool: AnyTool) -> list[dict[str, Any]]:
        calls = [_arguments(tool, each.input) for each in tool.examples]
        if (given := self.arguments.get(tool.name)) is not None:
            return [*calls, dict(given)]
        return calls if calls or required_arguments(tool) else [{}]


class Veto:
    """A plugin that refuses every success, once it is switched on."""

    def __init__(self) -> None:
        self.is_on = False

    @hookimpl
    def toolstile_on_result(self, tool: AnyTool) -> None:
        if self.is_on:
            raise RuntimeError(f"The suite of tests vetoes {tool.name}.")


class CancelAtTheEnd:
    """A plugin that cancels a call when its handler has done its work."""

    def __init__(self) -> None:
        self.stop: Cancellation | None = None

    @hookimpl(wrapper=True)
    def toolstile_execute(self) -> Generator[None, Any, Any]:
        result = yield
        if self.stop is not None:
            self.stop.cancel()
        return result


def _arguments(tool: AnyTool, given: Any) -> dict[str, Any]:
    if issubclass(given.__class__, Mapping):
        return dict(given)
    return dict(json.loads(tool.params_codec.encode(given)))


def _assert_left_alone(
    tool: AnyTool, call: ToolCall, status: Status, bench: Bench, outside: Callable[[Bench], object]
) -> str:
    """Check that a call ends with a status and has changed nothing; return its text."""
    before = state_of(bench), outside(bench)
    outcome = bench.dispatch(call)
    shown = f"{tool.name} {json.dumps(call.arguments)}: {outcome.text}"
    assert outcome.status is status, shown
    assert (state_of(bench), outside(bench)) == before, shown
    return outcome.text


def _assert_refused(
    tool: AnyTool,
    arguments: dict[str, Any],
    named: list[str],
    bench: Bench,
    outside: Callable[[Bench], object],
) -> None:
    call = ToolCall(tool.name, arguments)
    text = _assert_left_alone(tool, call, Status.INVALID, bench, outside)
    untold = [each for each in named if each not in text]
    assert not untold, f"The message does not name {', '.join(untold)}. {tool.name}: {text}"


def wrong_arguments(tool: Tool[Any, Any]) -> dict[str, Any]:
    """Return a value of a wrong type for every argument that does not take just anything."""
    schema = tool.params_codec.schema()
    wrong: dict[str, Any] = {}
    for name, of_name in schema.get("properties", {}).items():
        whole = {"allOf": [of_name], "$defs": schema.get("$defs", {})}
        validator = bounded_validator(whole)
        refused = [each for each in _CANDIDATES if not validator.is_valid(each)]
        if refused:
            wrong[name] = refused[0]
    return wrong


def required_arguments(tool: Tool[Any, Any]) -> list[str]:
    """Return the names of the arguments that must be given."""
    return list(tool.params_codec.schema().get("required", ()))

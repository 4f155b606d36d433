"""Scripts: a nested call that a script makes, beside the one that a handler makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter

from measuring import Block, Case, Effort, Probe, Row, compare, timed

from toolstile import Executor, Host
from toolstile_hookspecs import MarkdownSection, Prompt, ToolCall, ToolContext, tool
from toolstile_plugins.code import CodeConfig, CodeSection

CONFIG = CodeConfig(max_calls=10_000_000, compute_seconds=600.0, timeout=None)
UNCHECKED = CONFIG.model_copy(update={"type_check": False})

began: list[float] = []


@tool(category="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    began.append(perf_counter())
    return a + b


@tool(category="read", timeout=None, depends_on=["add"])
def call_often(times: int, *, context: ToolContext) -> None:
    """Call add often."""
    for _ in range(times):
        assert context.call("add", {"a": 1, "b": 2}).success


def measure_code(effort: Effort) -> list[Row]:
    """Measure nested calls, and scripts that make none."""
    floor = Probe("add: a nested call of a handler", _calls("call_often", "times", "{}"))
    script = "for _ in range({}): add(1, 2)"
    nested = Probe("add: a nested call of a script", _calls("run_python", "code", script))
    plain = Probe("add: dispatched", _scripts("add", {"a": 1, "b": 2}, CONFIG))
    one = {"code": "1 + 2"}
    checked = Probe("a script without a call", _scripts("run_python", one, CONFIG))
    unchecked = Probe("the same, its types not checked", _scripts("run_python", one, UNCHECKED))
    cases = [Case(nested, floor), Case(checked, plain), Case(unchecked, plain)]
    return compare(cases, effort)


@contextmanager
def _opened(config: CodeConfig) -> Iterator[Executor]:
    section = MarkdownSection(key="tools", title="Tools", tools=[add, call_often])
    prompt = Prompt.of("bench", "code", [section, CodeSection(config=config)])
    with Host(discover=False) as host, host.executor(prompt=prompt) as tools:
        yield tools


def _calls(name: str, key: str, text: str) -> Callable[[], AbstractContextManager[Block]]:
    """Return what measures from the first of its nested calls to the last."""

    @contextmanager
    def opened() -> Iterator[Block]:
        with _opened(CONFIG) as tools:

            def block(times: int) -> float:
                began.clear()
                given = times + 1
                value = given if key == "times" else text.format(given)
                outcome = tools.dispatch(ToolCall(name, {key: value}))
                assert outcome.success, outcome.text
                assert len(began) == given
                return began[-1] - began[0]

            yield block

    return opened


def _scripts(
    name: str, arguments: dict[str, object], config: CodeConfig
) -> Callable[[], AbstractContextManager[Block]]:
    @contextmanager
    def opened() -> Iterator[Block]:
        with _opened(config) as tools:

            def once() -> None:
                assert tools.dispatch(ToolCall(name, arguments)).success

            yield timed(once)

    return opened

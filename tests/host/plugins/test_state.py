"""The object that a plugin's lifespan yields: its hooks take it as `state`, for one host each."""

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager

import pytest

from toolstile import Host, ToolCall
from toolstile.plugins.registry import Plugins
from toolstile.settings import Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    Binding,
    MarkdownSection,
    PluginError,
    PolicyDecision,
    ResourceResolver,
    ToolContext,
    effect_free,
    hookimpl,
    tool,
)


class Shelf:
    """The state of the plugins below."""

    def __init__(self):
        self.notes = []
        self.is_open = True

    def note(self, text):
        assert self.is_open
        self.notes.append(text)


@contextmanager
def shelf():
    made = Shelf()
    try:
        yield made
    finally:
        made.is_open = False


class Sync:
    """A plugin with a sync lifespan, which notes the hooks that get its state."""

    def __init__(self):
        self.shelves = []

    @hookimpl
    @contextmanager
    def toolstile_lifespan(self):
        with shelf() as made:
            self.shelves.append(made)
            yield made

    @hookimpl
    def toolstile_telemetry(self, event, state):
        state.note(event.tool_name)


class Async(Sync):
    """The same with an async lifespan."""

    @hookimpl
    @asynccontextmanager
    async def toolstile_lifespan(self):
        with shelf() as made:
            await asyncio.sleep(0)
            self.shelves.append(made)
            yield made


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def call(host):
    return host.call("add", a=1, b=2)


@pytest.mark.parametrize("kind", [Sync, Async])
def test_hooks_get_the_object_that_the_lifespan_yields(kind):
    plugin = kind()
    with Host(discover=False, plugins=[plugin], tools=[add]) as host:
        call(host)
        assert plugin.shelves[0].notes == ["add"]
    assert not plugin.shelves[0].is_open


def test_each_hook_of_a_call_takes_it():  # noqa: C901 - a hook each
    taken = []

    class Every(Sync):
        @hookimpl
        def toolstile_trace(self, call, state):
            taken.append(("trace", state))

        @hookimpl
        def toolstile_lookup(self, state, call):
            taken.append(("lookup", state))

        @hookimpl(wrapper=True)
        def toolstile_parse(self, call, state, tool):
            taken.append(("parse", state))
            return (yield)

        @hookimpl
        def toolstile_check(self, state, tool):
            taken.append(("check", state))
            return PolicyDecision.ask("Look at it.")

        @hookimpl
        def toolstile_approve(self, request, state):
            taken.append(("approve", state))
            return ApprovalAnswer.approve()

        @hookimpl
        def toolstile_snapshot(self, state):
            taken.append(("snapshot", state))

        @hookimpl
        def toolstile_execute(self, params, state):
            taken.append(("execute", state))

        @hookimpl
        def toolstile_render(self, result, state):
            taken.append(("render", state))

        @hookimpl
        def toolstile_on_result(self, state):
            taken.append(("on_result", state))
            raise ValueError

        @hookimpl
        def toolstile_rollback(self, reason, state):
            taken.append(("rollback", state))

        @hookimpl
        def toolstile_telemetry(self, event, changes, state):
            taken.append(("telemetry", state))

    plugin = Every()
    host = Host(discover=False, plugins=[plugin], tools=[add], settings=Settings(approver="Every"))
    with host, host.executor() as tools:
        assert not tools.dispatch(ToolCall("add", {"a": 1, "b": 2})).success
    hooks = [name for name, _ in taken]
    assert hooks[0] == "trace"
    assert hooks[-1] == "telemetry"
    assert {*hooks} == {
        *("trace", "lookup", "parse", "check", "approve", "snapshot", "execute", "render"),
        *("on_result", "rollback", "telemetry"),
    }
    assert {state for _, state in taken} == {plugin.shelves[0]}


def test_each_host_has_its_own_also_one_that_is_opened_again():
    plugin = Sync()
    one, other = (Host(discover=False, plugins=[plugin], tools=[add]) for _ in range(2))
    with one, other:
        call(one)
        call(other)
    with one:
        call(one)
    assert [len(each.notes) for each in plugin.shelves] == [1, 1, 1]


def test_without_a_yielded_object_it_is_none():
    taken = []

    class Bare:
        @hookimpl
        def toolstile_telemetry(self, state):
            taken.append(state)

    with Host(discover=False, plugins=[Bare()], tools=[add]) as host:
        call(host)
    assert taken == [None]


def test_a_host_that_looks_enters_only_an_effect_free_lifespan():
    class Free(Sync):
        @hookimpl
        @effect_free
        @contextmanager
        def toolstile_lifespan(self):
            with shelf() as made:
                self.shelves.append(made)
                yield made

    plain, free = Sync(), Free()
    host = Host(discover=False, plugins=[free], tools=[add], purpose="look")
    host.register(plain)
    with host, host.executor() as tools:
        tools.dispatch(ToolCall("add", {"a": 1, "b": 2}))
    assert plain.shelves == []
    assert free.shelves[0].notes == ["add"]


def test_a_lifespan_that_is_entered_later_sees_it_through_the_host():
    seen = []

    class First(Sync):
        @hookimpl(tryfirst=True)
        @contextmanager
        def toolstile_lifespan(self):
            with shelf() as made:
                yield made
            seen.append("left")

    class Later:
        @hookimpl
        @contextmanager
        def toolstile_lifespan(self, host):
            seen.append(host.state("First"))
            yield
            assert host.state("First").is_open

    with Host(discover=False, plugins=[First(), Later()]) as host:
        assert host.state("Later") is None
        assert host.state("First") is seen[0]
    assert seen[1:] == ["left"]
    assert host.state("First") is None


# --- Reload


@pytest.mark.parametrize("kind", [Sync, Async])
def test_a_plugin_that_is_registered_again_has_a_new_one_and_the_old_is_closed(kind):
    plugin = kind()
    with Host(discover=False, tools=[add]) as host:
        host.register(plugin, "shelf")
        call(host)
        host.unregister("shelf")
        assert not plugin.shelves[0].is_open
        host.register(plugin, "shelf")
        call(host)
        assert [each.notes for each in plugin.shelves] == [["add"], ["add"]]
        assert plugin.shelves[1].is_open


@pytest.mark.parametrize("kind", [Sync, Async])
def test_the_old_one_is_closed_after_its_last_call(kind):
    plugin, entered, leave = kind(), threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        entered.set()
        leave.wait(10)
        return "waited"

    with Host(discover=False, tools=[add, wait]) as host:
        host.register(plugin, "shelf")
        waiting = threading.Thread(target=lambda: host.call("wait"))
        waiting.start()
        entered.wait(10)
        host.unregister("shelf")
        host.register(plugin, "shelf")
        call(host)
        assert plugin.shelves[0].is_open
        leave.set()
        waiting.join()
    # The call that had begun before still had the old one; `add` had the new one.
    assert [each.notes for each in plugin.shelves] == [["wait"], ["add"]]
    assert not any(each.is_open for each in plugin.shelves)


@pytest.mark.parametrize("kind", [Sync, Async])
def test_a_call_may_unregister_the_plugin_itself(kind):
    plugin = kind()

    @tool
    async def unregister() -> str:
        """Remove the plugin."""
        host.unregister("shelf")
        return "done"

    with Host(discover=False, tools=[unregister]) as host:
        host.register(plugin, "shelf")
        assert host.call("unregister") == "done"
    assert plugin.shelves[0].notes == ["unregister"]
    assert not plugin.shelves[0].is_open


# --- Faults


def hooks_before_lifespans():
    @hookimpl
    def toolstile_sections(state): ...

    @hookimpl
    def toolstile_resources(settings, state): ...

    @hookimpl
    def toolstile_policies(state): ...

    @hookimpl
    def toolstile_commands(state): ...

    @hookimpl
    def toolstile_dialects(state): ...

    @hookimpl
    def toolstile_diagnose(host, state): ...

    @hookimpl
    def toolstile_settings(state): ...

    @hookimpl
    def toolstile_lifespan(state): ...

    return [each for name, each in locals().items() if name.startswith("toolstile_")]


@pytest.mark.parametrize("hook", hooks_before_lifespans(), ids=lambda hook: hook.__name__)
def test_a_hook_that_runs_before_lifespans_cannot_take_it(hook):
    plugin = type("Early", (), {hook.__name__: staticmethod(hook)})()
    with pytest.raises(PluginError) as caught:
        Host(discover=False, plugins=[plugin])
    text = str(caught.value)
    assert "'Early'" in text
    assert f"{hook.__name__} asks for state" in text
    assert "before toolstile_lifespan" in text
    assert "Take state in a hook of a call" in text


# --- By its type


class Reader:
    """Something that a plugin's provider makes from its state."""

    def __init__(self, shelf):
        self.shelf = shelf


class Provided(Sync):
    """A plugin whose resource and handler need its state."""

    @hookimpl
    def toolstile_resources(self):
        def reader(resources: ResourceResolver) -> Reader:
            return Reader(resources.get(Shelf))

        return [Binding(Reader, reader)]

    @hookimpl
    def toolstile_sections(self):
        @tool
        def read(*, context: ToolContext) -> bool:
            """Tell whether the provider and the handler got the same object."""
            return context.resources.get(Reader).shelf is context.resources.get(Shelf)

        return [MarkdownSection(key="shelf", title="Shelf", tools=[read])]


def test_providers_and_handlers_get_it_by_its_type():
    with Host(discover=False, plugins=[Provided()]) as host:
        assert host.call("read") is True


def test_a_binding_of_the_application_wins():
    mine = Shelf()
    with Host(discover=False, plugins=[Sync()], resources={Shelf: mine}) as host:
        assert host.executor().resources.get(Shelf) is mine


def test_a_type_that_two_plugins_yield_names_neither():
    with Host(discover=False, plugins=[Sync(), Async()]) as host:
        assert Shelf not in host.executor().resources


def test_a_built_in_type_names_no_object():
    class Plain:
        @hookimpl
        @contextmanager
        def toolstile_lifespan(self):
            yield {}

    with Host(discover=False, plugins=[Plain()]) as host:
        assert dict not in host.executor().resources


def test_hooks_cost_no_registration_when_no_plugin_has_any():
    plugins = Plugins(settings=Settings())
    before = plugins.view
    plugins.hold({"mute": None})
    assert plugins.view is before

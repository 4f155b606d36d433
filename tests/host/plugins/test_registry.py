"""Plugins are registered whole or not at all, and asked for what they offer."""

import re
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel

from toolstile.plugins.registry import Plugins
from toolstile.settings import Settings
from toolstile_hookspecs import (
    Binding,
    Command,
    MarkdownSection,
    PluginError,
    Prompt,
    Tool,
    ToolResult,
    hookimpl,
    tool,
)


@pytest.fixture
def plugins():
    return Plugins(settings=Settings())


def make_tool(name, **options):
    def function(a: int) -> int:
        return a

    return tool(name=name, description="Return it.", **options)(function)


class Tuning(BaseModel):
    level: int = 1


class Offering:
    """A plugin that offers what it is told to."""

    def __init__(self, *tools, key="offering"):
        self.tools = tools
        self.key = key

    @hookimpl
    def toolstile_sections(self):
        if isinstance(self.tools, Exception):
            raise self.tools
        return [MarkdownSection(key=self.key, title="Offering", tools=self.tools)]


# --- Registration ------------------------------------------------------------------------


def test_a_plugin_from_python_is_reported(plugins):
    report = plugins.register(
        Offering(make_tool("one")), "mine", distribution="mine-dist", version="1.2"
    )
    assert plugins.reports == (report,)
    assert (report.name, report.source, report.status) == ("mine", "python", "loaded")
    assert (report.distribution, report.version) == ("mine-dist", "1.2")
    assert (report.hooks, report.tools) == (("toolstile_sections",), ("one",))
    assert report.summary == "A plugin that offers what it is told to."
    assert str(report) == "Plugin 'mine' (mine-dist 1.2): loaded."


def test_without_a_name_it_is_called_as_its_class_or_module(plugins):
    assert plugins.register(Offering()).name == "Offering"


def test_a_fault_from_python_raises_and_leaves_nothing(plugins):
    class Broken(Offering):
        @hookimpl
        def toolstile_resources(self):
            raise OSError("gone")

    generation = plugins.view.generation
    with pytest.raises(PluginError, match=r"Plugin 'b' \(dist 3\) is not registered: .*gone"):
        plugins.register(Broken(make_tool("one")), "b", distribution="dist", version="3")
    assert plugins.reports == ()
    assert plugins.view.sections == ()
    assert plugins.implementations("toolstile_sections") == ()
    assert plugins.view.generation == generation
    plugins.register(Offering(make_tool("one")), "b")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("desk", r"the text 'desk' has none\. Write Host\(discover=\[name\]\), or Host\(plugin_f"),
        (
            Path("desk.py"),
            r"Path has none\. Write Host\(discover=\[name\]\), or Host\(plugin_files",
        ),
        (None, r"and nothing has none\. Give a module, or an object with"),
        (5, r"and the number 5 has none\. Give a module"),
        ({"desk": 5}, r"and a table has none\. Give a module"),
        ([], r"and an array has none\. Give a module"),
    ],
)
def test_a_plain_value_is_no_plugin_and_is_told_what_to_write(plugins, given, told):
    with pytest.raises(PluginError, match=told):
        plugins.register(given)
    assert plugins.reports == ()


class Rule:
    name = "rule"

    def check(self, tool, params, *, context):
        return None

    def on_result(self, tool, params, result, *, context):
        return None


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Rule, r"an instance of Rule has none\. .* write Host\(policies=\[...\]\)"),
        (lambda: Rule, r"the class Rule has none\. .* write Host\(policies=\[...\]\)"),
        (lambda: make_tool("one"), r"of FunctionTool has none\. Write Host\(tools=\[...\]\)"),
        (lambda: MarkdownSection(key="a", title="A"), "offer sections in the hook toolstile_sec"),
    ],
)
def test_what_belongs_elsewhere_is_not_taken_for_a_plugin_without_hooks(plugins, make, told):
    with pytest.raises(PluginError, match=told):
        plugins.register(make())
    assert plugins.reports == ()


def test_a_policy_may_be_a_plugin_where_it_has_a_hook(plugins):
    class Both(Rule):
        @hookimpl
        def toolstile_rollback(self):
            return None

    assert plugins.register(Both()).hooks == ("toolstile_rollback",)


def test_a_plugin_may_be_a_mapping_with_hooks(plugins):
    class InstanceCache(dict):
        @hookimpl
        def toolstile_rollback(self):
            return None

    assert plugins.register(InstanceCache()).hooks == ("toolstile_rollback",)


def test_an_object_without_hooks_is_taken_with_a_warning(plugins, caplog):
    class Desk:
        def toolstilecheck(self):
            return None

    report = plugins.register(Desk())
    assert (report.status, report.fault) == ("loaded", "It implements no hook.")
    assert "Plugin 'Desk': It implements no hook. Mark functions" in caplog.text


def test_a_name_is_given_once(plugins):
    plugins.register(Offering(), "mine")
    with pytest.raises(PluginError, match=r"The name 'mine' is taken by plugin 'mine'"):
        plugins.register(Offering(key="other"), "mine")


def test_an_object_is_registered_once(plugins):
    offering = Offering()
    plugins.register(offering, "mine")
    with pytest.raises(PluginError, match="registered already as 'mine'"):
        plugins.register(offering, "yours")


def test_an_unregistered_plugin_is_gone_and_can_come_back(plugins):
    offering = Offering(make_tool("one"))
    plugins.register(offering, "mine")
    plugins.unregister("mine")
    assert plugins.reports == plugins.view.sections == plugins.catalog.names() == ()
    assert plugins.implementations("toolstile_sections") == ()
    plugins.register(offering, "mine")
    assert plugins.catalog.names() == ("one",)


def test_what_is_not_registered_is_told_with_the_nearest_name(plugins):
    plugins.register(Offering(), "offering")
    with pytest.raises(PluginError, match=r"Unknown plugin 'ofering'. Did you mean 'offering'\?"):
        plugins.unregister("ofering")
    with pytest.raises(PluginError, match="See `toolstile plugins`"):
        plugins.settings_of("zzz")


def test_the_generation_grows_with_every_change(plugins):
    seen = [plugins.view.generation]
    plugins.register(Offering(make_tool("one")), "mine")
    seen.append(plugins.view.generation)
    plugins.catalog.invalidate("mine")
    seen.append(plugins.view.generation)
    plugins.unregister("mine")
    seen.append(plugins.view.generation)
    assert seen == sorted(set(seen))


def test_a_plugin_that_cannot_be_looked_at_is_refused(plugins):
    class Hiding:
        def __dir__(self):
            raise OSError("hidden")

    with pytest.raises(PluginError, match=r"cannot be registered: OSError: hidden\."):
        plugins.register(Hiding())
    assert plugins.reports == ()


def test_a_class_with_static_hooks_can_be_a_plugin(plugins):
    class Static:
        @staticmethod
        @hookimpl
        def toolstile_telemetry(event):
            return event

    assert plugins.register(Static).name == "Static"
    assert plugins.implementations("toolstile_telemetry")[0].call("e") == "e"


# --- Implementations ---------------------------------------------------------------------


def test_implementations_take_all_arguments_of_the_hook_and_pass_on_those_wanted(plugins):
    class All:
        @hookimpl
        def toolstile_check(self, tool, params, context):
            return (tool, params, context)

    class Some:
        @hookimpl
        def toolstile_check(self, context, tool):
            return (context, tool)

    class Nothing:
        @hookimpl
        def toolstile_check(self):
            return "nothing"

    for each in (All(), Some(), Nothing()):
        plugins.register(each)
    found = {each.plugin: each for each in plugins.implementations("toolstile_check")}
    assert found["All"].call(1, 2, 3) == (1, 2, 3)
    assert found["Some"].call(1, 2, 3) == (3, 1)
    assert found["Nothing"].call(1, 2, 3) == "nothing"
    assert [found[name].wants_params for name in ("All", "Some", "Nothing")] == [True, False, False]


def test_one_that_takes_all_arguments_in_order_is_called_directly(plugins):
    class All:
        @hookimpl
        def toolstile_check(self, tool, params, context): ...

    each = All()
    plugins.register(each)
    assert plugins.implementations("toolstile_check")[0].call == each.toolstile_check


def test_observers_of_calls_have_their_settings_bound_where_they_want_them(plugins):
    class Tuned:
        @hookimpl
        def toolstile_settings(self):
            return Tuning

        @hookimpl
        def toolstile_trace(self, settings, call):
            return (settings, call)

        @hookimpl
        def toolstile_telemetry(self, event):
            return event

    plugins.register(Tuned(), "tuned")
    ((settings, call),) = [each.call("c") for each in plugins.implementations("toolstile_trace")]
    assert (settings, call) == (plugins.settings_of("tuned"), "c")
    plugins.configure(Settings(plugins={"tuned": {"level": 2}}))
    assert plugins.implementations("toolstile_trace")[0].call("c")[0].level == 2
    assert plugins.implementations("toolstile_telemetry")[0].call("e") == "e"


STAGES = (
    "toolstile_trace",
    "toolstile_lookup",
    "toolstile_parse",
    "toolstile_check",
    "toolstile_snapshot",
    "toolstile_execute",
    "toolstile_render",
    "toolstile_on_result",
    "toolstile_rollback",
    "toolstile_telemetry",
)


@pytest.mark.parametrize("hook", sorted(STAGES))
def test_every_hook_of_a_call_gives_the_plugin_its_settings(plugins, hook):
    class Tuned:
        @hookimpl
        def toolstile_settings(self):
            return Tuning

    def taken(self, settings):
        return settings

    setattr(Tuned, hook, hookimpl(taken))
    plugins.register(Tuned(), "tuned")
    given = {
        "toolstile_trace": 1,
        "toolstile_on_result": 4,
        "toolstile_rollback": 4,
        "toolstile_check": 3,
        "toolstile_execute": 3,
        "toolstile_telemetry": 1,
    }.get(hook, 2)
    (found,) = plugins.implementations(hook)
    assert found.call(*range(given)) == plugins.settings_of("tuned")


def test_a_method_a_static_and_a_class_method_are_called_alike(plugins):
    class Mixed:
        @staticmethod
        @hookimpl
        def toolstile_lookup(call):
            return ("static", call)

        @classmethod
        @hookimpl
        def toolstile_telemetry(cls, event):
            return (cls.__name__, event)

    plugins.register(Mixed())
    assert plugins.implementations("toolstile_lookup")[0].call("c", "k") == ("static", "c")
    assert plugins.implementations("toolstile_telemetry")[0].call("e") == ("Mixed", "e")


def test_the_order_is_last_registered_first_between_tryfirst_and_trylast(plugins):
    def with_options(**options):
        class Plugin:
            @hookimpl(**options)
            def toolstile_telemetry(self, event): ...

        return Plugin()

    plugins.register(with_options(trylast=True), "last")
    plugins.register(with_options(), "a")
    plugins.register(with_options(tryfirst=True), "first")
    plugins.register(with_options(), "b")
    order = [each.plugin for each in plugins.implementations("toolstile_telemetry")]
    assert order == ["first", "b", "a", "last"]


def test_wrappers_are_apart_the_outermost_first(plugins):
    class Wrapper:
        @hookimpl(wrapper=True)
        def toolstile_parse(self, call):
            return (yield), call

    class Plain:
        @hookimpl
        def toolstile_parse(self, tool): ...

    plugins.register(Wrapper(), "inner")
    plugins.register(Plain(), "plain")
    plugins.register(Wrapper(), "outer")
    assert [each.plugin for each in plugins.wrappers("toolstile_parse")] == ["outer", "inner"]
    assert [each.plugin for each in plugins.implementations("toolstile_parse")] == ["plain"]
    generator = plugins.wrappers("toolstile_parse")[0].call("tool", "call")
    next(generator)
    with pytest.raises(StopIteration) as stopped:
        generator.send("params")
    assert stopped.value.value == ("params", "call")


def test_an_unknown_hook_may_be_optional(plugins):
    class FromTheFuture:
        @hookimpl(optionalhook=True)
        def toolstile_future(self, anything): ...

    assert plugins.register(FromTheFuture()).status == "loaded"


def test_a_hook_can_be_implemented_twice_under_another_name(plugins):
    class Twice:
        @hookimpl
        def toolstile_telemetry(self, event):
            return 1

        @hookimpl(specname="toolstile_telemetry")
        def toolstile_telemetry_too(self, event):
            return 2

    report = plugins.register(Twice())
    assert report.hooks == ("toolstile_telemetry",)
    answers = [each.call(None) for each in plugins.implementations("toolstile_telemetry")]
    assert sorted(answers) == [1, 2]


def test_properties_and_imported_modules_are_left_alone(plugins):
    class Careful:
        import toolstile_hookspecs

        toolstile_status = make_tool("status")

        @property
        def toolstile_property(self):
            raise AssertionError("must not be read")

    assert plugins.register(Careful()).hooks == ()


# --- Settings, and what else is offered ------------------------------------------------


class Limits(BaseModel):
    most: int = 3


@dataclass(frozen=True)
class Tracker:
    most: int


class Configured:
    @hookimpl
    def toolstile_settings(self):
        return Limits

    @hookimpl
    def toolstile_resources(self, settings):
        return [Binding(Tracker, lambda resources: Tracker(settings.most))]

    @hookimpl
    def toolstile_policies(self, settings):
        return {"tracker": Tracker}

    @hookimpl
    def toolstile_sections(self, settings):
        return [MarkdownSection(key=f"most-{settings.most}", title="Most")]


def test_every_hook_is_given_the_plugins_own_settings():
    plugins = Plugins(settings=Settings(plugins={"mine": {"most": 7}}))
    plugins.register(Configured(), "mine")
    assert plugins.settings_of("mine") == Limits(most=7)
    assert [each.key for each in plugins.view.sections] == ["most-7"]
    assert plugins.view.policies == {"tracker": Tracker}
    (binding,) = plugins.view.bindings
    assert binding.provider(None) == Tracker(7)


def test_without_a_table_the_models_defaults_hold_and_without_a_model_none(plugins):
    plugins.register(Configured(), "mine")
    plugins.register(Offering(), "other")
    assert plugins.settings_of("mine") == Limits(most=3)
    assert plugins.settings_of("other") is None


def test_a_plugin_may_say_that_it_takes_no_settings():
    class Undecided:
        @hookimpl
        def toolstile_settings(self):
            return None

        @hookimpl
        def toolstile_policies(self):
            return None

    plugins = Plugins(settings=Settings(plugins={"b": {"most": 3}}))
    plugins.register(Undecided(), "a")
    assert plugins.settings_of("a") is None
    with pytest.raises(PluginError, match=r"plugins\.b: the plugin takes no settings, found most"):
        plugins.register(Undecided(), "b")


def test_what_another_plugin_offers_already_is_refused(plugins):
    plugins.register(Configured(), "mine", distribution="mine-dist", version="1")

    class SameKind:
        @hookimpl
        def toolstile_policies(self):
            return {"tracker": Tracker}

    class SameType:
        @hookimpl
        def toolstile_resources(self):
            return [Binding(Tracker, lambda resources: Tracker(1))]

    with pytest.raises(PluginError, match=r"kind 'tracker', which plugin 'mine' \(mine-dist 1\)"):
        plugins.register(SameKind())
    with pytest.raises(PluginError, match=r"binds Tracker, which plugin 'mine' \(mine-dist 1\)"):
        plugins.register(SameType())


def test_sections_keep_the_order_of_registration_and_of_writing(plugins):
    class Two:
        @hookimpl
        def toolstile_sections(self):
            return [MarkdownSection(key=key, title=key) for key in ("z", "a")]

    plugins.register(Offering(key="m"))
    plugins.register(Two())
    assert [each.key for each in plugins.view.sections] == ["m", "z", "a"]


def test_the_sections_of_all_plugins_make_a_prompt(plugins):
    plugins.register(Offering(make_tool("one"), key="a"), "a")
    plugins.register(Offering(make_tool("two"), key="b"), "b")
    rendered = Prompt.of("test", "all", plugins.view.sections).render()
    assert [each.name for each in rendered.tools] == ["one", "two"]


class Speaker:
    def __init__(self, name):
        self.name = name


class Speaking:
    def __init__(self, *names):
        self.names = names
        self.asked = 0

    @hookimpl
    def toolstile_dialects(self):
        self.asked += 1
        for name in self.names:
            if isinstance(name, Exception):
                raise name
            yield Speaker(name)


def test_dialects_are_asked_for_late_and_once(plugins):
    speaking = Speaking("latin")
    plugins.register(speaking)
    assert speaking.asked == 0
    assert plugins.dialects()["latin"] is plugins.dialects()["latin"]
    assert speaking.asked == 1


def test_a_dialects_fault_is_reported_and_takes_no_other_down(plugins):
    plugins.register(Speaking("latin", "greek"), "a")
    plugins.register(Speaking("latin", "norse"), "b")
    plugins.register(Speaking(OSError("dumb")), "c")
    plugins.register(Speaking(None), "d")
    assert list(plugins.dialects()) == ["latin", "greek", "norse"]
    faults = {each.name: each for each in plugins.reports}
    assert faults["a"].fault is None
    assert faults["b"].fault == "It offers the dialect 'latin', which plugin 'a' has already."
    assert faults["c"].fault == "toolstile_dialects raised OSError: dumb."
    assert (
        faults["d"].fault
        == "toolstile_dialects returned an instance of Speaker, which it must not."
    )
    assert all(faults[name].status == "loaded" and faults[name].remedy for name in "bcd")


def test_a_commands_fault_is_reported_and_takes_no_other_down(plugins):
    class Commanding:
        def __init__(self, *commands):
            self.commands = commands

        @hookimpl
        def toolstile_commands(self):
            return self.commands

    go = Command("go", "Go.", run=lambda host, options: 0)
    more = Command("run", extends=True)
    plugins.register(Commanding(go, more), "a")
    plugins.register(Commanding(Command("go"), more, "stop"), "b")
    assert plugins.commands() == (go, more, more)
    fault = {each.name: each.fault for each in plugins.reports}["b"]
    assert fault == (
        "It offers the command 'go', which plugin 'a' has already. "
        "toolstile_commands returned an instance of str, which it must not."
    )


def test_a_remedy_for_several_faults_is_told_once(plugins):
    class Commanding:
        @hookimpl
        def toolstile_commands(self):
            return [Command(name, "Go.", run=lambda host, options: 0) for name in ("go", "run")]

    plugins.register(Commanding(), "a")
    plugins.register(Commanding(), "b")
    plugins.commands()
    report = {each.name: each for each in plugins.reports}["b"]
    assert report.fault.count("which plugin 'a' has already.") == 2
    assert (
        report.remedy
        == "Rename it in the plugin, or switch one of the two off with TOOLSTILE_BLOCK."
    )


# --- The catalog -------------------------------------------------------------------------


def test_the_catalog_finds_a_tool_by_name_and_wire_name(plugins):
    one = make_tool("one", wire_name="theOne")
    plugins.register(Offering(one, make_tool("two")), "mine")
    catalog = plugins.catalog
    assert catalog.get("one") is catalog.get("theOne") is one
    assert catalog.get("three") is None
    assert catalog.names() == ("one", "two")
    assert [each.name for each in catalog] == ["one", "two"]
    assert len(catalog) == 2
    assert catalog.plugin_of("one") == catalog.plugin_of("theOne") == "mine"
    assert catalog.plugin_of("three") is None


def test_a_tool_in_two_sections_of_a_plugin_is_one_tool(plugins):
    one = make_tool("one")

    class Two:
        @hookimpl
        def toolstile_sections(self):
            novice = MarkdownSection(key="a", title="A", tools=[one], enabled=lambda _: True)
            expert = MarkdownSection(key="b", title="B", tools=[one], enabled=lambda _: False)
            return [novice, expert]

    plugins.register(Two())
    assert plugins.catalog.names() == ("one",)


def test_invalidating_a_plugin_swaps_its_tools(plugins):
    offering = Offering(make_tool("one"))
    plugins.register(offering, "mine")
    offering.tools = (make_tool("two"),)
    assert plugins.catalog.names() == ("one",)
    plugins.catalog.invalidate("mine")
    assert plugins.catalog.names() == ("two",)
    assert plugins.reports[0].tools == ("two",)


@pytest.mark.parametrize(
    ("tools", "cause"),
    [
        (OSError("gone"), "toolstile_sections raised OSError: gone"),
        ((make_tool("taken"),), "the tool 'taken', a name that plugin 'other' has already"),
    ],
)
def test_a_fault_while_invalidating_keeps_the_tools_and_is_reported(plugins, tools, cause):
    offering = Offering(make_tool("one"))
    plugins.register(offering, "mine")
    plugins.register(Offering(make_tool("taken"), key="other"), "other")
    offering.tools = tools
    with pytest.raises(PluginError, match=f"Plugin 'mine' keeps the tools it had: .*{cause}"):
        plugins.catalog.invalidate("mine")
    assert plugins.catalog.names() == ("one", "taken")
    report = plugins.reports[0]
    assert report.status == "loaded"
    assert re.search(cause, report.fault)

    offering.tools = (make_tool("three"),)
    plugins.catalog.invalidate("mine")
    assert plugins.reports[0].fault is None


def test_invalidating_what_is_not_there_is_an_error(plugins):
    with pytest.raises(PluginError, match="Unknown plugin 'mine'"):
        plugins.catalog.invalidate("mine")


def test_of_two_invalidations_at_once_the_later_asked_holds(plugins):
    answered, go_on = threading.Event(), threading.Event()

    class Slow:
        tools = ("old",)
        waits = False

        @hookimpl
        def toolstile_sections(self):
            names = self.tools
            if self.waits:
                answered.set()
                go_on.wait(5)
            return [MarkdownSection(key="s", title="S", tools=[make_tool(n) for n in names])]

    slow = Slow()
    plugins.register(slow, "slow")
    slow.waits = True
    first = threading.Thread(target=plugins.catalog.invalidate, args=["slow"])
    first.start()
    answered.wait(5)
    slow.waits, slow.tools = False, ("new",)
    plugins.catalog.invalidate("slow")
    go_on.set()
    first.join(5)
    assert plugins.catalog.names() == ("new",)


def test_a_plugin_unregistered_while_it_is_asked_stays_away(plugins):
    class Leaving(Offering):
        @hookimpl
        def toolstile_sections(self):
            if "mine" in {each.name for each in plugins.reports}:
                plugins.unregister("mine")
            return super().toolstile_sections()

    plugins.register(Leaving(make_tool("one")), "mine")
    plugins.catalog.invalidate("mine")
    assert plugins.catalog.names() == ()
    assert plugins.reports == ()


# --- Prefixes ------------------------------------------------------------------------------


def test_a_prefix_resolves_a_clash_of_tool_names_and_sections():
    plugins = Plugins(settings=Settings(plugins={"b": {"prefix": "b_"}}))
    plugins.register(Offering(make_tool("read", wire_name="Read")), "a")
    plugins.register(Offering(make_tool("read", wire_name="Read")), "b")
    assert plugins.catalog.names() == ("read", "b_read")
    assert plugins.catalog.plugin_of("b_read") == "b"
    assert plugins.catalog.get("Read").name == "read"
    assert [each.key for each in plugins.view.sections] == ["offering", "b_offering"]
    Prompt.of("test", "all", plugins.view.sections).render()


def test_the_wire_name_of_a_prefixed_tool_gives_way_whoever_comes_first():
    plugins = Plugins(settings=Settings(plugins={"b": {"prefix": "b_"}}))
    plugins.register(Offering(make_tool("read", wire_name="Read")), "b")
    assert plugins.catalog.get("Read").name == "b_read"
    plugins.register(Offering(make_tool("read", wire_name="Read"), key="other"), "a")
    assert plugins.catalog.get("Read").name == "read"


def elsewhere(name, wire_name, origin):
    return Tool[None, None](
        name=name, description="Do.", handler=nothing, wire_name=wire_name, origin=origin
    )


def nothing(params, *, context):
    return ToolResult.ok(None)


def test_wire_names_of_tools_from_elsewhere_serve_only_where_nobody_else_has_them(plugins):
    mine = make_tool("read")
    plugins.register(Offering(mine), "mine")
    away = (
        elsewhere("a_read", "read", "a"),
        elsewhere("a_find", "find", "a"),
        elsewhere("b_find", "find", "b"),
        elsewhere("b_show", "Show", "b"),
    )
    plugins.register(Offering(*away, key="away"), "away")
    assert plugins.catalog.get("read") is mine
    assert plugins.catalog.get("find") is None
    assert plugins.catalog.get("Show").name == "b_show"


# --- Switching off -----------------------------------------------------------------------


def test_a_blocked_plugin_is_reported_and_not_registered():
    plugins = Plugins(settings=Settings(block=("mine",)), block=["yours"])
    for name in ("mine", "yours"):
        report = plugins.register(Offering(make_tool("one")), name)
        assert report.status == "blocked"
        assert report.remedy
    assert plugins.catalog.names() == ()
    assert plugins.implementations("toolstile_sections") == ()
    assert "TOOLSTILE_BLOCK or `block`" in plugins.reports[0].fault
    assert "--block" in plugins.reports[1].fault


def test_a_table_can_switch_a_plugin_off():
    plugins = Plugins(settings=Settings(plugins={"mine": {"enabled": False, "url": 3}}))
    report = plugins.register(Offering(), "mine")
    assert report.status == "blocked"
    assert report.fault == "It is switched off by plugins.mine.enabled in the configuration."

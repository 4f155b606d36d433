"""A broken plugin is reported with cause and remedy, leaves nothing, and harms no other."""

import logging
import re

import pytest

WORKS = """
    from dataclasses import dataclass
    from pydantic import BaseModel
    from toolstile_hookspecs import Binding, MarkdownSection, hookimpl, tool

    class BrokenResource:
        pass

    class BrokenPolicy:
        pass

    @tool
    def broken_tool(a: int) -> int:
        "Return it."
        return a

    @hookimpl
    def toolstile_check(tool):
        return None

    @hookimpl
    def toolstile_policies():
        return {"broken_kind": BrokenPolicy}

    @hookimpl
    def toolstile_resources():
        return [Binding(BrokenResource, lambda resources: BrokenResource())]

    @hookimpl
    def toolstile_sections():
        return [MarkdownSection(key="broken", title="B", tools=[broken_tool])]
"""
"""Without anything added, this plugin is without fault; so only the addition is to blame."""


def case(name, source, cause, remedy):
    return pytest.param(source, cause, remedy, id=name)


IMPORTS = [
    case(
        "a dependency is missing",
        "import zqnothing",
        r"broken cannot be imported: it needs the module 'zqnothing', which is not installed\.",
        r"Install the package that provides 'zqnothing', "
        r"or switch it off with TOOLSTILE_BLOCK=broken\.",
    ),
    case(
        "it has a syntax error",
        "def (:",
        r"SyntaxError: invalid syntax",
        r"Reinstall broken in a version that works here",
    ),
    case(
        "it raises while it is imported",
        "raise RuntimeError('no\\nserver')",
        r"broken cannot be imported: RuntimeError: no server\.",
        r"TOOLSTILE_BLOCK=broken\. Its author finds the place with `toolstile check broken`\.",
    ),
    case(
        "it ends the process while it is imported",
        "raise SystemExit(3)",
        r"broken cannot be imported: SystemExit: 3\.",
        r"TOOLSTILE_BLOCK=broken",
    ),
]

HOOKS = [
    case(
        "a hook does not exist",
        "@hookimpl\ndef toolstile_telemetri(event): ...",
        r"There is no hook toolstile_telemetri\.",
        r"Did you mean toolstile_telemetry\?",
    ),
    case(
        "a hook is like no other",
        "@hookimpl\ndef toolstile_xyzzyx(): ...",
        r"There is no hook toolstile_xyzzyx\.",
        r"The hooks are toolstile_approve, toolstile_approve_turn, toolstile_check, ",
    ),
    case(
        "an argument does not exist",
        "@hookimpl\ndef toolstile_rollback(tool, reasn): ...",
        r"toolstile_rollback has no argument reasn; it has tool, params, context, reason, "
        r"settings, state\. Did you mean reason\?",
        r"by their names",
    ),
    case(
        "an argument where there are none",
        "@hookimpl\ndef toolstile_commands(host): ...",
        r"toolstile_commands has no argument host; it has none\.",
        r"leave out all others",
    ),
    case(
        "an old wrapper",
        "@hookimpl(hookwrapper=True)\ndef toolstile_execute(tool):\n    yield",
        r"toolstile_execute is a wrapper of the old form, hookwrapper=True",
        r"@hookimpl\(wrapper=True\).*`result = yield`.*`return result`",
    ),
    case(
        "an old wrapper where none can be",
        "@hookimpl(hookwrapper=True)\ndef toolstile_telemetry(event):\n    yield",
        r"toolstile_telemetry is a wrapper of the old form, hookwrapper=True",
        r"Write it with def, and return the answer; .*toolstile_trace",
    ),
    case(
        "a wrapper where none can be",
        "@hookimpl(wrapper=True)\ndef toolstile_lookup(call):\n    return (yield)",
        r"toolstile_lookup is a wrapper, which it cannot be\.",
        r"Write it with def or async def, and return the answer",
    ),
    case(
        "a wrapper in place of a context manager",
        "@hookimpl(wrapper=True)\ndef toolstile_trace(call):\n    return (yield)",
        r"toolstile_trace is a wrapper, which it cannot be\.",
        r"Return a context manager: write @contextmanager between",
    ),
    case(
        "a wrapper that is an async generator",
        "@hookimpl(wrapper=True)\nasync def toolstile_execute(tool):\n    yield",
        r"toolstile_execute is an async generator",
        r"@hookimpl\(wrapper=True\) and def",
    ),
    case(
        "a wrapper that does not yield",
        "@hookimpl(wrapper=True)\ndef toolstile_render(tool):\n    return ''",
        r"toolstile_render is a wrapper that does not yield",
        r"`result = yield`",
    ),
    case(
        "a generator in place of a wrapper",
        "@hookimpl\ndef toolstile_parse(tool):\n    return (yield)",
        r"toolstile_parse is a generator",
        r"@hookimpl\(wrapper=True\)",
    ),
    case(
        "a generator in place of a context manager",
        "@hookimpl\ndef toolstile_lifespan(host):\n    yield",
        r"toolstile_lifespan is a generator",
        r"@contextmanager",
    ),
    case(
        "an async generator in place of a context manager",
        "@hookimpl\nasync def toolstile_lifespan(host):\n    yield",
        r"toolstile_lifespan is an async generator",
        r"@asynccontextmanager",
    ),
    case(
        "an async generator in place of an answer",
        "@hookimpl\nasync def toolstile_check(tool):\n    yield",
        r"toolstile_check is an async generator",
        r"Write it with def or async def, and return the answer",
    ),
    case(
        "a hook that is never awaited is async",
        "@hookimpl\nasync def toolstile_telemetry(event): ...",
        r"toolstile_telemetry is async, which it cannot be",
        r"Write it with def",
    ),
    case(
        "a hook is not marked",
        "def toolstile_telemetry(event): ...",
        r"toolstile_telemetry is not marked with @hookimpl, so it would never be called\.",
        r"Write @hookimpl above it",
    ),
    case(
        "a misspelt hook is not marked",
        "def toolstile_telemetri(event): ...",
        r"toolstile_telemetri is not marked.*\(toolstile_telemetry is a hook\)",
        r"Write @hookimpl above it",
    ),
    case(
        "a hook is not a function",
        "toolstile_telemetry = 3",
        r"toolstile_telemetry is not a function",
        r"Write it as a function",
    ),
    case(
        "a marked function is not named as hooks are",
        "@hookimpl(specname='toolstile_telemetry')\ndef watch(event): ...",
        r"watch is marked with @hookimpl, but is not named as hooks are",
        r"Let its name begin with toolstile_",
    ),
    case(
        "an argument has a default",
        "@hookimpl\ndef toolstile_telemetry(event=None): ...",
        r"toolstile_telemetry takes event=None, but an argument of a hook has no default",
        r"Name those it wants of event, changes, diff, settings, state, and nothing else\.",
    ),
    case(
        "an argument is taken by keyword only",
        "@hookimpl\ndef toolstile_telemetry(*, event): ...",
        r"toolstile_telemetry takes event, but an argument of a hook has .* no \*",
        r"Name those it wants of event, changes, diff, settings, state, and nothing else\.",
    ),
    case(
        "it takes any arguments",
        "@hookimpl\ndef toolstile_telemetry(*events): ...",
        r"toolstile_telemetry takes \*events,",
        r"Name those it wants of event, changes, diff, settings, state, and nothing else\.",
    ),
    case(
        "it takes any keywords",
        "@hookimpl\ndef toolstile_telemetry(**events): ...",
        r"toolstile_telemetry takes \*\*events,",
        r"Name those it wants of event, changes, diff, settings, state, and nothing else\.",
    ),
]

OFFERS = [
    case(
        "the settings are no model",
        "@hookimpl\ndef toolstile_settings():\n    return dict",
        r"toolstile_settings returned the class dict, which it must not",
        r"Return a pydantic model, the class itself",
    ),
    case(
        "the settings are an instance in place of the class",
        "class S(BaseModel):\n    url: str = ''\n"
        "@hookimpl\ndef toolstile_settings():\n    return S()",
        r"toolstile_settings returned an instance of S, which it must not",
        r"Return a pydantic model, the class itself",
    ),
    case(
        "the settings take a key of the host's",
        "class S(BaseModel):\n    prefix: str = ''\n"
        "@hookimpl\ndef toolstile_settings():\n    return S",
        r"has the field 'prefix', a key of the host",
        r"Give the field another name",
    ),
    case(
        "the settings have a type that nothing defines",
        "class S(BaseModel):\n    url: 'flot' = 1\n"
        "@hookimpl\ndef toolstile_settings():\n    return S",
        r"toolstile_settings raised PydanticUndefinedAnnotation: name 'flot' is not defined\.",
        r"Fix the plugin, or block it with TOOLSTILE_BLOCK",
    ),
    case(
        "a key that must be there is missing",
        "class S(BaseModel):\n    url: str\n@hookimpl\ndef toolstile_settings():\n    return S",
        r"the configuration: plugins\.broken\.url: is missing",
        r"Its settings are written below \[plugins\.broken\] in a toolstile\.toml, here or",
    ),
    case(
        "a hook raises",
        "@hookimpl\ndef toolstile_settings():\n    raise OSError('gone')",
        r"toolstile_settings raised OSError: gone\.",
        r"block it with TOOLSTILE_BLOCK",
    ),
    case(
        "the policies are no mapping",
        "@hookimpl\ndef toolstile_policies():\n    return [BrokenPolicy]",
        r"toolstile_policies returned an instance of list, which it must not",
        r"Return a mapping",
    ),
    case(
        "a policy is no class",
        "@hookimpl\ndef toolstile_policies():\n    return {'broken_kind': BrokenPolicy()}",
        r"toolstile_policies returned an instance of BrokenPolicy",
        r"Return a class for the kind 'broken_kind'",
    ),
    case(
        "a resource is no binding",
        "@hookimpl\ndef toolstile_resources():\n    return [BrokenResource()]",
        r"toolstile_resources returned an instance of BrokenResource",
        r"Return bindings",
    ),
    case(
        "a type is bound twice",
        "@hookimpl\ndef toolstile_resources():\n"
        "    return [Binding(BrokenResource, lambda resources: BrokenResource())] * 2",
        r"It binds BrokenResource twice",
        r"Remove one",
    ),
    case(
        "the sections raise half-way",
        "@hookimpl\ndef toolstile_sections():\n"
        "    yield MarkdownSection(key='broken', title='B', tools=[broken_tool])\n"
        "    raise ValueError('half-way')",
        r"toolstile_sections raised ValueError: half-way\.",
        r"Fix the plugin",
    ),
    case(
        "tools in place of sections",
        "@hookimpl\ndef toolstile_sections():\n    return [broken_tool]",
        r"toolstile_sections returned an instance of FunctionTool",
        r"Return sections: MarkdownSection\(.*tools=",
    ),
    case(
        "one section in place of several",
        "@hookimpl\ndef toolstile_sections():\n    return MarkdownSection(key='broken', title='B')",
        r"toolstile_sections returned an instance of MarkdownSection",
        r"Return a list",
    ),
    case(
        "something that is no section",
        "@hookimpl\ndef toolstile_sections():\n    return [object()]",
        r"toolstile_sections returned an instance of object",
        r"Return sections",
    ),
    case(
        "a coroutine in place of sections",
        "async def later(): ...\n@hookimpl\ndef toolstile_sections():\n    return later()",
        r"toolstile_sections returned an instance of coroutine",
        r"Return a list",
    ),
    case(
        "a function in place of a tool",
        "from types import SimpleNamespace\n"
        "@hookimpl\ndef toolstile_sections():\n"
        "    return [SimpleNamespace(key='broken', title='B', tools=[print], policies=(),\n"
        "        resources=(), children=())]",
        r"Section .broken. of toolstile_sections returned an instance of builtin_function_or_m",
        r"Return tools, made with @tool",
    ),
    case(
        "a section that raises when it is read",
        "class S(MarkdownSection):\n"
        "    is_made = False\n"
        "    def __getattribute__(self, name):\n"
        "        if name == 'children' and S.is_made: raise OSError('no disk')\n"
        "        return super().__getattribute__(name)\n"
        "@hookimpl\ndef toolstile_sections():\n    section = S(key='broken', title='B')\n"
        "    S.is_made = True\n    return [section]",
        r"A section of toolstile_sections raised OSError: no disk\.",
        r"Fix the plugin",
    ),
    case(
        "two sections of one key",
        "@hookimpl\ndef toolstile_sections():\n"
        "    return [MarkdownSection(key='broken', title='B')] * 2",
        r"It has two sections with the key 'broken'\.",
        r"Give one of them another key",
    ),
    case(
        "two tools of one name",
        "@tool(name='broken_tool')\ndef other() -> None:\n    'Do nothing.'\n"
        "@hookimpl\ndef toolstile_sections():\n"
        "    return [MarkdownSection(key='broken', title='B', tools=[broken_tool, other])]",
        r"Two tools of plugin 'broken' are called 'broken_tool'",
        r"another name",
    ),
    case(
        "a hook raises what ends with a question",
        "@hookimpl\ndef toolstile_sections():\n"
        "    raise TypeError(\"no argument 'kye'. Did you mean 'key'?\")",
        r"Did you mean 'key'\?$",
        r"Fix the plugin",
    ),
    case(
        "a tool twice in one section",
        "@hookimpl\ndef toolstile_sections():\n"
        "    return [MarkdownSection(key='broken', title='B', tools=[broken_tool] * 2)]",
        r"The tool 'broken_tool' stands twice in section 'broken'\.",
        r"Leave it in one place",
    ),
    case(
        "a tool in two sections that are shown together",
        "@hookimpl\ndef toolstile_sections():\n"
        "    inner = MarkdownSection(key='inner', title='I', tools=[broken_tool])\n"
        "    return [MarkdownSection(key='broken', title='B', tools=[broken_tool],\n"
        "        children=[inner])]",
        r"The tool 'broken_tool' stands in section 'broken' and in 'inner'\.",
        r"Leave it in one place",
    ),
    case(
        "another plugin has the tool's name",
        "@tool\ndef aa_good() -> None:\n    'Do nothing.'\n"
        "@hookimpl\ndef toolstile_sections():\n"
        "    return [MarkdownSection(key='broken', title='B', tools=[broken_tool, aa_good])]",
        r"Plugin 'broken' has the tool 'aa_good', a name that plugin 'aa-good' \(aa-good 1\.0\) "
        r"has already\.",
        r'prefix = "x_" into \[plugins\.broken\]',
    ),
    case(
        "another plugin's tool has the wire name",
        "@tool(wire_name='aa_good')\ndef broken_two() -> None:\n    'Do nothing.'\n"
        "@hookimpl\ndef toolstile_sections():\n"
        "    return [MarkdownSection(key='broken', title='B', tools=[broken_two])]",
        r"the tool 'broken_two' with the wire name 'aa_good', a name that plugin 'aa-good'",
        r'prefix = "x_" into \[plugins\.broken\]',
    ),
    case(
        "another plugin has the section's key",
        "@hookimpl\ndef toolstile_sections():\n"
        "    return [MarkdownSection(key='aa_good', title='B', tools=[broken_tool])]",
        r"a section with the key 'aa_good', which plugin 'aa-good' \(aa-good 1\.0\)",
        r'prefix = "x_" into \[plugins\.broken\]',
    ),
]


@pytest.fixture
def broken(install, good, discovered, report_of, traces_of):
    """Install a broken plugin between two good ones; return its report."""

    def broken(source, tables=None):
        for name in ("aa-good", "zz-good"):
            good(name)
        install("broken", source, version="2.5")
        plugins = discovered(tables)

        for name in ("aa-good", "zz-good"):
            assert report_of(plugins, name).status == "loaded"
            assert plugins.catalog.plugin_of(name.replace("-", "_")) == name
            assert name in {each.plugin for each in plugins.implementations("toolstile_check")}
        assert traces_of(plugins, "broken") == []
        report = report_of(plugins, "broken")
        assert (report.status, report.distribution, report.version) == ("failed", "broken", "2.5")
        assert (report.hooks, report.tools) == ((), ())
        assert "Traceback" not in f"{report.fault}{report.remedy}"
        assert "\n" not in f"{report.fault}{report.remedy}"
        return report

    return broken


def added_to_working(source):
    return "\n".join((*(line[4:] for line in WORKS.splitlines()), source))


def test_without_addition_the_plugin_of_these_tests_is_without_fault(
    install, discovered, report_of, traces_of
):
    install("broken", WORKS)
    plugins = discovered()
    assert report_of(plugins, "broken").fault is None
    assert len(traces_of(plugins, "broken")) > 6


@pytest.mark.slow
@pytest.mark.parametrize(("source", "cause", "remedy"), IMPORTS)
def test_a_plugin_that_cannot_be_imported(broken, source, cause, remedy):
    report = broken(source)
    assert re.search(cause, report.fault)
    assert re.search(remedy, report.remedy)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "cause", "remedy"), HOOKS)
def test_a_plugin_whose_functions_do_not_fit_the_hooks(broken, source, cause, remedy):
    report = broken(added_to_working(source))
    assert re.search(cause, report.fault)
    assert re.search(remedy, report.remedy)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "cause", "remedy"), OFFERS)
def test_a_plugin_whose_offers_cannot_be_taken(broken, source, cause, remedy):
    report = broken(added_to_working(source))
    assert re.search(cause, report.fault)
    assert re.search(remedy, report.remedy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "cause"),
    [
        ({"url": 3}, r"plugins\.broken\.url: expected text, found the number 3\."),
        ({"uri": "a"}, r"plugins\.broken\.uri: is not a known key; did you mean 'url'\?"),
        ({"prefx": "a"}, r"plugins\.broken\.prefx: is not a known key; did you mean 'prefix'\?"),
        ({"url": 3, "uri": "a"}, r"number 3\. .*plugins\.broken\.uri: "),
        ({"enabled": "no"}, r"plugins\.broken\.enabled: expected true or false, found the text"),
        ({"prefix": "No!"}, r"plugins\.broken\.prefix: expected .* found the text 'No!'"),
        ({"prefix": "x" * 60}, r"The prefix does not fit\. Tool 'broken_tool'"),
    ],
)
def test_a_plugin_whose_table_does_not_fit(broken, table, cause):
    source = (
        "class S(BaseModel):\n    url: str = ''\n@hookimpl\ndef toolstile_settings():\n    return S"
    )
    report = broken(added_to_working(source), {"broken": table})
    assert report.misconfigured
    assert re.search(cause, report.fault)
    assert report.remedy


def test_a_table_is_a_fault_when_the_plugin_takes_no_settings(broken):
    report = broken(WORKS, {"broken": {"url": "x", "token": "hunter2"}})
    assert report.misconfigured
    assert "plugins.broken: the plugin takes no settings, found url, token" in report.fault
    assert "hunter2" not in report.fault


def test_an_entry_point_to_a_module_that_is_not_there(install, discovered, report_of):
    install("broken", value="zqaway.inner")
    report = report_of(discovered(), "broken")
    assert report.status == "failed"
    assert "zqaway.inner cannot be imported: ModuleNotFoundError" in report.fault
    assert report.remedy.startswith("Reinstall broken in a version that works here")


def test_an_entry_point_to_an_attribute_that_is_not_there(install, discovered, report_of):
    install("broken", "x = 3", value="broken:plugin")
    report = report_of(discovered(), "broken")
    assert "AttributeError" in report.fault


@pytest.mark.slow
@pytest.mark.parametrize("value", ["not a module", "a-b", ":x", ""])
def test_an_entry_point_that_names_nothing(install, discovered, report_of, value):
    install("broken", lines=f"broken = {value}")
    report = report_of(discovered(), "broken")
    assert "the entry point is neither `module` nor `module:attribute`" in report.fault


def test_an_entry_point_to_a_class_in_place_of_an_instance(install, discovered, report_of):
    source = """
        from toolstile_hookspecs import hookimpl
        class Broken:
            @hookimpl
            def toolstile_check(self, tool): ...
    """
    install("broken", source, value="broken:Broken")
    report = report_of(discovered(), "broken")
    assert report.fault == "The plugin is the class Broken, and toolstile_check needs an instance."
    assert "`plugin = Broken()`" in report.remedy


def test_the_second_distribution_with_a_plugin_of_one_name(install, good, discovered, report_of):
    good("aa-good")
    install("bb-good", "", version="3.0", plugin="aa-good")
    plugins = discovered()
    first, second = (each for each in plugins.reports if each.name == "aa-good")
    assert (first.status, first.distribution) == ("loaded", "aa-good")
    assert (second.status, second.distribution, second.version) == ("failed", "bb-good", "3.0")
    assert second.fault == (
        "Another plugin has this name: 'aa-good' (aa-good 1.0), from entry point aa_good."
    )
    assert second.remedy


def test_a_plugin_that_implements_nothing_says_so(install, discovered, report_of):
    install("broken", "x = 3")
    report = report_of(discovered(), "broken")
    assert (report.status, report.fault) == ("loaded", "It implements no hook.")
    assert report.remedy


def test_the_traceback_is_logged_for_those_who_ask(install, discovered, caplog):
    install("broken", "1 / 0")
    with caplog.at_level(logging.DEBUG, logger="toolstile"):
        discovered()
    (record,) = [each for each in caplog.records if "broken" in each.getMessage()]
    assert record.exc_info[0] is ZeroDivisionError

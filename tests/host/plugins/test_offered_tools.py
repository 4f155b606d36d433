"""Tools are offered by their tags, and where all that they depend on is there."""

import logging
from typing import ClassVar

import pytest
from pydantic import BaseModel

from toolstile import ApprovalAnswer, Host, Prompt, Settings, ToolCall
from toolstile.plugins.offered_tools import unknown_dependencies
from toolstile_hookspecs import (
    ConfigurationError,
    DefinitionError,
    MarkdownSection,
    PluginError,
    PolicyDecision,
    Status,
    ToolContext,
    hookimpl,
    tool,
)


def make(name, *, calls=(), tags=(), depends_on=(), **options):
    def handler(*, context: ToolContext) -> str:
        return " ".join([name, *(context.call(other).text for other in calls)])

    handler.__name__ = name
    return tool(name=name, description="Work.", tags=tags, depends_on=depends_on, **options)(
        handler
    )


def suite(*tools, key="desk"):
    class Suite:
        @hookimpl
        def toolstile_sections(self):
            return [MarkdownSection(key=key, title="Desk", tools=tools)]

    return Suite()


def names(executor):
    return [each.name for each in executor.prompt.tools(executor.session)]


def told(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# --- Dependencies


def test_a_tool_whose_dependency_is_missing_is_left_out_and_refused_by_name(caplog):
    ship, pack, count = make("ship", depends_on=["pay"]), make("pack"), make("count")
    offered, settings = [ship, pack, count, make("pay", tags=["x"])], Settings(without_tags=["x"])
    host = Host(discover=False, settings=settings, tools=offered)
    with host, host.executor() as tools:
        assert names(tools) == ["pack", "count"]
        assert [each.name for each in host.prompt.render().tools] == ["pack", "count"]
        outcome = tools.dispatch(ToolCall("ship"))
        assert outcome.status is Status.UNKNOWN_TOOL
        assert outcome.text == (
            "ship cannot be called here: it depends on pay, which is not offered. Continue "
            "without it."
        )
        assert tools.dispatch(ToolCall("pack")).text == "pack"
        with host.executor() as others:
            assert names(others) == ["pack", "count"]
    assert told(caplog) == ["Tool 'ship' is left out: it depends on pay, which is not offered."]


@pytest.mark.parametrize(
    ("named", "meant"),
    [("log_in_", "; did you mean 'log_in'?"), ("log_in_>=1.2", "; did you mean"), ("pay", ".")],
)
def test_a_dependency_on_no_tool_keeps_the_host_from_opening(named, meant):
    given = [make("send", depends_on=[named]), make("log_in")]
    with pytest.raises(ConfigurationError) as caught:
        Host(discover=False, tools=given).open()
    name = named.partition(">")[0]
    assert f"Tool 'send' depends on {name}, which is no tool{meant}" in str(caught.value)
    assert "Fix its depends_on, or load the plugin" in str(caught.value)


def test_a_dependency_on_a_tool_that_comes_later_does_not():
    given = [make("send", depends_on=["desk_say", "desk_sing>=1"])]
    assert unknown_dependencies(given, {"desk_*": None}) == []
    assert len(unknown_dependencies(given, {"desk_say": "ask for it"})) == 1


@pytest.mark.parametrize(
    ("version", "depends_on", "is_there"),
    [
        ("1.2.0", "rate>=1.2,<2", True),
        ("1.10.0", "rate >= 1.9", True),
        ("2.0.0", "rate>=1.2,<2", False),
        ("2.0.0-rc.1", "rate>=2", False),
        ("2.0.0-rc.10", "rate>2.0.0-rc.9", True),
        ("1.0.0+build", "rate==1.0.0", True),
        ("1.0.0", "rate!=1.0.0", False),
        ("1.0.0", "rate>1,<=1.0.0", False),
        ("1.0.0", "rate~>1", False),
        (None, "rate>=1", False),
        (None, "rate", True),
    ],
)
def test_a_dependency_may_name_versions(caplog, version, depends_on, is_there):
    pay = make("pay", calls=["rate"], depends_on=[depends_on])
    rate = make("rate", version=version)
    with Host(discover=False, tools=[pay, rate]) as host, host.executor() as tools:
        assert (tools.dispatch(ToolCall("pay")).text == "pay rate") is is_there
    found = f"which is not offered; rate has {version or 'no version'}."
    assert [text.endswith(found) for text in told(caplog)] == [True] * (not is_there)


def test_a_dependency_with_versions_is_declared_shown_and_renamed_as_any_other(caplog):
    rate = make("rate", version="1.0.0", consequence="high")
    pay = make("pay", depends_on=["rate>=1"], requires_confirmation=True)
    asked = []

    def approve(request):
        asked.extend(request.reasons)
        return ApprovalAnswer.approve()

    settings = Settings(plugins={"Suite": {"prefix": "x_"}})
    with (
        Host(
            discover=False, settings=settings, plugins=[suite(pay, rate)], approver=approve
        ) as host,
        host.executor() as tools,
    ):
        assert tools.dispatch(ToolCall("x_pay")).success
    assert "It calls x_rate (high)." in asked
    assert told(caplog) == []


def test_a_call_of_a_dependency_with_versions_is_declared():
    pay = make("pay", calls=["rate"], depends_on=["rate>=1"])
    rate, strict = make("rate", version="1.0.0"), Settings(strict_depends=True)
    with Host(discover=False, tools=[pay, rate], settings=strict) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("pay")).text == "pay rate"


def test_a_circle_of_dependencies_with_versions_is_named():
    tools = [make("a", depends_on=["b>=1"]), make("b", version="1.0.0", depends_on=["a"])]
    with pytest.raises((DefinitionError, PluginError), match=r"circle: (a -> b -> a|b -> a -> b)"):
        Host(discover=False, tools=tools).open()


def test_what_depends_on_such_a_tool_is_left_out_with_it():
    chain = [make("a", depends_on=["b"]), make("b", depends_on=["c"]), make("d")]
    chain.append(make("c", tags=["x"]))
    host = Host(discover=False, settings=Settings(without_tags=["x"]), tools=chain)
    with host, host.executor() as tools:
        assert names(tools) == ["d"]
        assert "it depends on b, which" in tools.dispatch(ToolCall("a")).text


def test_a_dependency_is_met_by_another_plugin_the_executor_or_a_wire_name():
    ship = make("ship", calls=["pay"], depends_on=["pay"])
    pay = make("pay")
    with Host(discover=False, plugins=[suite(ship)], tools=[pay]) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("ship")).text == "ship pay"
    with Host(discover=False) as host, host.executor(tools=[ship, pay]) as tools:
        assert names(tools) == ["ship", "pay"]
    wired = make("shop_pay", wire_name="pay")
    with Host(discover=False, tools=[ship, wired]) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("ship")).text == "ship shop_pay"


def test_a_tool_in_a_section_behind_a_summary_is_there():
    sections = [
        MarkdownSection(key="a", title="A", tools=[make("ship", depends_on=["pay"])]),
        MarkdownSection(
            key="b", title="B", tools=[make("pay")], visibility="summary", summary="Pays."
        ),
    ]
    prompt = Prompt.of("tests", "p", sections)
    with Host(discover=False) as host, host.executor(prompt=prompt) as tools:
        assert "ship" in names(tools)


def test_a_renamed_plugin_s_tools_depend_on_one_another_as_before():
    ship, pay = make("ship", calls=["pay"], depends_on=["pay"]), make("pay")
    settings = Settings(plugins={"Suite": {"prefix": "x_"}})
    with (
        Host(discover=False, settings=settings, plugins=[suite(ship, pay)]) as host,
        host.executor() as tools,
    ):
        assert names(tools) == ["x_ship", "x_pay"]


def test_a_tool_that_depends_on_itself_is_refused_where_it_is_written():
    with pytest.raises(DefinitionError, match=r"'ship': it depends on itself \(ship -> ship\)"):
        make("ship", depends_on=["ship"])


CIRCLE = (
    make("a", depends_on=["b"]),
    make("b", depends_on=["c"]),
    make("c", depends_on=["a"]),
)


def test_a_circle_is_refused_and_named():
    prompt = Prompt.of("tests", "p", [MarkdownSection(key="a", title="A", tools=CIRCLE)])
    with (
        Host(discover=False) as host,
        pytest.raises(DefinitionError, match=r"in a circle: (\w -> ){3}\w\.") as raised,
    ):
        host.executor(prompt=prompt)
    way = str(raised.value).partition(": ")[2].rstrip(".").split(" -> ")
    assert way in (["a", "b", "c", "a"], ["b", "c", "a", "b"], ["c", "a", "b", "c"])


def test_a_circle_through_two_plugins_costs_the_later_one():
    host = Host(discover=False, plugins=[suite(*CIRCLE[:2])])
    with pytest.raises(PluginError, match="depend on one another in a circle: "):
        host.register(suite(CIRCLE[2], key="other"), "later")
    assert list(host.catalog.names()) == ["a", "b"]


# --- Calls that are not declared


def test_a_call_that_is_not_declared_is_warned_of_once(caplog):
    ship, pay = make("ship", calls=["pay"]), make("pay")
    with Host(discover=False, tools=[ship, pay]) as host, host.executor() as tools:
        for _ in range(2):
            assert tools.dispatch(ToolCall("ship")).text == "ship pay"
    (warning,) = told(caplog)
    assert warning == (
        "Tool 'ship' calls 'pay', which its depends_on does not name. Add the name to "
        "depends_on, so that people see all tools that they approve."
    )


@pytest.mark.parametrize("declared", [True, False])
def test_a_call_that_is_not_declared_is_refused_where_that_is_configured(declared, caplog):
    ship = make("ship", calls=["pay"], depends_on=["pay"] if declared else [])
    settings = Settings(strict_depends=True)
    with (
        Host(discover=False, settings=settings, tools=[ship, make("pay")]) as host,
        host.executor() as tools,
    ):
        text = tools.dispatch(ToolCall("ship")).text
    refused = (
        "ship ship cannot call pay, which its depends_on does not name. This requires human "
        "intervention."
    )
    assert text == ("ship pay" if declared else refused)
    assert told(caplog) == []


# --- Approvals


@pytest.mark.parametrize(
    ("pay", "shown"),
    [
        ({"consequence": "high"}, ["It calls pay (high)."]),
        ({"consequence": "low", "requires_confirmation": True}, ["It calls pay (low)."]),
        ({"consequence": "low"}, []),
    ],
)
def test_an_approver_sees_the_dependencies_that_weigh_more(pay, shown):
    asked = []

    def approve(request):
        asked.append(request)
        return ApprovalAnswer.approve()

    tools = [
        make("ship", depends_on=["pack"], consequence="medium", requires_confirmation=True),
        make("pack", depends_on=["pay"], consequence="low"),
        make("pay", **pay),
    ]
    with Host(discover=False, tools=tools, approver=approve) as host, host.executor() as executor:
        assert executor.dispatch(ToolCall("ship")).success
    assert list(asked[0].reasons)[1:] == shown


# --- Tags


TAGGED = (
    make("mail", tags=["mail", "out"]),
    make("fax", tags=["out"]),
    make("look", tags=["read"]),
    make("plain"),
)


@pytest.mark.parametrize(
    ("tags", "without", "offered"),
    [
        (["mail"], [], ["mail"]),
        (["mail", "read"], [], ["mail", "look"]),
        ([], ["out"], ["look", "plain"]),
        (["out"], ["mail"], ["fax"]),
        ([], [], ["mail", "fax", "look", "plain"]),
    ],
)
@pytest.mark.parametrize("place", ["configuration", "executor", "prompt", "executor tools"])
def test_tools_are_offered_by_their_tags_wherever_these_are_given(place, tags, without, offered):
    chosen = {"tags": tags, "without_tags": without}
    settings = Settings(**chosen) if place == "configuration" else Settings()
    options = {} if place == "configuration" else dict(chosen)
    if place == "prompt":
        options["prompt"] = Prompt.of(
            "tests", "p", [MarkdownSection(key="a", title="A", tools=TAGGED)]
        )
    if place == "executor tools":
        options["tools"] = TAGGED
    given = TAGGED if place in {"configuration", "executor"} else []
    with (
        Host(discover=False, settings=settings, tools=given) as host,
        host.executor(**options) as tools,
    ):
        assert names(tools) == offered
        for each in TAGGED:
            outcome = tools.dispatch(ToolCall(each.name))
            assert outcome.success is (each.name in offered)
            if not outcome.success:
                assert outcome.text == (
                    f"{each.name} cannot be called here: it is not among the tools that are "
                    "offered. Continue without it."
                )


def test_a_tool_left_out_cannot_be_called_by_another_name_or_tool():
    class Aliases:
        @hookimpl
        def toolstile_lookup(self, call, catalog):
            return catalog.get("fax") if call.name == "letter" else None

    relay = make("relay", calls=["fax"], tags=["in"])
    with (
        Host(discover=False, plugins=[Aliases()], tools=[*TAGGED, relay]) as host,
        host.executor(tags=["in"]) as tools,
    ):
        assert names(tools) == ["relay"]
        assert not tools.dispatch(ToolCall("letter")).success
        assert "fax cannot be called here" in tools.dispatch(ToolCall("relay")).text
    with Host(discover=False, plugins=[Aliases()], tools=TAGGED) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("letter")).text == "fax"


def test_what_depends_on_a_tool_left_out_is_left_out_with_it():
    ship = make("ship", depends_on=["fax"], tags=["in"])
    with Host(discover=False, tools=[*TAGGED, ship]) as host:
        with host.executor(without_tags=["out"]) as tools:
            assert names(tools) == ["look", "plain"]
        with host.executor() as tools:
            assert "ship" in names(tools)


def test_an_unknown_tag_is_told_with_those_near_it(caplog):
    with Host(discover=False, tools=TAGGED) as host:
        for _ in range(2):
            with host.executor(tags=["maill", "xyz"]) as tools:
                assert names(tools) == []
    assert told(caplog) == [
        "The choice of tools refers to unknown tags: 'maill' (did you mean 'mail'?), 'xyz'."
    ]


# --- Corrections


def test_the_configuration_corrects_what_authors_say_of_their_tools():
    asked, seen = [], []

    class Watching:
        name = "watching"

        def check(self, tool, params, *, context):
            seen.append((tool.name, tool.category, tool.consequence, tool.timeout))
            return PolicyDecision.allow()

        def on_result(self, tool, params, result, *, context): ...

    class Aliases:
        @hookimpl
        def toolstile_lookup(self, call, catalog):
            return catalog.get("fax") if call.name == "letter" else None

    settings = Settings(
        tools={
            "fax": {
                "category": "delete",
                "consequence": "high",
                "requires_confirmation": True,
                "timeout": 2,
            },
            "shop_pay": {"requires_confirmation": False, "timeout": "none"},
        }
    )
    pay = make("pay_here", wire_name="shop_pay", requires_confirmation=True)
    with (
        Host(
            discover=False,
            settings=settings,
            tools=[*TAGGED, pay],
            plugins=[Aliases()],
            policies=[Watching()],
            approver=lambda request: asked.append(request.tool.name) or True,
        ) as host,
        host.executor() as tools,
    ):
        shown = {each.name: each for each in tools.prompt.tools()}
        assert (shown["fax"].category, shown["fax"].timeout) == ("delete", 2)
        for name in ("fax", "letter", "pay_here", "look"):
            assert tools.dispatch(ToolCall(name)).success
    assert asked == ["fax", "fax"]
    assert seen[0] == seen[2] == ("fax", "delete", "high", 2)
    assert ("pay_here", "side_effect", "medium", None) in seen


def test_a_glob_corrects_several_tools_and_a_tool_s_own_table_wins():
    tables = {"fax": {"category": "delete"}, "*a*": {"category": "write", "timeout": 3}}
    with Host(discover=False, settings=Settings(tools=tables), tools=TAGGED) as host:
        shown = {each.name: (each.category, each.timeout) for each in host.prompt.tools()}
    assert shown["fax"] == ("delete", 3)
    assert shown["mail"] == shown["plain"] == ("write", 3)
    assert shown["look"][0] == "side_effect"


def test_another_category_brings_its_own_consequence():
    tables = {
        "fax": {"category": "write"},
        "mail": {"category": "write", "consequence": "high"},
        "look": {"category": "side_effect"},
    }
    given = [make(name, category="side_effect", consequence="low") for name in tables]
    with Host(discover=False, settings=Settings(tools=tables), tools=given) as host:
        shown = {each.name: each.consequence for each in host.prompt.tools()}
    assert shown == {"fax": "medium", "mail": "high", "look": "low"}


def test_a_correction_of_no_tool_is_told_with_the_name_that_was_meant(caplog):
    settings = Settings(tools={"fx": {"category": "read"}})
    with Host(discover=False, settings=settings, tools=TAGGED) as host:
        assert host.prompt.tools()
    assert told(caplog) == ["[tools.fx] corrects no tool; did you mean 'fax'?"]


class Awaiting(BaseModel):
    awaited_tools: ClassVar = ("late_*",)


class Later:
    @hookimpl
    def toolstile_settings(self):
        return Awaiting


def test_a_correction_of_a_tool_that_comes_later_is_right(caplog):
    tables = {"late_fax": {"category": "read"}, "late_m*": {"category": "read"}}
    settings = Settings(tools={**tables, "later": {"category": "read"}})
    with Host(discover=False, settings=settings, tools=TAGGED, plugins=[Later()]) as host:
        assert host.prompt.tools()
    assert told(caplog) == ["[tools.later] corrects no tool."]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"category": "reed"}, "tools.fax.category: expected 'read', 'write'"),
        ({"timeout": 0}, "tools.fax.timeout"),
        ({"name": "x"}, "tools.fax"),
    ],
)
def test_a_wrong_correction_is_an_error_of_the_configuration(table, expected):
    with pytest.raises(ConfigurationError, match=expected):
        Settings(tools={"fax": table})

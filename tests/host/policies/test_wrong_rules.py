"""A rule that names what no tool has keeps the host from opening: it would rule nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import BaseModel

from toolstile import Host, Settings
from toolstile.policies.rule_set import faults_of
from toolstile_hookspecs import (
    ConfigurationError,
    MarkdownSection,
    PersistentPolicy,
    PolicyDecision,
    Prompt,
    Status,
    ToolCall,
    hookimpl,
    tool,
)


@tool
def save_page(page: str) -> str:
    """Save a page."""
    return "saved"


@tool(wire_name="pages.show")
def show_page(page: str) -> str:
    """Show a page."""
    return "shown"


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Denies what it names."""

    governed: frozenset[str] = frozenset()
    name: str = ""

    def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        return PolicyDecision.deny("No.")

    def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class OfArguments(Guard):
    """Names an argument, too."""

    argument: str = ""

    def misfits(self, tools: Any, may_come: Callable[[str], bool]) -> list[str]:
        there = {name for tool in tools for name in tool.params_codec.schema()["properties"]}
        return [] if self.argument in there else [f"names the argument {self.argument!r}"]


class Pages:
    def __init__(self, *tools: Any, awaited: tuple[str, ...] = ()) -> None:
        self.tools = tools or (save_page, show_page)
        self.awaited = awaited
        self.running: list[str] = []

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection[Any]]:
        return [MarkdownSection(key="pages", title="Pages", tools=self.tools)]

    @hookimpl
    def toolstile_settings(self) -> type[BaseModel]:
        outer = self

        class PageSettings(BaseModel):
            @property
            def awaited_tools(self) -> tuple[str, ...]:
                return outer.awaited

        return PageSettings

    @hookimpl
    def toolstile_policies(self) -> dict[str, type[Any]]:
        return {"guard": Guard, "of_arguments": OfArguments}

    @hookimpl
    @contextmanager
    def toolstile_lifespan(self) -> Iterator[None]:
        self.running.append("began")
        yield
        self.running.append("ended")


def host_of(plugin: Pages, *names: str, **fields: Any) -> Host:
    kind = "of_arguments" if fields else "guard"
    table = {"kind": kind, "governed": list(names), **fields}
    return Host(discover=False, settings=Settings(policies=(table,)), plugins=[plugin])


def test_a_name_that_no_tool_has_keeps_the_host_from_opening() -> None:
    pages = Pages()
    host = host_of(pages, "save_pgae", "show_page")

    with pytest.raises(ConfigurationError) as raised:
        host.open()
    assert str(raised.value) == (
        "the configuration: Policy 'guard@host#1' refers to unknown tools: 'save_pgae' (did you "
        "mean 'save_page'?). This part of the policy has no effect. Fix the names, or load "
        "the plugin that offers them."
    )
    assert not host.is_open
    assert pages.running == ["began", "ended"]


@pytest.mark.parametrize(
    "slip", ["save", "Save_page", "save_page ", "page_*", "save-*", "*_pgae", "sa?e_pages", "[S]*"]
)
def test_a_glob_that_no_name_fits_is_a_slip_as_well(slip: str) -> None:
    with pytest.raises(ConfigurationError, match="refers to unknown tools"):
        host_of(Pages(), "show_page", slip).open()


@pytest.mark.parametrize("name", ["save_*", "*", "s*_page", "sa[v]e_pag?", "pages.*", "show_page"])
def test_a_glob_that_some_name_fits_is_right(name: str) -> None:
    with host_of(Pages(), name) as host:
        assert host.wrong_rules() == []


def test_all_tools_are_meant_by_a_star_also_where_there_are_none() -> None:
    assert Host(discover=False, policies=[Guard(governed=frozenset({"*"}), name="all")]).open()


def test_what_else_fits_no_tool_is_told_by_the_policy() -> None:
    host_of(Pages(), "save_page", argument="page").open().close()
    with pytest.raises(ConfigurationError) as raised:
        host_of(Pages(), "save_page", argument="pgae").open()
    assert "Policy 'of_arguments@host#1' names the argument 'pgae'. This part" in str(raised.value)


@pytest.mark.parametrize("name", ["wiki_save", "wiki_*", "*_save", "my_page", "w*"])
def test_a_name_that_a_later_tool_may_have_is_not_judged(name: str) -> None:
    pages = Pages(awaited=("wiki_*", "my_page"))
    with host_of(pages, name, argument="title") as host:
        assert host.wrong_rules() == []
        assert "unknown tools" in faults_of(host.policies, list(host.catalog), {})[0]


@pytest.mark.parametrize("name", ["wikis", "my_pages", "wik_*", "page"])
def test_a_name_that_no_later_tool_can_have_is_judged_at_once(name: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown tools"):
        host_of(Pages(awaited=("wiki_*", "my_page")), name).open()


def test_a_policy_whose_records_are_kept_is_looked_into(tmp_path: Any) -> None:
    table = {"kind": "guard", "governed": ["savepg"], "name": "kept", "keep": "kept.json"}
    settings = Settings(path=tmp_path / "toolstile.toml", policies=(table,))
    with pytest.raises(ConfigurationError, match="'kept' refers to unknown tools: 'savepg'"):
        Host(discover=False, settings=settings, plugins=[Pages()]).open()


def test_a_policy_of_the_application_is_checked_against_the_tools_of_plugins() -> None:
    wrong: Any = Guard(governed=frozenset({"savepg"}), name="own")
    for policy in (wrong, PersistentPolicy(wrong, "/nowhere")):  # type: ignore[arg-type]
        host = Host(discover=False, plugins=[Pages()], policies=[policy]).open()
        with host, pytest.raises(ConfigurationError, match=r"'own' refers to .*: 'savepg'"):
            host.executor()


def test_against_an_executor_s_own_prompt_it_warns(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="toolstile.policies")
    guard = Guard(governed=frozenset({"savepg"}), name="own")
    prompt = Prompt.of("tests", "own", [MarkdownSection(key="own", title="Own", tools=[save_page])])
    with Host(discover=False, policies=[guard]) as host:
        for options in ({"prompt": prompt}, {"tools": [save_page]}):
            with host.executor(**options) as tools:
                assert tools.dispatch(ToolCall("save_page", {"page": "a"})).text == "No."
    assert [each.levelname for each in caplog.records] == ["WARNING"]


def test_past_a_rule_that_turns_out_wrong_no_tool_of_a_server_is_called() -> None:
    foreign = replace(save_page, name="wiki_save", origin="wiki")
    allowed: list[Any] = [Allowing(governed=frozenset({"wiki_svae"}), name="own")]
    pages = Pages(save_page, awaited=("wiki_*",))
    with Host(discover=False, plugins=[pages], policies=allowed) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("save_page", {"page": "a"})).success
        pages.tools, pages.awaited = (save_page, foreign), ()
        host.catalog.invalidate("Pages")

        denied = tools.dispatch(ToolCall("wiki_save", {"page": "a"}))
        assert denied.status is Status.DENIED
        assert denied.text.startswith(
            "wiki_save cannot be called: a policy may have been meant for it. Policy 'own' refers "
            "to unknown tools: 'wiki_svae' (did you mean 'wiki_save'?)."
        )
        assert tools.dispatch(ToolCall("save_page", {"page": "a"})).success


def late(policies: Any = (), settings: Settings | None = None, **options: Any) -> str:
    """Return the answer of a server's tool that came late, to an executor made after it."""
    foreign = replace(save_page, name="wiki_save", origin="wiki", tags=("wiki",))
    pages = Pages(save_page, awaited=("wiki_*",))
    settings = settings or Settings(policies=tuple(policies))
    with Host(discover=False, plugins=[pages, Kinds()], settings=settings) as host:
        pages.tools, pages.awaited = (save_page, foreign), ()
        host.catalog.invalidate("Pages")
        with host.executor(**options) as tools:
            return tools.dispatch(ToolCall("wiki_save", {"page": "a"})).text


class Kinds:
    @hookimpl
    def toolstile_policies(self) -> dict[str, type[Any]]:
        return {"allowing": Allowing}


@pytest.mark.parametrize("options", [{"tags": ["wiki"]}, {"without_tags": ["a"]}, {"tools": True}])
def test_an_executor_of_some_tools_is_not_a_way_past_a_wrong_rule(options: Any) -> None:
    if options.get("tools"):
        options = {"tools": [replace(show_page, name="own")]}
    wrong = late([{"kind": "allowing", "governed": ["wiki_svae"]}], **options)
    assert wrong.startswith("wiki_save cannot be called: a policy may have been meant for it.")
    assert late([{"kind": "allowing", "governed": ["wiki_save"]}], **options) == "saved"


def test_past_a_table_of_a_tool_that_a_person_must_approve_no_late_tool_is_called() -> None:
    wrong = late(settings=Settings(tools={"wiki_svae": {"requires_confirmation": True}}))
    assert "'[tools.NAME]' refers to unknown tools: 'wiki_svae' (did you" in wrong


class Sectioned(Pages):
    """A plugin whose section has a policy of its own."""

    governed = frozenset({"save_pgae"})

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection[Any]]:
        inner = MarkdownSection(
            key="inner",
            title="Inner",
            tools=[*self.tools],
            policies=[Allowing(governed=self.governed)],
        )
        return [MarkdownSection(key="pages", title="Pages", children=[inner])]


def test_a_policy_of_a_section_that_names_what_no_tool_has_keeps_the_host_from_opening() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Host(discover=False, plugins=[Sectioned()]).open()
    assert "Policy 'Allowing@pages.inner#1' refers to unknown tools: 'save_pgae' (did" in str(
        raised.value
    )
    sectioned = Sectioned()
    sectioned.governed = frozenset({"save_*", "pages.show"})
    Host(discover=False, plugins=[sectioned]).open().close()


def test_a_policy_of_a_section_may_name_what_comes_late() -> None:
    sectioned = Sectioned(awaited=("wiki_*",))
    sectioned.governed = frozenset({"wiki_svae"})
    with Host(discover=False, plugins=[sectioned]) as host, host.executor() as tools:
        foreign = replace(save_page, name="wiki_save", origin="wiki")
        sectioned.tools, sectioned.awaited = (save_page, foreign), ()
        host.catalog.invalidate("Sectioned")
        assert tools.dispatch(ToolCall("wiki_save", {"page": "a"})).status is Status.DENIED


def test_a_tool_that_a_plugin_takes_away_is_one_that_is_there() -> None:
    class Taking(BaseModel):
        governed_tools: tuple[str, ...] = ("save_pgae",)

    class Plugin:
        @hookimpl
        def toolstile_settings(self) -> type[BaseModel]:
            return Taking

    def host(*names: str) -> Host:
        settings = Settings(plugins={"taking": {"governed_tools": [*names]}})
        made = Host(discover=False, settings=settings, plugins=[Pages()])
        made.register(Plugin(), "taking")
        return made

    with pytest.raises(ConfigurationError, match=r"'\[plugins.taking\]' refers to .*'save_pgae'"):
        host("save_pgae").open()
    host("save_page", "pages.*").open().close()


def test_the_names_that_a_lifespan_yields_come_before_those_of_the_settings() -> None:
    class Connected:
        awaited_tools = ("wiki_*",)
        governed_tools = ("save_pgae",)

    class Yielding(Pages):
        @hookimpl
        @contextmanager
        def toolstile_lifespan(self) -> Iterator[Connected]:
            yield Connected()

    with pytest.raises(ConfigurationError) as raised:
        host_of(Yielding(awaited=("book_*",)), "wiki_save", "book_save").open()
    said = str(raised.value)
    assert "'[plugins.Yielding]' refers to unknown tools: 'save_pgae'" in said
    assert "'guard@host#1' refers to unknown tools: 'book_save'" in said
    assert "wiki_save" not in said


class Allowing(Guard):
    def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        return PolicyDecision.allow()


def test_a_tool_that_comes_later_and_is_named_rightly_is_ruled() -> None:
    foreign = replace(save_page, name="wiki_save", origin="wiki")
    pages = Pages(show_page, awaited=("wiki_*",))
    with host_of(pages, "wiki_s*") as host, host.executor() as tools:
        pages.tools, pages.awaited = (show_page, foreign), ()
        host.catalog.invalidate("Pages")
        assert tools.dispatch(ToolCall("wiki_save", {"page": "a"})).text == "No."


def test_a_tool_that_a_person_must_approve_is_one_that_is_there() -> None:
    for name, table in (("save_page", {"requires_confirmation": True}), ("save_pgae", {})):
        settings = Settings(tools={name: table})
        Host(discover=False, settings=settings, plugins=[Pages()]).open().close()
    settings = Settings(tools={"save_pgae": {"requires_confirmation": True}})
    with pytest.raises(ConfigurationError) as raised:
        Host(discover=False, settings=settings, plugins=[Pages()]).open()
    assert "'[tools.NAME]' refers to unknown tools: 'save_pgae' (did you" in str(raised.value)


def test_tools_whose_diff_a_person_approves_are_ones_that_are_there() -> None:
    for names in (["save_page"], ["save_*", "pages.show"], []):
        settings = Settings(approve_diff=names)
        Host(discover=False, settings=settings, plugins=[Pages()]).open().close()
    settings = Settings(approve_diff=["save_pgae"])
    with pytest.raises(ConfigurationError, match="'approve_diff' refers to unknown tools"):
        Host(discover=False, settings=settings, plugins=[Pages()]).open()


def test_a_rule_is_checked_against_a_tool_as_the_configuration_corrects_it() -> None:
    table = {"kind": "of_category", "governed": ["save_page"]}

    @dataclass(frozen=True, kw_only=True)
    class OfCategory(Guard):
        def misfits(self, tools: Any, may_come: Callable[[str], bool]) -> list[str]:
            [meant] = [each for each in tools if each.name == "save_page"]
            return [] if meant.category == "delete" else ["rules deletions"]

    class Kinds:
        @hookimpl
        def toolstile_policies(self) -> dict[str, type[Any]]:
            return {"of_category": OfCategory}

    with pytest.raises(ConfigurationError, match="rules deletions"):
        Host(
            discover=False, settings=Settings(policies=(table,)), plugins=[Pages(), Kinds()]
        ).open()
    settings = Settings(policies=(table,), tools={"save_page": {"category": "delete"}})
    Host(discover=False, settings=settings, plugins=[Pages(), Kinds()]).open().close()

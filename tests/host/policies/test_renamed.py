"""A plugin's policies know its tools by their own names, whatever the configuration calls them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_cli.commands.prompt import skeleton
from toolstile_hookspecs import (
    MarkdownSection,
    PolicyDecision,
    Status,
    ToolCall,
    ToolResult,
    hookimpl,
    tool,
)
from toolstile_plugins import vfs
from toolstile_plugins.policies import QuotaPolicy, SequentialDependencyPolicy


def step(name: str) -> Any:
    @tool(name=name)
    def run(fail: bool = False) -> ToolResult[None]:
        """Do one step."""
        return ToolResult.error("no") if fail else ToolResult.ok()

    return run


@dataclass
class Ops:
    """A plugin whose section has a policy over its tools."""

    policy: Any
    names: tuple[str, ...] = ("lint", "deploy", "deploy_all")

    @hookimpl
    def toolstile_sections(self) -> Any:
        tools = [step(name) for name in self.names]
        policies = [] if self.policy is None else [self.policy]
        inner = MarkdownSection(key="inner", title="Inner", tools=tools, policies=policies)
        return [MarkdownSection(key="ops", title="Ops", children=[inner])]


@dataclass
class Hearing:
    """Notes by which names it is shown tools, and denies or vetoes what it is told to."""

    denies: bool = False
    later: bool = False
    name: str = "hearing"
    heard: list[str] = field(default_factory=list[str])

    def check(self, tool: Any, params: Any, *, context: Any) -> Any:
        self.heard.append(f"check {tool.name}")
        reason = "Not deploy, nor deploy_all: pre-deploy or redeploy; ask x-lint. Call lint."
        decision = PolicyDecision.deny(reason) if self.denies else PolicyDecision.allow()
        return self._later(decision) if self.later else decision

    async def _later(self, decision: PolicyDecision) -> PolicyDecision:
        await asyncio.sleep(0)
        return decision

    def reserve(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        self.heard.append(f"reserve {tool.name}")
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None:
        self.heard.append(f"result {tool.name}")

    def on_rollback(self, tool: Any, params: Any, *, context: Any) -> None:
        self.heard.append(f"rollback {tool.name}")


def opened(*plugins: Any, prefix: str = "my_") -> Any:
    host = Host(discover=False, settings=Settings(plugins={"ops": {"prefix": prefix}}))
    for number, each in enumerate(plugins):
        host.register(each, "ops" if number == 0 else f"ops{number}")
    return host


def test_an_order_is_kept_and_told_in_the_names_that_there_are():
    order = SequentialDependencyPolicy(dependencies={"deploy": frozenset({"lint"})})
    with opened(Ops(order)) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("my_deploy")).text == (
            "Cannot call 'my_deploy' yet: missing my_lint. Call my_lint first, then retry "
            "my_deploy."
        )
        assert tools.dispatch(ToolCall("my_lint")).success
        assert tools.dispatch(ToolCall("my_deploy")).success


@pytest.mark.parametrize("later", [False, True])
def test_only_whole_names_are_told_by_the_new_ones(later):
    with opened(Ops(Hearing(denies=True, later=later))) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("my_deploy")).text == (
            "Not my_deploy, nor my_deploy_all: pre-deploy or redeploy; ask x-lint. Call my_lint."
        )


def test_every_method_of_a_policy_is_shown_the_tools_by_their_own_names():
    policy = Hearing()
    with opened(Ops(policy)) as host, host.executor() as tools:
        tools.dispatch(ToolCall("my_lint"))
        tools.dispatch(ToolCall("my_lint", {"fail": True}))
    assert policy.heard == [
        *("check lint", "reserve lint", "result lint"),
        *("check lint", "reserve lint", "rollback lint"),
    ]


def test_another_plugins_tool_of_the_old_name_is_not_taken_for_its_own():
    policy = Hearing()
    with opened(Ops(policy), Ops(None, ("lint", "other"))) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("lint")).success
        assert tools.dispatch(ToolCall("other")).success
    assert policy.heard == ["result other"]


def test_limits_hold_for_renamed_tools():
    with (
        opened(Ops(QuotaPolicy(per_tool={"lint": 1}))) as host,
        host.executor() as tools,
    ):
        ended = tools.dispatch_all([ToolCall("my_lint")] * 3)
    assert [each.success for each in ended] == [True, False, False]
    assert "1 of 1 calls of my_lint" in ended[1].text


def test_an_overridden_description_changes_nothing_of_it(tmp_path):
    overrides = tmp_path / "texts.toml"
    order = SequentialDependencyPolicy(dependencies={"deploy": frozenset({"lint"})})
    with opened(Ops(order)) as host:
        texts = "\n".join(skeleton(host.prompt))
    overrides.write_text(texts.replace("Do one step.", "Do a step."))
    settings = Settings(plugins={"ops": {"prefix": "my_"}}, prompt_overrides=overrides)
    host = Host(discover=False, settings=settings)
    host.register(Ops(order), "ops")
    with host, host.executor() as tools:
        assert tools.prompt.tools()[0].description == "Do a step."
        assert "missing my_lint" in tools.dispatch(ToolCall("my_deploy")).text


def test_renamed_file_tools_are_governed_by_their_default_policy(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    table = {"prefix": "fs_", "root": str(tmp_path)}
    host = Host(discover=False, settings=Settings(plugins={"vfs": table}))
    host.register(vfs, "vfs")
    write = ToolCall("fs_write_file", {"path": "a.txt", "content": "two", "overwrite": True})
    with host, host.executor() as tools:
        denied = tools.dispatch(write)
        assert denied.status is Status.DENIED
        assert "Call fs_read_file on it first, then retry fs_write_file." in denied.text
        assert tools.dispatch(ToolCall("fs_read_file", {"path": "a.txt"})).success
        assert tools.dispatch(write).success

"""The suites of commands, code and files fit into one prompt."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import Filesystem, Prompt, PromptValidationError, Visibility
from toolstile_plugins.asteval import AstevalSection
from toolstile_plugins.code import CodeSection
from toolstile_plugins.policies import ReadBeforeWritePolicy
from toolstile_plugins.sandbox import (
    PodmanConfig,
    PodmanSandboxSection,
    SandboxSettings,
    ShellSection,
)
from toolstile_plugins.vfs import VfsToolsSection
from toolstile_plugins.workspace_digest import WorkspaceDigestSection

CONFIG = PodmanConfig(image="localhost/tools:1")
SUITES = {
    "podman": lambda: PodmanSandboxSection(config=CONFIG),
    "asteval": AstevalSection,
    "monty": CodeSection,
    "files": VfsToolsSection,
    "shell": lambda: ShellSection(config=SandboxSettings(backend="none")),
    "digest": lambda: WorkspaceDigestSection(visibility=Visibility.FULL),
}
OWN = {
    "podman": {"shell_execute", "container_python", "read_file"},
    "asteval": {"evaluate_python"},
    "monty": {"run_python"},
    "files": {"read_file", "edit_file"},
    "shell": {"shell_execute"},
    "digest": {"digest_directory", "refresh_digest"},
}
SHARED = {("podman", "files"): ("shell", "python"), ("podman", "shell"): ("files", "python")}


def prompt(*sections: Any) -> Prompt:
    return Prompt.of("tests", "suites", sections)


def names(*sections: Any) -> set[str]:
    return {tool.name for tool in prompt(*sections).tools()}


def test_two_suites_work_in_one_prompt(subtests):
    for one, other in [*combinations(SUITES, 2)]:
        with subtests.test(one=one, other=other):
            first = SUITES[one]()
            if parts := SHARED.get((one, other)):
                first = PodmanSandboxSection(config=CONFIG, parts=parts)
            assert names(first, SUITES[other]()) >= OWN[one] | OWN[other]


@pytest.mark.parametrize(
    ("other", "tool"), [("files", "list_directory"), ("shell", "shell_execute")]
)
def test_a_tool_that_two_suites_offer_is_refused_by_name(other, tool):
    with pytest.raises(PromptValidationError, match=f"{tool}.*remove or rename one"):
        names(SUITES["podman"](), SUITES[other]())


def test_the_section_offers_the_file_tools_with_their_rule():
    section = PodmanSandboxSection(config=CONFIG)
    files = next(child for child in section.children if child.key == "workspace")
    told, expected = (
        [(tool.name, tool.description, tool.params_schema, tool.examples) for tool in tools]
        for tools in (files.tools, VfsToolsSection().tools)
    )
    assert told == expected
    assert [type(policy) for policy in files.policies] == [ReadBeforeWritePolicy]
    assert Filesystem in [binding.kind for binding in files.resources]
    assert [part.on_session for part in (section, *section.children)] == [None] * 3


def test_commands_and_scripts_are_contained_side_effects():
    found = prompt(PodmanSandboxSection(config=CONFIG)).tools()
    tools = {tool.name: tool for tool in found}
    for name in ("shell_execute", "container_python"):
        tool = tools[name]
        assert (tool.category, tool.consequence, tool.contained) == ("side_effect", "high", True)


def test_the_plugin_offers_scripts_beside_commands():
    options = {"image": "localhost/tools:1", "program": "/nosuch/podman"}
    plugins = {"vfs": {}, "sandbox": {"backend": "podman", "options": options}}
    with Host(settings=Settings(plugins=plugins)) as host:
        found = {tool.name for tool in host.prompt.tools()}
    assert found >= {"shell_execute", "container_python", "read_file"}


def test_policies_rule_all_of_its_tools():
    own = ReadBeforeWritePolicy()
    by_default = PodmanSandboxSection(config=CONFIG)
    ruled = PodmanSandboxSection(config=CONFIG, policies=[own])
    without = PodmanSandboxSection(config=CONFIG, policies=())

    def rules(section: Any) -> list[list[Any]]:
        return [list(each.policies) for each in (section, *section.children)]

    assert [[type(each) for each in found] for found in rules(by_default)] == [
        [],
        [ReadBeforeWritePolicy],
        [],
    ]
    assert rules(ruled) == [[own], [own], [own]]
    assert rules(without) == [[], [], []]

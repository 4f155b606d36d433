"""The helper decides on the events of Claude Code by the policies of the workspace."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.hook.hooked import Workspace

pytestmark = pytest.mark.slow


@pytest.fixture
def ruled(hooked: Workspace) -> Workspace:
    hooked.configure(hooked.rules())
    return hooked


def after(event: dict[str, Any], **more: Any) -> dict[str, Any]:
    name = "PostToolUseFailure" if "error" in more else "PostToolUse"
    return {**event, "hook_event_name": name, **more}


def ticket_in(text: str) -> str:
    found = re.search(r"\b[0-9a-f]{12}\b", text)
    assert found is not None, text
    return found[0]


def approve(workspace: Workspace, ticket: str, *more: str) -> None:
    words = more or ("approve", ticket)
    done = workspace.command("approvals", *words)
    assert done.returncode == 0, done


def test_a_call_that_passes_gets_no_decision(ruled: Workspace) -> None:
    assert ruled.send(ruled.event("PreToolUse", "Bash", arguments={"command": "ls"})).stdout == ""


def test_a_rule_denies_with_its_reason(ruled: Workspace) -> None:
    assert ruled.bash("git status && rm -rf x") == {
        "permissionDecision": "deny",
        "permissionDecisionReason": "Deletions are for the user.",
    }
    assert ruled.recorded() == [("bash", "denied")]


def test_a_rule_that_grants_answers_for_the_agent(ruled: Workspace) -> None:
    rule = 'kind = "rule"\neffect = "allow"\ntools = ["Bash"]\n'
    holds = "when = '\"ls\" in words(args.command)'\n"
    text = (ruled.folder / "toolstile.toml").read_text()
    ruled.configure(f"{text}\n[[policies]]\n{rule}{holds}grant = true\n")
    assert ruled.bash("ls")["permissionDecision"] == "allow"
    assert ruled.bash("pwd") == {}
    # The stricter counts.
    assert ruled.bash("ls; rm x")["permissionDecision"] == "deny"
    assert ruled.bash("ls; git push")["permissionDecision"] == "defer"
    ruled.decision(ruled.event("SessionEnd"))
    ruled.configure(f"{text}\n[[policies]]\n{rule}{holds}")
    assert ruled.bash("ls") == {}


def test_a_policy_over_commands_denies_and_asks(ruled: Workspace) -> None:
    pytest.importorskip("tree_sitter_bash")
    lists = 'deny = ["curl *"]\nask = ["make *"]\nallow = ["ls *"]\n'
    table = f'kind = "command"\ntools = ["Bash"]\n{lists}'
    ruled.configure(f"{ruled.rules()}\n[[policies]]\n{table}")
    decisions = {line: ruled.bash(line) for line in ("ls && curl x", "cd x; make all", "ls")}
    verdicts = [each.get("permissionDecision") for each in decisions.values()]
    assert verdicts == ["deny", "defer", None]


def test_a_call_of_our_own_server_passes_by(ruled: Workspace) -> None:
    event = ruled.event("PreToolUse", "mcp__toolstile__write_file", arguments={})
    assert ruled.decision(event) == {}
    assert ruled.recorded() == []
    other = ruled.event("PreToolUse", "mcp__toolstile__other__write", arguments={})
    assert ruled.decision(other)["permissionDecision"] == "defer"


def test_the_end_of_a_call_is_recorded(ruled: Workspace) -> None:
    good = ruled.event("PreToolUse", "Bash", arguments={"command": "ls"})
    bad = ruled.event("PreToolUse", "Bash", arguments={"command": "false"})
    stopped = ruled.event("PreToolUse", "Bash", arguments={"command": "sleep 9"})
    for event in (good, bad, stopped):
        assert ruled.decision(event) == {}
    ends = [
        after(stopped, error="interrupted", is_interrupt=True),
        after(good, tool_response={"stdout": "a"}),
        after(bad, error="Exit code 1"),
    ]
    assert [ruled.decision(end) for end in ends] == [{}, {}, {}]
    assert ruled.recorded() == [("bash", "cancelled"), ("bash", "succeeded"), ("bash", "error")]


@pytest.mark.parametrize(
    "end",
    [
        {"hook_event_name": "PostToolBatch", "tool_calls": [{"tool_use_id": "toolu_x"}]},
        {"hook_event_name": "Stop", "stop_hook_active": False},
        {"hook_event_name": "SessionEnd", "reason": "other"},
        {"hook_event_name": "UserPromptSubmit", "prompt": "more"},
    ],
    ids=lambda end: end["hook_event_name"],
)
def test_a_call_without_an_end_is_closed_as_unknown(ruled: Workspace, end: Any) -> None:
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "ls"}, id="toolu_x")
    ruled.decision(event)
    assert ruled.decision({**ruled.event("Stop"), **end}) == {}
    assert ruled.recorded() == [("bash", "unknown")]
    # Its end comes too late, and changes nothing.
    assert ruled.decision(after(event, tool_response={})) == {}
    assert len(ruled.recorded()) == 1


def test_the_end_of_another_agent_closes_nothing(ruled: Workspace) -> None:
    ruled.decision(ruled.event("PreToolUse", "Bash", arguments={"command": "ls"}, agent_id="a1"))
    ruled.decision(ruled.event("Stop", stop_hook_active=False))
    ruled.decision(ruled.event("SubagentStop", agent_id="a2"))
    assert ruled.recorded() == []
    ruled.decision(ruled.event("SubagentStop", agent_id="a1"))
    assert ruled.recorded() == [("bash", "unknown")]


def test_ends_that_were_never_begun_and_strange_events_change_nothing(ruled: Workspace) -> None:
    event = ruled.event("PostToolUse", "Bash", arguments={"command": "ls"}, tool_response={})
    assert ruled.decision(event) == {}
    assert ruled.decision(ruled.event("SomethingNew", surprise=[1])) == {}
    assert ruled.decision(ruled.event("PostToolBatch")) == {}


def test_an_event_that_cannot_be_read_refuses_the_call(ruled: Workspace) -> None:
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "ls"})
    del event["session_id"]
    assert ruled.send(event).returncode == 2
    assert ruled.bash("ls") == {}


def test_arguments_that_do_not_fit_are_refused(ruled: Workspace) -> None:
    event = ruled.event("PreToolUse", "Bash", arguments={"cmd": "ls"})
    assert ruled.decision(event)["permissionDecision"] == "deny"


def test_a_call_begins_after_the_put_back_of_the_one_before(hooked: Workspace) -> None:
    file = hooked.folder / "f.txt"
    file.write_text("one")
    event = hooked.event("PreToolUse", "Bash", arguments={"command": "?"})
    assert hooked.decision(event) == {}
    # Its end waits for the process that it leaves, and the agent may give up its hook before.
    line = "echo two > f.txt; sleep 0.8 >/dev/null 2>&1 &"
    subprocess.run(["bash", "-c", line], cwd=hooked.folder, check=True)
    with ThreadPoolExecutor() as pool:
        ended = pool.submit(hooked.decision, after(event, error="Exit code 1"))
        time.sleep(0.4)
        assert hooked.bash("ls") == {}
        assert "f.txt went back" in ended.result()["additionalContext"]
        assert file.read_text() == "one"


def test_tools_of_ours_with_the_names_of_an_agents_do_not_count(ruled: Workspace) -> None:
    event = ruled.event("BeforeTool", "read_file", arguments={"file_path": "a"})
    done = ruled.command("hook", "test", "gemini", input=json.dumps(event))
    assert "own permissions decide" in done.stdout
    event = ruled.event("BeforeTool", "list_directory", arguments={"dir_path": "."})
    done = ruled.command("hook", "test", "gemini", input=json.dumps(event))
    assert "own permissions decide" in done.stdout


# --- A person decides


def test_at_a_terminal_the_agent_asks(ruled: Workspace) -> None:
    ruled.entry = "cli"
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "git push"})
    assert ruled.decision(event) == {
        "permissionDecision": "ask",
        "permissionDecisionReason": "A push is for the user.",
    }
    ruled.decision(after(event, tool_response={"stdout": ""}))
    assert ruled.recorded() == [("bash", "succeeded")]


def test_at_a_terminal_a_refused_call_ends_as_unknown(ruled: Workspace) -> None:
    ruled.entry = "cli"
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "git push"})
    ruled.decision(event)
    ruled.decision(ruled.event("PostToolBatch", tool_calls=[{"tool_use_id": event["tool_use_id"]}]))
    assert ruled.recorded() == [("bash", "unknown")]


def test_in_print_mode_the_call_is_deferred_and_resumed(ruled: Workspace) -> None:
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "git push"})
    first = ruled.decision(event)
    assert first["permissionDecision"] == "defer"
    # Asked again too early, it still waits for the same answer.
    again = ruled.decision(event)
    ticket = ticket_in(again["permissionDecisionReason"])
    assert ticket in first["permissionDecisionReason"]
    approve(ruled, ticket)
    assert ruled.decision(event) == {}
    ruled.decision(after(event, tool_response={"stdout": ""}))
    assert [status for _, status in ruled.recorded()] == ["pending", "succeeded"]
    # The approval was for one call.
    other = ruled.event("PreToolUse", "Bash", arguments={"command": "git push"})
    assert ruled.decision(other)["permissionDecision"] == "defer"


def test_a_denied_call_is_denied_when_it_is_resumed(ruled: Workspace) -> None:
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "git push"})
    ticket = ticket_in(ruled.decision(event)["permissionDecisionReason"])
    approve(ruled, ticket, "deny", ticket, "--reason", "Not on a Friday.")
    answer = ruled.decision(event)
    assert answer["permissionDecision"] == "deny"
    assert "Not on a Friday." in answer["permissionDecisionReason"]


def test_an_edited_call_runs_with_the_arguments_of_the_person(ruled: Workspace) -> None:
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "git push"})
    ticket = ticket_in(ruled.decision(event)["permissionDecisionReason"])
    edited = {"command": "git push --dry-run"}
    approve(ruled, ticket, "edit", ticket, json.dumps(edited))
    answer = ruled.decision(event)
    assert answer["permissionDecision"] == "allow", answer
    assert answer["updatedInput"] == edited


def test_a_sub_agent_is_denied_and_repeats_the_call_when_it_is_approved(ruled: Workspace) -> None:
    first = ruled.bash("git push", agent_id="a1")
    assert first["permissionDecision"] == "deny"
    assert "again with the same arguments" in first["permissionDecisionReason"]
    approve(ruled, ticket_in(first["permissionDecisionReason"]))
    assert ruled.bash("git push other", agent_id="a1")["permissionDecision"] == "deny"
    assert ruled.bash("git push", agent_id="a1") == {}


def test_an_unknown_tool_asks(ruled: Workspace) -> None:
    event = ruled.event("PreToolUse", "mcp__github__merge", arguments={"number": 1})
    answer = ruled.decision(event)
    assert answer["permissionDecision"] == "defer"
    approve(ruled, ticket_in(answer["permissionDecisionReason"]))
    assert ruled.decision(event) == {}


def test_configuration_names_a_tool_of_another_server(ruled: Workspace) -> None:
    text = ruled.rules()
    ruled.configure(f"{text}\n[tools.mcp__github__list]\nrequires_confirmation = false\n")
    event = ruled.event("PreToolUse", "mcp__github__list", arguments={})
    assert ruled.decision(event) == {}


def test_without_an_inbox_a_call_that_asks_is_denied(hooked: Workspace) -> None:
    event = hooked.event("PreToolUse", "mcp__github__merge", arguments={})
    answer = hooked.decision(event)
    assert answer["permissionDecision"] == "deny"
    assert "requires human intervention" in answer["permissionDecisionReason"]


def test_a_stop_refuses_each_call(ruled: Workspace) -> None:
    assert ruled.bash("ls") == {}
    assert ruled.command("stop", "--reason", "The build is broken.").returncode == 0
    answer = ruled.bash("ls")
    assert answer["permissionDecision"] == "deny"
    assert "The build is broken." in answer["permissionDecisionReason"]


def test_a_plugin_that_replaces_a_result_is_heard(ruled: Workspace) -> None:
    plugin = ruled.folder / "shorter.py"
    plugin.write_text(
        "from toolstile import ToolResult, hookimpl\n\n"
        "@hookimpl(wrapper=True)\n"
        "def toolstile_execute():\n"
        "    yield\n"
        "    return ToolResult.ok({'stdout': 'short'})\n"
    )
    ruled.configure(f'plugin_files = ["{plugin}"]\n')
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "ls"})
    ruled.decision(event)
    answer = ruled.decision(after(event, tool_response={"stdout": "long"}))
    assert answer == {"updatedToolOutput": {"stdout": "short"}}


# --- Guidance


def test_the_end_of_a_turn_is_refused_once_in_a_row(ruled: Workspace) -> None:
    text = ruled.rules()
    checker = '[[plugins.agent.task_completion]]\nkind = "tools_called"\nnames = ["edit"]\n'
    ruled.configure(f"{text}\n{checker}")
    end = ruled.event("Stop", stop_hook_active=False, last_assistant_message="done")
    assert ruled.decision(end) == {}  # the session has made no call
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "ls"})
    ruled.decision(event)
    ruled.decision(after(event, tool_response={}))
    answer = ruled.decision(end)
    assert answer["decision"] == "block"
    assert "edit" in answer["reason"]
    assert ruled.decision({**end, "stop_hook_active": True}) == {}
    arguments = {"file_path": "a", "old_string": "a", "new_string": "b"}
    event = ruled.event("PreToolUse", "Edit", arguments=arguments)
    ruled.decision(event)
    ruled.decision(after(event, tool_response={}))
    assert ruled.decision(end) == {}


def test_feedback_follows_a_result(ruled: Workspace) -> None:
    text = ruled.rules()
    provider = (
        '[[plugins.agent.feedback_providers]]\nkind = "static"\ntext = "Run the tests."\n'
        "every_n_calls = 2\n"
    )
    ruled.configure(f"{text}\n{provider}")
    answers: list[Any] = []
    for command in ("ls", "make"):
        event = ruled.event("PreToolUse", "Bash", arguments={"command": command})
        ruled.decision(event)
        answers.append(ruled.decision(after(event, tool_response={})))
    assert answers[0] == {}
    assert "Run the tests." in answers[1]["additionalContext"]


# --- Files that govern the agent


def test_settings_cannot_change_while_a_call_runs(ruled: Workspace) -> None:
    file = ruled.folder / ".claude/settings.local.json"
    changed = ruled.event("ConfigChange", source="local_settings", file_path=str(file))
    assert ruled.decision(changed) == {}
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "ls"})
    ruled.decision(event)
    assert ruled.decision(changed)["decision"] == "block"
    ruled.decision(after(event, tool_response={}))
    assert ruled.decision(changed) == {}
    file.parent.mkdir()
    for text in ('{"disableAllHooks": true}', "no JSON"):
        file.write_text(text)
        assert ruled.decision(changed)["decision"] == "block"


def test_settings_without_the_hook_do_not_count_while_it_is_installed(ruled: Workspace) -> None:
    assert ruled.command("hook", "install", "claude-code").returncode == 0
    file = ruled.folder / ".claude/settings.json"
    changed = ruled.event("ConfigChange", source="project_settings", file_path=str(file))
    installed = json.loads(file.read_text())
    file.write_text(json.dumps({**installed, "model": "sonnet"}))
    assert ruled.decision(changed) == {}
    del installed["hooks"]["PreToolUse"]
    file.write_text(json.dumps(installed))
    assert ruled.decision(changed)["decision"] == "block"


def test_a_command_that_changed_a_governing_file_is_put_back(ruled: Workspace) -> None:
    settings = ruled.folder / ".claude" / "settings.json"
    before = (ruled.folder / "toolstile.toml").read_text()
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "python3 x.py"})
    other = ruled.event("PreToolUse", "Bash", arguments={"command": "ls"})
    ruled.decision(event)
    ruled.decision(other)
    settings.parent.mkdir()
    settings.write_text('{"disableAllHooks": true}')
    (ruled.folder / "toolstile.toml").write_text("")
    assert ruled.decision(after(other, tool_response={})) == {}
    answer = ruled.decision(after(event, tool_response={}))
    assert answer["decision"] == "block"
    assert "settings.json" in answer["reason"]
    assert not settings.exists()
    assert (ruled.folder / "toolstile.toml").read_text() == before


def test_permissions_that_a_person_gives_at_the_terminal_stay(ruled: Workspace) -> None:
    settings = ruled.folder / ".claude" / "settings.local.json"
    settings.parent.mkdir()
    for entry, stays in (("cli", True), ("sdk-cli", False)):
        ruled.entry = entry
        event = ruled.event("PreToolUse", "Bash", arguments={"command": "make"})
        ruled.decision(event)
        settings.write_text('{"permissions": {"allow": ["Bash(make)"]}}')
        answer = ruled.decision(after(event, tool_response={}))
        assert (answer == {}, settings.exists()) == (stays, stays)
        settings.unlink(missing_ok=True)
    kept = next(ruled.state.rglob("settings.local.json-*"))
    assert "Bash(make)" in kept.read_text()


def test_a_command_that_starts_another_agent_asks(ruled: Workspace) -> None:
    answer = ruled.bash("cd /tmp && claude --settings '{\"disableAllHooks\": true}' -p x")
    assert answer["permissionDecision"] == "defer"


def test_a_person_changes_these_files_between_calls(ruled: Workspace) -> None:
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "ls"})
    ruled.decision(event)
    ruled.decision(after(event, tool_response={}))
    Path(ruled.folder, ".mcp.json").write_text("{}")
    assert ruled.bash("ls") == {}
    assert Path(ruled.folder, ".mcp.json").read_text() == "{}"


def test_an_edit_of_the_configuration_counts_from_the_next_call(ruled: Workspace) -> None:
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "make"})
    assert ruled.decision(event) == {}
    ruled.decision(after(event, tool_response={}))
    helper = ruled.helper
    file = ruled.folder / "toolstile.toml"
    rule = 'kind = "rule"\neffect = "deny"\ntools = ["Bash"]\nreason = "No."\nwhen = "true"\n'
    file.write_text(f"{file.read_text()}\n[[policies]]\n{rule}")
    assert ruled.bash("make")["permissionDecision"] == "deny"
    assert ruled.helper not in {helper, None}


def test_the_next_helper_puts_back_what_a_killed_one_had_kept(ruled: Workspace) -> None:
    file = ruled.folder / "toolstile.toml"
    before = file.read_text()
    assert ruled.bash("make") == {}
    file.write_text("")
    (ruled.folder / ".mcp.json").write_text("{}")
    ruled.kill()
    assert ruled.bash("rm x")["permissionDecisionReason"] == "Deletions are for the user."
    assert file.read_text() == before
    assert not (ruled.folder / ".mcp.json").exists()
    assert next(ruled.state.rglob(".mcp.json-*")).read_text() == "{}"


def test_an_edit_between_two_turns_stays(ruled: Workspace) -> None:
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "make"})
    ruled.decision(event)
    ruled.decision(after(event, tool_response={}))
    (ruled.folder / ".mcp.json").write_text("{}")
    ruled.decision(ruled.event("UserPromptSubmit", prompt="more"))
    assert (ruled.folder / ".mcp.json").exists()
    ruled.kill()
    assert ruled.bash("make") == {}
    assert (ruled.folder / ".mcp.json").exists()


RULES_IN_PROJECT = """\
[project]
name = "x"

[[tool.toolstile.policies]]
kind = "rule"
effect = "deny"
tools = ["Bash"]
when = '"rm" in words(args.command)'
reason = "Deletions are for the user."
"""


def test_a_table_in_the_project_file_governs_and_the_rest_does_not(hooked: Workspace) -> None:
    file = hooked.folder / "pyproject.toml"
    file.write_text(RULES_IN_PROJECT)
    write = {"file_path": str(file), "content": ""}
    answer = hooked.decision(hooked.event("PreToolUse", "Write", arguments=write))
    assert answer["permissionDecision"] == "deny"
    added = RULES_IN_PROJECT.replace('"x"', '"x"\ndependencies = ["a"]')
    for text, left in ((added, added), ("[tool.toolstile]\n", added)):
        event = hooked.event("PreToolUse", "Bash", arguments={"command": "make"})
        assert hooked.decision(event) == {}
        file.write_text(text)
        answer = hooked.decision(after(event, tool_response={}))
        assert answer.get("decision") == (None if text == left else "block")
        assert file.read_text() == left
    # A person's edit counts from the next call.
    file.write_text(RULES_IN_PROJECT.replace("Deletions", "Removals"))
    assert hooked.bash("rm x")["permissionDecisionReason"] == "Removals are for the user."


@pytest.mark.parametrize("name", ["toolstile.toml", "pyproject.toml"])
def test_no_nearer_file_takes_the_place_of_the_configuration(
    tmp_path: Path, hooked: Workspace, name: str
) -> None:
    above = tmp_path / "toolstile.toml"
    above.write_text(hooked.rules())
    nearer = hooked.folder / name
    event = hooked.event("PreToolUse", "Bash", arguments={"command": "make"})
    assert hooked.decision(event) == {}
    nearer.write_text("[tool.toolstile]\n" if name == "pyproject.toml" else "")
    assert hooked.decision(after(event, tool_response={}))["decision"] == "block"
    assert not nearer.exists()
    assert hooked.bash("rm x")["permissionDecision"] == "deny"
    above.write_text(hooked.rules(deletes="ls"))
    assert hooked.bash("ls")["permissionDecision"] == "deny"


def test_a_stop_outlives_a_command_that_removes_its_file(ruled: Workspace) -> None:
    assert ruled.person("stop", "--tool", "WebFetch", "--reason", "Not now.").returncode == 0
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "make"})
    assert ruled.decision(event) == {}
    shutil.rmtree(ruled.folder / ".toolstile")
    assert ruled.decision(after(event, tool_response={}))["decision"] == "block"
    assert "Not now." in ruled.command("status").stdout
    # Without its slot, the helper would not hear of this one.
    assert ruled.person("stop", "--reason", "Nor this.").returncode == 0
    assert "Nor this." in ruled.bash("ls")["permissionDecisionReason"]


def test_a_person_stops_and_lifts_a_stop_while_a_command_runs(ruled: Workspace) -> None:
    assert ruled.person("stop", "--tool", "WebFetch", "--reason", "Not now.").returncode == 0
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "make"})
    assert ruled.decision(event) == {}
    assert ruled.person("go").returncode == 0
    assert ruled.person("stop", "--tool", "Read", "--reason", "Nor this.").returncode == 0
    assert ruled.decision(after(event, tool_response={})) == {}
    shown = ruled.command("status").stdout
    assert "Not now." not in shown
    assert "Nor this." in shown


def test_an_edit_after_a_refused_call_stays(ruled: Workspace) -> None:
    assert ruled.bash("rm x")["permissionDecision"] == "deny"
    ruled.configure(ruled.rules(deletes="ls"))
    assert ruled.bash("ls")["permissionDecision"] == "deny"
    assert ruled.bash("rm x") == {}


def test_an_undo_is_recorded_while_the_helper_writes_the_record(ruled: Workspace) -> None:
    file = ruled.folder / "a.txt"
    file.write_text("before")
    event = ruled.event("PreToolUse", "Bash", arguments={"command": "echo after > a.txt"})
    assert ruled.decision(event) == {}
    file.write_text("after")
    ruled.send(after(event, tool_response={}))
    helper = ruled.helper
    undone = ruled.person("undo", "--last", "--yes")
    assert (undone.returncode, file.read_text()) == (0, "before"), undone
    assert ruled.helper == helper is not None
    calls = json.loads(ruled.command("status", "--json").stdout.splitlines()[0])["calls"]
    assert [call["tool"] for call in calls] == ["bash", "undo_calls"]


def test_a_command_in_another_directory_is_judged_as_after_a_cd(ruled: Workspace) -> None:
    pytest.importorskip("tree_sitter_bash")
    policy = '[[policies]]\nkind = "command"\ntools = ["Bash"]\npreset = "developer"\n'
    ruled.configure(f"{ruled.rules()}\n{policy}")
    places = {"root": str(ruled.folder), "evil": str(ruled.folder / "evil")}
    verdicts = {
        (line, name): ruled.bash(line, cwd=places[name]).get("permissionDecision")
        for line in ("cd evil && git status", "git status", "pytest")
        for name in places
    }
    assert [place for place, verdict in verdicts.items() if verdict is not None] == [
        ("cd evil && git status", "root"),
        ("cd evil && git status", "evil"),
        ("git status", "evil"),
    ]

"""Long outputs can be read on, for as long as their session, and are no part of the workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolstile_hookspecs import ApprovalRequest, Outcome, ToolCall
from toolstile_plugins.sandbox.backend import CommandResult
from toolstile_plugins.sandbox.shell import Collected

Open = Callable[..., Any]
NUMBERS = 150_000
MANY = f"seq 1 {NUMBERS}; echo trouble >&2"


def whole_of(outcome: Outcome) -> Any:
    assert outcome.success, outcome.text
    value = outcome.result.value
    assert isinstance(value, CommandResult)
    (whole,) = value.whole_outputs
    return whole


@pytest.mark.parametrize("backend", ["bubblewrap", "none"])
def test_of_a_megabyte_all_can_be_read_and_searched(open_shell: Open, backend):
    shell = open_shell(backend=backend)
    outcome = shell.outcome(MANY)
    whole = whole_of(outcome)
    size = sum(len(f"{number}\n") for number in range(1, NUMBERS + 1))
    assert (whole.name, whole.size) == ("stdout", size)
    assert f"read_file and grep_files read all of it in {whole.path}" in outcome.text
    assert len(outcome.text) < 34 * 1024
    page = shell.call("read_file", path=whole.path, offset=99_999, limit=2)
    assert page.result.value.content == "99999\n100000\n"
    found = shell.call("grep_files", path=whole.path, pattern="^12345$")
    assert [match.line for match in found.result.value.matches] == [12_345]


def test_it_is_shown_by_nothing_but_its_path(open_shell: Open):
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    policies = [{"kind": "rule", "tools": ["shell_execute"], "effect": "ask"}]
    settings = {"policies": policies, "approve_diff": True}
    shell = open_shell(settings=settings, host={"approver": approve})
    whole = whole_of(shell.outcome(f"{MANY}; echo x > kept"))
    assert ".outputs" not in str(asked[0].diff)
    assert shell.files() == ["kept"]
    for name, arguments in (
        ("list_directory", {}),
        ("glob_files", {"pattern": "**"}),
        ("grep_files", {"pattern": "12345"}),
    ):
        assert ".outputs" not in shell.call(name, **arguments).text
    assert "cannot access" in shell(f"ls {whole.path}").stderr


@pytest.mark.slow
def test_it_cannot_be_changed_but_copied(open_shell: Open):
    shell = open_shell(host={"approver": lambda request: True})
    path = whole_of(shell.outcome(MANY)).path
    told = f"{path} lies beside the workspace"
    shell.call("read_file", path=path, limit=1)
    assert told in shell.call("write_file", path=path, content="x", overwrite=True).text
    assert told in shell.call("delete_file", path=path).text
    assert shell.call("copy_file", source=path, target="copy.txt").success
    assert shell("tail -n 1 copy.txt").stdout == f"{NUMBERS}\n"


def test_another_session_has_no_part_in_it(shell):
    path = whole_of(shell.outcome(MANY)).path
    with shell.host.executor() as other:
        outcome = other.dispatch(ToolCall("read_file", {"path": path}))
    assert "any more" in outcome.text
    assert shell.call("read_file", path=path, limit=1).success


@pytest.mark.slow
def test_a_command_that_fails_its_call_leaves_it_too(open_shell: Open):
    shell = open_shell(on_exit="fail")
    text = shell.outcome(f"{MANY}; exit 3").text
    path = text.partition(" read all of it in ")[2].partition(" ")[0]
    assert "99999" in shell.call("grep_files", path=path, pattern="^99999$").text


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [({}, {"capture_output": False}), ({"whole_output": 0}, {}), ({"output": 2_000_000}, {})],
    ids=["of no interest", "switched off", "short enough"],
)
def test_what_is_not_wanted_or_not_cut_is_not_kept(open_shell: Open, settings, arguments):
    result = open_shell(**settings)(MANY, **arguments)
    assert result.whole_outputs == ()
    assert ".outputs" not in result.render()


def test_what_lies_beyond_the_bound_is_said(open_shell: Open):
    shell = open_shell(whole_output=100_000)
    outcome = shell.outcome("head -c 200000 /dev/zero | tr '\\0' '\\n' >&2")
    whole = whole_of(outcome)
    assert (whole.name, whole.size) == ("stderr", 100_000)
    assert f"read the first 100,000 of 200,000 in {whole.path}" in outcome.text


@pytest.mark.parametrize("whole", [0, 5, 20, 100])
def test_both_ends_are_shown_whatever_is_kept(whole):
    collected = Collected(10, whole)
    for number in range(10):
        collected.add(b"%d......." % number)
    output = collected.output()
    assert (output.head, output.tail, output.missing) == (b"0....", b".....", 70)
    assert output.whole == b"".join(b"%d......." % number for number in range(10))[:whole]

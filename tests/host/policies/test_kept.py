"""The memory of a kept policy outlives its session, for anybody's policy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolstile import Host, Session
from toolstile.policies.persistence import merged, read, write
from toolstile_hookspecs import (
    ConfigurationError,
    DefinitionError,
    MarkdownSection,
    PersistentPolicy,
    PolicyDecision,
    PolicyState,
    PolicyStoreLocation,
    Prompt,
    Status,
    ToolCall,
    ToolResult,
    tool,
)


@dataclass(frozen=True, kw_only=True)
class Stranger:
    """Admits so many calls in all, and remembers tools and what they were called with."""

    most: int = 100
    name: str = ""
    keeps: Any = None

    def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        if tool.name == "deploy" and "lint" not in PolicyState.of(context, self.name).invoked_tools:
            return PolicyDecision.deny("Call lint first, then retry deploy.")
        return PolicyDecision.allow()

    def reserve(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        state = PolicyState.reserved(context, self.name)
        used = state.data.get("used", 0)
        if used >= self.most:
            return PolicyDecision.deny(f"All {used} are used.")
        replace(state, data={"used": used + 1}).save(context)
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None:
        state = PolicyState.of(context, self.name).with_tool(tool.name)
        replace(state, data={**state.data, tool.name: self.keeps}).save(context)


def step(name: str) -> Any:
    @tool(name=name)
    def run(fail: bool = False) -> ToolResult[None]:
        """Do one step."""
        return ToolResult.error("no") if fail else ToolResult.ok()

    return run


class Desk:
    """Opens hosts, each with a session, whose policies are kept in one file."""

    def __init__(self, file, stack: ExitStack) -> None:
        self.file = file
        self._stack = stack

    def open(self, *policies, session=None, level="host", **options):
        kept = [
            each if isinstance(each, PersistentPolicy) else PersistentPolicy(each, self.file)
            for each in policies or (Stranger(name="rule"),)
        ]
        places = {"host": [], "section": [], "prompt": [], level: kept}
        steps = [step(name) for name in ("lint", "build", "deploy")]
        section = MarkdownSection(key="s", title="S", tools=steps, policies=places["section"])
        prompt = Prompt.of("t", "t", [section], places["prompt"])
        host = self._stack.enter_context(Host(discover=False, policies=places["host"]))
        tools = self._stack.enter_context(host.executor(session=session, prompt=prompt, **options))
        return lambda name, **arguments: tools.dispatch(ToolCall(name, arguments))

    @property
    def records(self):
        return {each["policy_name"]: each for each in json.loads(self.file.read_text())["policies"]}


@pytest.fixture
def desk(tmp_path):
    with ExitStack() as stack:
        yield Desk(tmp_path / "state" / "kept.json", stack)


@pytest.mark.parametrize("level", ["host", "section", "prompt"])
def test_a_new_session_knows_what_the_last_one_did(desk, level):
    assert not desk.open(level=level)("deploy").success
    desk.open(level=level)("lint")
    assert desk.open(level=level)("deploy").success


@pytest.mark.slow
def test_the_file_is_versioned_json(desk):
    desk.open()("lint")
    document = json.loads(desk.file.read_text())
    assert (document["format"], document["version"]) == ("toolstile.policies", 1)
    assert desk.records["rule"] == {
        "policy_name": "rule",
        "invoked_tools": ["lint"],
        "invoked_keys": [],
        "data": {"lint": None},
    }
    assert desk.records["rule/reserved"]["data"] == {"used": 1}


def test_a_rolled_back_call_keeps_nothing_but_its_reservation(desk):
    desk.open()("lint", fail=True)
    assert list(desk.records) == ["rule/reserved"]


def test_a_denied_call_keeps_nothing(desk):
    desk.open()("deploy")
    assert not desk.file.exists()


def test_a_call_that_another_limit_denies_takes_no_place(desk):
    call = desk.open(Stranger(name="one"), Stranger(name="none", most=0))
    assert call("lint").status is Status.DENIED
    assert not desk.file.exists()


def test_sessions_at_once_keep_one_anothers_changes(desk):
    one, other = desk.open(), desk.open()
    one("lint")
    other("build")
    assert desk.records["rule"]["invoked_tools"] == ["build", "lint"]
    assert desk.records["rule"]["data"] == {"build": None, "lint": None}


@pytest.mark.parametrize(("anew", "first"), [(False, True), (True, False)])
def test_what_is_kept_apart_leaves_the_file_alone(desk, tmp_path, anew, first):
    desk.open()("lint")
    before = desk.file.read_text()
    apart = PolicyStoreLocation(tmp_path, anew=anew)
    assert desk.open(kept_apart=apart)("deploy").success is first
    desk.open(kept_apart=apart)("lint")
    assert desk.open(kept_apart=apart)("deploy").success
    assert desk.file.read_text() == before


def test_limits_hold_over_all_sessions_that_are_kept_apart_together(desk, tmp_path):
    rule = Stranger(name="rule", most=2)
    desk.open(rule)("lint")
    apart = PolicyStoreLocation(tmp_path)
    assert desk.open(rule, kept_apart=apart)("lint").success
    assert not desk.open(rule, kept_apart=apart)("lint").success
    assert desk.open(rule)("lint").success


def test_a_file_that_cannot_be_read_is_named_where_a_copy_is_to_be_kept_apart(desk, tmp_path):
    desk.file.parent.mkdir()
    desk.file.write_text("no")
    with pytest.raises(ConfigurationError, match=str(desk.file)):
        desk.open(kept_apart=PolicyStoreLocation(tmp_path))


@pytest.mark.slow
def test_limits_hold_exactly_over_all_sessions_at_once(desk):
    calls = [desk.open(Stranger(name="rule", most=10)) for _ in range(4)]
    ended = []
    threads = [
        threading.Thread(target=lambda call=call: ended.extend(call("build") for _ in range(5)))
        for call in calls
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(each.success for each in ended) == 10
    assert desk.records["rule/reserved"]["data"] == {"used": 10}


@pytest.mark.slow
def test_a_restored_session_keeps_its_own_record_but_counts_on(desk):
    session = Session()
    desk.open(session=session)("build")
    text = session.to_json()
    desk.open()("lint")

    again = Session.from_json(text)
    assert not desk.open(session=again)("deploy").success
    assert PolicyState.of(_context(again), "rule").invoked_tools == {"build"}
    desk.open(session=again)("build")
    assert desk.records["rule/reserved"]["data"] == {"used": 3}


def test_a_reset_is_the_sessions_own_and_leaves_the_file(desk):
    session = Session()
    call = desk.open(session=session)
    call("lint")
    session.reset()
    assert not call("deploy").success
    assert desk.open()("deploy").success


def test_policies_may_share_a_file_or_have_their_own(desk, tmp_path):
    apart = PersistentPolicy(Stranger(name="apart"), tmp_path / "apart.json")
    desk.open(Stranger(name="one"), Stranger(name="two"), apart)("lint")
    assert {each.removesuffix("/reserved") for each in desk.records} == {"one", "two"}
    assert set(read(tmp_path / "apart.json")) == {"apart", "apart/reserved"}


def test_what_is_no_json_fails_the_call_before_anything_is_kept(desk):
    outcome = desk.open(Stranger(name="rule", keeps=object()))("lint")
    assert outcome.status is Status.ERROR
    assert "rule" not in desk.records


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "its content does not fit (invalid JSON: "),
        ("[]", "its content does not fit (input should be an object). "),
        ("{}", "its content does not fit (format: field required). "),
        (
            '{"format": "toolstile.policies", "version": 2, "policies": []}',
            "its content does not fit (version: input should be 1). ",
        ),
        (
            '{"format": "toolstile.policies", "version": 1, "policies": 3}',
            "its content does not fit (policies: input should be a valid array). ",
        ),
        ("\xff", "its content does not fit (invalid JSON: "),
    ],
)
def test_a_file_that_cannot_be_read_is_told_when_the_session_begins(desk, text, told):
    desk.file.parent.mkdir()
    desk.file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match="Repair the file, or move it away") as raised:
        desk.open()
    assert str(raised.value).startswith(f"{desk.file} keeps the records of policies, but ")
    assert told in str(raised.value)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_is_told_at_once_and_not_read(desk, make):
    desk.file.parent.mkdir()
    make(desk.file)
    with pytest.raises(ConfigurationError, match=r"but it is not a file\. Repair the file"):
        desk.open()


def test_a_file_that_cannot_be_written_denies_and_says_why(desk, caplog):
    call = desk.open()
    desk.file.parent.write_text("in the place of the folder")
    outcome = call("build")
    assert outcome.status is Status.DENIED
    assert f"{desk.file} keeps the records of policies, but it cannot be written (" in caplog.text


def test_where_one_policy_could_not_be_kept_no_other_has_counted_the_call(tmp_path):
    file = tmp_path / "kept.json"
    policies = [
        Stranger(name="other", most=1),
        PersistentPolicy(Stranger(name="kept", most=1), file),
    ]
    prompt = Prompt.of("t", "t", [MarkdownSection(key="s", title="S", tools=[step("lint")])])
    with Host(discover=False, policies=policies) as host, host.executor(prompt=prompt) as tools:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("toolstile.policies.persistence.replaced", full)
            assert "could not be kept" in tools.dispatch(ToolCall("lint")).text
        assert tools.dispatch(ToolCall("lint")).success


def full(_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_a_file_that_is_spoilt_meanwhile_denies_and_stays(desk):
    call = desk.open()
    call("lint")
    desk.file.write_text("spoilt")
    outcome = call("build")
    assert outcome.status is Status.DENIED
    assert "could not be kept. This requires human intervention" in outcome.text
    assert desk.file.read_text() == "spoilt"


def test_a_call_whose_changes_cannot_be_saved_says_so(desk, monkeypatch):
    call = desk.open()

    def refuse(file, records):
        if "rule" in records:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolstile.policies.persistence.write", refuse)
    outcome = call("lint")
    assert outcome.status is Status.COMMIT_FAILED
    assert "the kept state of policies" in outcome.text


def test_no_half_written_file_is_left_behind(tmp_path, monkeypatch):
    file = tmp_path / "kept.json"
    write(file, {"a": PolicyState("a")})
    file.chmod(0o640)
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(ConfigurationError, match=r"kept\.json .* cannot be written \(full\)"):
        write(file, {"b": PolicyState("b")})
    monkeypatch.undo()
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]
    write(file, {"b": PolicyState("b")})
    assert (list(read(file)), file.stat().st_mode & 0o777) == (["b"], 0o640)


def test_a_kept_policy_needs_a_name(tmp_path):
    with pytest.raises(DefinitionError, match="has no name; give it one"):
        PersistentPolicy(Stranger(), tmp_path / "x.json")


COUNTER = """
import sys
from pathlib import Path
from toolstile import Host
from toolstile_hookspecs import PersistentPolicy, MarkdownSection, Prompt, ToolCall, tool
from toolstile_plugins.policies import QuotaPolicy

step = tool(lambda: None, name="step", description="Do one step.")
quota = PersistentPolicy(QuotaPolicy(max_calls=30, name="quota"), Path(sys.argv[1]))
prompt = Prompt.of("t", "t", [MarkdownSection(key="s", title="S", tools=[step])])
with Host(discover=False, policies=[quota]) as host, host.executor(prompt=prompt) as tools:
    print(sum(tools.dispatch(ToolCall("step")).success for _ in range(20)))
"""


@pytest.mark.slow
def test_limits_hold_exactly_over_processes(tmp_path):
    command = [sys.executable, "-c", COUNTER, str(tmp_path / "kept.json")]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert sum(int(each.communicate(timeout=60)[0]) for each in started) == 30


names = st.frozensets(st.sampled_from("abc"))
records = st.builds(
    PolicyState,
    st.just("rule"),
    names,
    st.frozensets(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"))),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)),
)


@pytest.mark.slow
@given(records, records, records)
def test_a_change_is_carried_over_and_nothing_else_is_touched(old, new, theirs):
    got = merged("rule", old, new, theirs)

    assert merged("rule", old, new, old) == new
    assert merged("rule", old, old, theirs) == theirs
    for each in "abc":
        changed = (each in old.invoked_tools) != (each in new.invoked_tools)
        decides = new if changed else theirs
        assert (each in got.invoked_tools) == (each in decides.invoked_tools)
        decides = new if old.data.get(each) != new.data.get(each) else theirs
        assert got.data.get(each) == decides.data.get(each)


def _context(session: Session) -> Any:
    return type("Context", (), {"session": session})()

"""A record names the batch of each call and, with `diff = true`, has the changes of each call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from toolstile import Host, Settings, ToolCall
from toolstile_hookspecs import Filesystem, PolicyDecision, ToolContext, hookimpl, tool
from toolstile_hookspecs.calls import DIFF
from toolstile_plugins.record import Recording
from toolstile_plugins.record.schema import RecordedCall


@tool(category="write", contained=True)
def keep(path: str, text: str, *, context: ToolContext) -> str:
    """Write a file."""
    files: Filesystem = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    files.write(path, text)
    if text == "torn":
        raise RuntimeError("The pen broke.")
    return "Kept."


@tool(category="write", contained=True)
def keep_password(password: SecretStr, *, context: ToolContext) -> str:
    """Write a password into a file."""
    return context.call("keep", {"path": "p", "text": password.get_secret_value()}).text


class Auditor:
    """Refuses one text after it was written, and rejects another before."""

    @hookimpl
    def toolstile_check(self, params: Any) -> PolicyDecision | None:
        return PolicyDecision.deny("No.") if getattr(params, "text", "") == "denied" else None

    @hookimpl
    def toolstile_on_result(self, params: Any) -> None:
        if getattr(params, "text", "") == "vetoed":
            raise RuntimeError("Too late.")


_UNKEPT = ("torn", "denied", "vetoed")


def made(folder: Path, *texts: str, diff: bool = True, confirm: bool = False) -> list[RecordedCall]:
    """Record calls that write `a.txt`; return their lines."""
    record = folder / "calls.jsonl"
    (folder / "files").mkdir()
    plugins = {
        "record": {"file": record, "diff": diff},
        "vfs": {"root": folder / "files"},
    }
    settings = Settings.model_validate({"plugins": plugins, "approve_diff": confirm})
    tools = [replace(keep, requires_confirmation=confirm), keep_password]
    options = {"plugins": [Auditor()], "approver": lambda _: True}
    with Host(settings=settings, tools=tools, **options) as host, host.executor() as run:
        run.dispatch_all([ToolCall("keep", {"path": "a.txt", "text": text}) for text in texts])
        run.dispatch(ToolCall("keep_password", {"password": "hunter22"}))
    return [*Recording.load(record).calls]


def test_a_call_names_its_batch(tmp_path: Path) -> None:
    first, second, nested, alone = made(tmp_path, "one", "two", diff=False)
    assert first.batch == second.batch
    assert len(str(first.batch)) == 32
    assert (nested.batch, alone.batch) == (None, None)


def test_a_record_has_no_diffs_unless_it_is_told_to(tmp_path: Path) -> None:
    assert {call.diff for call in made(tmp_path, "one", diff=False)} == {None}


def test_a_record_has_the_changes_that_were_made_or_rolled_back(tmp_path: Path) -> None:
    calls = {call.params.get("text"): call for call in made(tmp_path, "one\n", *_UNKEPT)}
    ends = {text: calls[text].status.value for text in ("one\n", *_UNKEPT)}
    assert ends == {"one\n": "succeeded", "torn": "error", "denied": "denied", "vetoed": "error"}
    diffs = {text: calls[text].diff or "" for text in ends}
    assert [f"+{text.strip()}" in diff for text, diff in diffs.items()] == [True, True, False, True]
    assert diffs["denied"] == ""


def test_a_diff_is_masked(tmp_path: Path) -> None:
    _, outer = made(tmp_path)
    assert outer.diff is not None
    assert "+***" in outer.diff
    assert "hunter22" not in outer.model_dump_json()


def test_the_diff_of_an_approver_is_recorded_once(tmp_path: Path) -> None:
    call = made(tmp_path, "one", confirm=True)[0]
    assert "+one" in call.attributes[DIFF]
    assert call.diff is None

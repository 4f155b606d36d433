"""The sessions that come with Toolstile, played by the official client, end as in a run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, ElicitResult, InputRequiredResult

from toolstile_cli.commands.run import example_session

from .conftest import COMMAND, LEGACY, LONGEST, MODERN, SLOW

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.long_if(mode="legacy")]

DRAFT = "drafts/ideas.md"
DELETION = "15"
"""The id of the call that deletes the draft, which a person has to approve."""
APPROVED = "ApprovalAnswer.approve()"
DENIED = "ApprovalAnswer.deny()"
CLOSED = "ApprovalAnswer.unanswered('The person closed the question without an answer.')"
SILENT = "ApprovalAnswer.unanswered('No one answered at the MCP client in 0.5 seconds.')"
APPROVER = """\
from toolstile_hookspecs import ApprovalAnswer, hookimpl

@hookimpl
def toolstile_approve():
    return {answer}
"""


@dataclass(frozen=True)
class Ending:
    """The value of a call, or the message of its failure."""

    success: bool
    told: Any


@dataclass
class Person:
    """Reacts to a question at the client; `None` is no reaction at all."""

    reaction: str | None
    asked: list[str] = field(default_factory=list)

    async def __call__(self, context: object, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        if self.reaction is None:
            await anyio.sleep_forever()
        content = {} if self.reaction == "accept" else None
        return ElicitResult(action=self.reaction, content=content)


def _calls(example: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in example_session(example)[1].splitlines()]


def _run(example: str, answer: str, folder: Path) -> dict[str, Ending]:
    """The endings that `toolstile run` shows where approval gets this answer."""
    folder.mkdir()
    (folder / "toolstile.toml").write_text('approver = "person"\n')
    (folder / "person.py").write_text(APPROVER.format(answer=answer))
    ran = subprocess.run(
        [COMMAND, "run", "--example", example, "--plugin", "person.py", "--json"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SLOW,
        check=False,
    )
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert told, ran.stderr
    return {each["id"]: _ending_in_envelope(each) for each in told}


def _ending_in_envelope(envelope: Mapping[str, Any]) -> Ending:
    success = "error" not in envelope
    return Ending(success, envelope["data" if success else "error"])


@asynccontextmanager
async def _client(
    example: str, mode: str, folder: Path, person: Person | None = None, *options: str
) -> AsyncIterator[Client]:
    """The official client of a real server, which keeps its copy of the files in the folder."""
    parameters = StdioServerParameters(
        command=str(COMMAND),
        args=["mcp", "--example", example, *options],
        cwd=folder,
        env={"TMPDIR": str(folder)},
    )
    async with Client(parameters, mode=mode, elicitation_callback=person) as client:
        yield client


async def _play(client: Client, example: str) -> dict[str, Ending]:
    return {each["id"]: await _ending(client, each) for each in _calls(example)}


async def _ending(client: Client, call: Mapping[str, Any]) -> Ending:
    try:
        return _ending_in(await client.call_tool(call["name"], call["arguments"]))
    except MCPError as error:
        if error.error.code != INVALID_PARAMS:
            raise
        return Ending(False, error.error.message)


def _ending_in(result: CallToolResult) -> Ending:
    if result.is_error or result.structured_content is None:
        return Ending(not result.is_error, result.content[0].text)
    value = result.structured_content
    return Ending(True, value["result"] if value.keys() == {"result"} else value)


def _copy(folder: Path) -> Path:
    (copy,) = folder.glob("toolstile-example-*")
    return copy


async def test_a_session_ends_as_in_a_run(mode, tmp_path):
    async with _client("orders", mode, tmp_path) as client:
        endings = await _play(client, "orders")

    assert endings == _run("orders", DENIED, tmp_path / "run")
    denied, failed, listed = endings["4"], endings["8"], endings["9"]
    assert not denied.success
    assert "the credit of Grace was not checked. Call check_credit first" in denied.told
    assert not failed.success
    assert "The carrier sent #2 back" in failed.told
    assert [each["status"] for each in listed.told["orders"]] == ["open", "open"]


@pytest.mark.parametrize(
    ("reaction", "answer"),
    [
        ("accept", APPROVED),
        ("decline", DENIED),
        pytest.param("cancel", CLOSED, marks=pytest.mark.long),
    ],
)
async def test_a_file_is_deleted_only_when_a_person_accepts(mode, reaction, answer, tmp_path):
    person = Person(reaction)
    async with _client("workspace", mode, tmp_path, person) as client:
        endings = await _play(client, "workspace")
        left = (_copy(tmp_path) / DRAFT).exists()
        seen = await client.call_tool("read_file", {"path": DRAFT})

    assert endings == _run("workspace", answer, tmp_path / "run")
    accepted = reaction == "accept"
    assert endings[DELETION].success == accepted
    assert (left, not seen.is_error) == (not accepted, not accepted)
    (question,) = person.asked
    assert question.startswith("Run delete_file? (delete, ")
    assert f'"path": "{DRAFT}"' in question


async def test_a_file_stays_when_nobody_reacts_in_time(tmp_path):
    (tmp_path / "toolstile.toml").write_text("[plugins.mcp.serve]\nelicitation_timeout = 0.5\n")
    async with _client("workspace", LEGACY, tmp_path, Person(None)) as client:
        with anyio.fail_after(SLOW):
            endings = await _play(client, "workspace")
        assert (_copy(tmp_path) / DRAFT).exists()

    assert endings == _run("workspace", SILENT, tmp_path / "run")
    assert not endings[DELETION].success


@pytest.mark.long
async def test_a_file_stays_when_the_request_is_never_repeated(tmp_path):
    *before, deletion, after = _calls("workspace")
    assert deletion["id"] == DELETION
    async with _client("workspace", MODERN, tmp_path, Person("accept")) as client:
        endings = {each["id"]: await _ending(client, each) for each in before}
        asked = await client.session.call_tool(
            deletion["name"], deletion["arguments"], allow_input_required=True
        )
        endings[after["id"]] = await _ending(client, after)
        assert (_copy(tmp_path) / DRAFT).exists()

    assert isinstance(asked, InputRequiredResult)
    ran = _run("workspace", CLOSED, tmp_path / "run")
    del ran[DELETION]
    assert endings == ran


@pytest.mark.long
async def test_a_failed_call_changes_no_file(mode, tmp_path):
    async with _client("workspace", mode, tmp_path) as client:
        copy = _copy(tmp_path)
        before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
        result = await client.call_tool("set_version", {"version": "1.3"})
        assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
        assert before

    assert result.is_error
    assert "so nothing is kept" in result.content[0].text


@pytest.mark.long
def test_the_files_of_an_example_are_gone_with_the_server(tmp_path):
    served = subprocess.run(
        [COMMAND, "mcp", "--example", "workspace"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        timeout=LONGEST,
        check=False,
    )
    assert served.returncode == 0
    assert [*tmp_path.glob("toolstile-example-*")] == []


@pytest.mark.long
async def test_a_workspace_of_ones_own_is_served_in_place_of_the_files(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    own = ("--workspace", "mine")
    async with _client("workspace", MODERN, tmp_path, None, *own) as client:
        listed = await client.call_tool("list_directory", {})
    assert [each["path"] for each in listed.structured_content["entries"]] == ["notes.txt"]
    assert [*tmp_path.glob("toolstile-example-*")] == []

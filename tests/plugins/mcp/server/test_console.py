"""The console beside the tools: on one port, with secrets of its own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from .conftest import COMMAND, LONGEST, MODERN, Served, serving
from .test_http import _lists

pytestmark = pytest.mark.slow

CONFIGURED = """\
approver = "inbox"

[plugins.inbox]
path = "{folder}/inbox/inbox.db"
interval = 0.05
"""
JSON = {"accept": "application/json"}


class Opened:
    """The console of a server, as the person has opened it.

    Attributes:
        client: A client that has signed in.
        room: The path of its pages.
        cookie: The cookie.
    """

    def __init__(self, served: Served) -> None:
        self.client = httpx2.Client(
            base_url=served.base, headers={"origin": served.base}, trust_env=False
        )
        lines = "".join(served.said)
        self.token = re.findall(rf"{served.base}/console/#(\S+)", lines)[-1]
        entered = self.client.post("/console/login", data={"token": self.token})
        self.room = entered.headers["location"]
        self.cookie = entered.headers["set-cookie"].partition(";")[0]

    def waiting(self) -> list[dict[str, Any]]:
        return self.client.get(self.room, headers=JSON).json()["questions"]

    def approve(self, question: dict[str, Any]) -> None:
        page = self.client.get(self.room).text
        csrf = re.findall(r'name="csrf" value="([^"]+)"', page)[0]
        fields = {"csrf": csrf, "digest": question["digest"], "answer": "approve"}
        path = f"{self.room}questions/{question['ticket']}"
        assert self.client.post(path, data=fields).status_code == 303


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("beside")
    (folder / "toolstile.toml").write_text(CONFIGURED.format(folder=folder), encoding="utf-8")
    (folder / "token").write_text("of-clients\n", encoding="utf-8")
    command = ("mcp", "--http", "127.0.0.1:0", "--console", "--token-file", "token")
    plugin = Path(__file__).with_name("confirming.py")
    with serving(plugin=plugin, command=command, cwd=folder) as served:
        yield served


@pytest.fixture(scope="module")
def opened(served: Served) -> Iterator[Opened]:
    opened = Opened(served)
    with closing(opened.client):
        yield opened


@pytest.mark.anyio
async def test_a_call_of_a_client_is_approved_there_and_runs(served, opened):
    results: list[Any] = []

    async def call(client: Any) -> None:
        results.append(await client.call_tool("erase", {"name": "a.txt"}))

    async with served.client(MODERN, token="of-clients") as client, anyio.create_task_group() as at:
        at.start_soon(call, client)
        questions: list[dict[str, Any]] = []
        with anyio.fail_after(LONGEST):
            while not questions:
                await anyio.sleep(0.05)
                questions = await anyio.to_thread.run_sync(opened.waiting)
        assert [question["tool"] for question in questions] == ["erase"]
        await anyio.to_thread.run_sync(opened.approve, questions[0])
    assert not results[0].is_error


def test_the_tokens_of_clients_do_not_open_it(served, opened):
    with httpx2.Client(
        base_url=served.base, headers={"origin": served.base}, trust_env=False
    ) as client:
        shown = {"authorization": "Bearer of-clients"}
        assert client.get(opened.room, headers=shown).status_code == 401
        answer = client.post("/console/login", data={"token": "of-clients"}, headers=shown)
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


def test_neither_its_cookie_nor_its_token_opens_the_tools(served, opened):
    assert _lists(served.url, authorization="Bearer of-clients").status_code == 200
    for header in (
        {"cookie": opened.cookie},
        {"authorization": f"Bearer {opened.token}"},
        {"authorization": f"Bearer {opened.cookie.partition('=')[2]}"},
    ):
        assert _lists(served.url, **header).status_code == 401
    # A browser does not even send it there.
    assert opened.room.startswith("/console/")
    assert len(opened.room) > len("/console/") + 20


def test_a_page_elsewhere_reaches_it_by_no_other_name(served, opened):
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        assert opened.client.get(opened.room, headers=headers).status_code in {403, 421}


def test_it_ends_with_the_server(tmp_path):
    command = ("mcp", "--http", "127.0.0.1:0", "--console")
    with serving(command=command, cwd=tmp_path) as served:
        opened = Opened(served)
        with (
            closing(opened.client),
            opened.client.stream("GET", f"{opened.room}events/waiting") as events,
        ):
            assert events.status_code == 200
            served.process.terminate()
            served.process.wait(LONGEST)
    assert "Traceback" not in "".join(served.said)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--console",), "--console needs --http"),
        (("--console", "--http", "0.0.0.0:0", "--token-file", "token"), "forward the port"),
    ],
)
def test_where_it_cannot_be_served_is_told(tmp_path, options, told):
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    done = subprocess.run(
        [COMMAND, "mcp", *options],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert (done.returncode, told in done.stderr) == (2, True)

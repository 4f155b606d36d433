"""The desk of the documentation, served by uvicorn's workers, with a model that sells."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

HERE = Path(__file__).parent
SHOP = HERE.parents[1] / "docs" / "examples" / "web-service"
KEY = "a key of the tests, 32 letters long"
if str(SHOP) not in sys.path:
    sys.path.insert(0, str(SHOP))

import httpx2  # noqa: E402
from desk import Desk  # noqa: E402

from toolstile_hookspecs.agents.messages import (  # noqa: E402
    CallMade,
    Message,
    Role,
    StopReason,
    Turn,
)


class Clerk:
    """A model that has the customer pay for what is asked for, and repeats what came of it."""

    name = model = "clerk"

    def send(self, request, listen=None):
        last = request.messages[-1]
        if last.role is Role.TOOL:
            text = last.answers[-1].text
            if listen is not None:
                for word in re.findall(r"\S+\s*", text):
                    listen(word)
            return Turn(Message(Role.ASSISTANT, text), StopReason.END)
        number, product = last.text.split()
        given = f'{{"number": {number}, "product": "{product}"}}'
        calls = (CallMade(uuid4().hex, "pay", given),)
        return Turn(Message(Role.ASSISTANT, calls=calls), StopReason.TOOL_USE)

    async def asend(self, request, listen=None):
        return self.send(request, listen)

    def close(self):
        pass

    async def aclose(self):
        pass


def desk_in(folder: Path) -> Desk:
    return Desk(folder, Clerk(), KEY)


def starlette():
    """Make the application of a worker."""
    from starlette_app import create_app

    return _signed(create_app(desk_in(Path(os.environ["DESK_FOLDER"]))))


def fastapi():
    """Make the application of a worker."""
    from fastapi_app import create_app

    return _signed(create_app(desk_in(Path(os.environ["DESK_FOLDER"]))))


def _signed(app):
    """Return an application whose responses name their process."""

    async def signed(scope, receive, send):
        async def sign(message):
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-worker", b"%d" % os.getpid())]
            await send(message)

        await app(scope, receive, sign)

    return signed


@contextmanager
def served(folder: Path, framework: str = "starlette") -> Generator[str]:
    """Serve the desk by two workers, which end without a fault; gives the address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "server.log"
    command = [sys.executable, "-m", "uvicorn", f"desk_server:{framework}", "--factory"]
    command += ["--workers", "2", "--port", str(port), "--no-access-log"]
    paths = {"DESK_FOLDER": str(folder), "PYTHONPATH": f"{HERE}{os.pathsep}{SHOP}"}
    with log.open("w") as told:
        server = subprocess.Popen(
            command, env={**os.environ, **paths}, stdout=told, stderr=told, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        workers = set[str]()
        until = time.monotonic() + 60
        while len(workers) < 2:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            try:
                # A connection each: either worker takes it.
                workers.add(httpx2.get(f"{url}/questions").headers["x-worker"])
            except httpx2.TransportError:
                time.sleep(0.05)
        yield url
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) in {0, -signal.SIGTERM}
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

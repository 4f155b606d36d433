"""People who are asked beside the inbox, each where they are: at the terminal, at an MCP client."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

from mcp import Client
from mcp_types import ElicitResult

from toolstile import Host
from toolstile_hookspecs import Cancellation, ToolCall
from toolstile_plugins.approval import dialogue
from toolstile_plugins.approval.beside import person
from toolstile_plugins.mcp.server.server import HostServer
from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession

from .conftest import House, until


class Person:
    """A person who is asked where the call is made.

    Attributes:
        via: The name of the way in answers, and in the setting.
        offers: The answers that they can give.
        ends_call: Whether the call ends before they answer.
    """

    via: ClassVar[str]
    offers: ClassVar[frozenset[str]] = frozenset({"approved", "denied"})
    ends_call: ClassVar[bool] = False

    def __init__(self, house: House) -> None:
        self.house = house
        self.by = person().id
        self.cancellation = Cancellation()

    def call(self, host: Host, tool: str = "pay", **arguments: Any) -> Future[str]:
        """Have a tool called, and give what the model reads."""
        given = {"to": "ada", "amount": 5, **arguments} if tool == "pay" else arguments
        return self.start(host, ToolCall(tool, given))

    def start(self, host: Host, call: ToolCall) -> Future[str]:
        raise NotImplementedError

    def cancel(self) -> None:
        """Cancel the call."""
        self.cancellation.cancel()

    def is_asked(self) -> bool:
        """Tell whether a question stands before them."""
        raise NotImplementedError

    def say(self, answer: str) -> None:
        """Answer the question that stands before them, once it does."""
        raise NotImplementedError

    def leave(self) -> None:
        """Leave the question to others."""
        raise NotImplementedError

    def told(self) -> str:
        """Return what they are told, once the question was taken back."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop."""


class AtTerminal(Person):
    via = "terminal"
    offers = frozenset({"approved", "denied", "edited"})
    typed: ClassVar[dict[str, list[str]]] = {
        "approved": ["y"],
        "always": ["a"],
        "denied": ["n Ada has left"],
        "edited": ["e", '{"to": "eve", "amount": 2}'],
    }

    def __init__(self, house: House) -> None:
        super().__init__(house)
        self._stack = ExitStack()
        self._master, slave = pty.openpty()
        self._stack.callback(os.close, slave)
        self._stack.callback(os.close, self._master)
        out = self._stack.enter_context(os.fdopen(os.dup(slave), "w"))
        source = self._stack.enter_context(os.fdopen(os.dup(slave)))
        # Not the ones of `sys` itself, which pytest changes as it likes.
        self._stack.callback(setattr, dialogue, "sys", dialogue.sys)
        dialogue.sys = SimpleNamespace(stdin=source, stderr=out)  # type: ignore[assignment]
        self._pool = self._stack.enter_context(ThreadPoolExecutor(4))
        self._text, self._seen = "", 0

    def start(self, host: Host, call: ToolCall) -> Future[str]:
        tools = self.house.tools(host)
        call = replace(call, cancellation=self.cancellation)
        return self._pool.submit(lambda: tools.dispatch(call).text)

    def is_asked(self) -> bool:
        return "in this session:" in self.screen

    def say(self, answer: str) -> None:
        self.expect("in this session:")
        for line in self.typed[answer]:
            if line.startswith("{"):
                self.expect("goes back):")
            os.write(self._master, f"{line}\n".encode())

    def leave(self) -> None:
        self.expect("in this session:")
        os.write(self._master, b"\x04")
        self.expect("The question waits in the inbox.")

    def told(self) -> str:
        self.expect("The first answer counts.", "no more answers.", "could be answered until")
        return self.screen

    def close(self) -> None:
        self.cancel()
        self._stack.close()

    def expect(self, *texts: str) -> None:
        """Wait until one of some texts stands after all that was waited for before."""

        def end() -> int | None:
            found = re.search("|".join(map(re.escape, texts)), self.screen[self._seen :])
            return found and self._seen + found.end()

        self._seen = until(end)

    @property
    def screen(self) -> str:
        """All that stood there so far."""
        if select.select([self._master], [], [], 0)[0]:
            self._text += os.read(self._master, 65536).decode(errors="replace")
        return " ".join(self._text.split())


class AtClient(Person):
    via = "mcp"
    mode: ClassVar[str] = "legacy"

    def __init__(self, house: House) -> None:
        super().__init__(house)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._given: asyncio.Queue[str] = asyncio.Queue()
        self._is_gone = threading.Event()
        self._asked = 0

    def start(self, host: Host, call: ToolCall) -> Future[str]:
        running = asyncio.run_coroutine_threadsafe(self._call(host, call), self._loop)
        self.cancellation.on_cancel(running.cancel)
        return running

    async def _call(self, host: Host, call: ToolCall) -> str:
        session = ServedSession(host.executor(session_id="s"))
        server = HostServer(host, host.settings("mcp").serve, OneSession(session))
        async with Client(
            server.protocol, mode=self.mode, elicitation_callback=self._elicited
        ) as client:
            arguments: Any = call.arguments
            result: Any = await client.call_tool(call.name, arguments)
        await server.caller.finish()
        session.end()
        return str(result.content[0].text)

    async def _elicited(self, context: Any, params: Any) -> ElicitResult:
        self._asked += 1
        try:
            action = await self._given.get()
        except asyncio.CancelledError:
            self._is_gone.set()
            raise
        return ElicitResult(action=action, content={} if action == "accept" else None)  # type: ignore[arg-type]

    def is_asked(self) -> bool:
        return self._asked > 0

    def say(self, answer: str) -> None:
        action = {"approved": "accept", "denied": "decline"}.get(answer, answer)
        until(self.is_asked)
        self._loop.call_soon_threadsafe(self._given.put_nowait, action)

    def leave(self) -> None:
        self.say("cancel")

    def told(self) -> str:
        assert self._is_gone.wait(20)
        return ""

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AtModernClient(AtClient):
    mode = "auto"
    ends_call = True

    def told(self) -> str:
        # Nobody can take it back; an answer to it changes nothing.
        self.say("approved")
        return ""


PEOPLE: dict[str, type[Person]] = {
    "terminal": AtTerminal,
    "client": AtClient,
    "modern client": AtModernClient,
}

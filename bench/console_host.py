"""A process whose calls are measured beside a console: a program of `cases_console`.

It is given a folder. It does what each line of its input asks for, and answers with the processor
time of the whole process until then, in seconds; with the address of its console once it serves it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, process_time, sleep
from typing import Any, Final

import uvicorn
from full_host import full_host, sections_of
from workload import ADD_ARGUMENTS, add

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import MarkdownSection, ToolCall, hookimpl, tool
from toolstile_plugins.console import Console

RATE: Final = 1000
"""Calls a second."""


@tool(requires_confirmation=True)
def pay(to: str, amount: int) -> str:
    """Pay an amount."""
    return f"Paid {amount} to {to}."


class _Tools:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection[Any]]:
        sections = sections_of(tool(name="add", timeout=None)(add))
        return [*sections, MarkdownSection(key="pay", title="Pay", tools=[pay])]


def main() -> None:
    """Do what is asked for, until the input ends."""
    folder, role = Path(sys.argv[1]), sys.argv[2]
    with ExitStack() as stack:
        host = stack.enter_context(full_host(_Tools(), settings=_settings(folder, role)))
        calling, asking = (stack.enter_context(host.executor()) for _ in range(2))
        consoles = stack.enter_context(ExitStack())
        for line in sys.stdin:
            what, number = line.split()
            answer: object = None
            if what == "call":
                _call(calling, int(number))
            elif what == "wait":
                stack.enter_context(_waiting(host, int(number)))
            elif what == "open":
                answer = consoles.enter_context(_console_of(host))
            elif what == "close":
                consoles.close()
            for count in range(int(number) if what == "ask" else 0):
                asking.dispatch(_payment(count))
            print(answer or process_time(), flush=True)


def _settings(folder: Path, role: str) -> Settings:
    wait = "answer" if role == "waits" else "pending"
    plugins: dict[str, Any] = {
        "inbox": {"path": str(folder / "inbox" / "inbox.db"), "wait": wait},
        "record": {"file": str(folder / "calls.jsonl"), "off": role == "watch"},
    }
    return Settings.model_validate({"approver": "inbox", "plugins": plugins})


def _payment(amount: int) -> ToolCall:
    return ToolCall("pay", {"to": "ada", "amount": amount})


@contextmanager
def _waiting(host: Host, number: int) -> Iterator[None]:
    """Let calls wait for a person within the block."""
    ended = Event()

    async def ask(amount: int) -> None:
        async with host.executor() as executor:
            await executor.adispatch_all([_payment(amount)])

    async def wait() -> None:
        calls = [asyncio.create_task(ask(amount)) for amount in range(number)]
        await asyncio.to_thread(ended.wait)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    thread = Thread(target=lambda: asyncio.run(wait()))
    thread.start()
    yield
    ended.set()
    thread.join()


def _call(executor: Executor, times: int) -> None:
    began = perf_counter()
    for number in range(times):
        executor.dispatch(ToolCall("add", ADD_ARGUMENTS))
        sleep(max(0.0, began + number / RATE - perf_counter()))


@contextmanager
def _console_of(host: Host) -> Iterator[str]:
    """Serve a console in this process, and give the address that opens it."""
    listening = socket.create_server(("127.0.0.1", 0))
    console = Console(host, f"http://127.0.0.1:{listening.getsockname()[1]}")
    config = uvicorn.Config(
        console, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    serving = Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    serving.start()
    yield console.url
    server.should_exit = True
    serving.join()


if __name__ == "__main__":
    main()

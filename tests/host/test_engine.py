"""The engine that all executors of a host share, in a fork of its process."""

import subprocess
import sys
import textwrap

import pytest

FORKED = """
    import asyncio, contextlib, os, signal, threading
    from toolstile import Host, MarkdownSection, Prompt, StateError, ToolCall, tool
    from toolstile_hookspecs import hookimpl

    @tool
    def plain() -> str:
        "Answer."
        return "done"

    @tool
    async def on_a_loop() -> str:
        "Answer later."
        await asyncio.sleep(0)
        return "done"

    @tool(concurrency="serial")
    def alone() -> str:
        "Answer nobody else meanwhile."
        if threading.current_thread() is not threading.main_thread() and os.getpid() == parent:
            begun.set()
            release.wait(30)
        return "done"

    class Kept:
        @hookimpl
        @contextlib.asynccontextmanager
        async def toolstile_lifespan(self, host):
            yield

    parent = os.getpid()
    begun, release = threading.Event(), threading.Event()
    sections = [MarkdownSection(key="all", title="All", tools=[plain, on_a_loop, alone])]
    prompt = Prompt.of("demo", "main", sections)
    host = Host(discover=False, timeout=None, plugins=[Kept()]).open()

    def calls(session=None):
        with host.executor(prompt=prompt, session=session) as tools:
            for name in ("plain", "on_a_loop", "alone"):
                assert tools.dispatch(ToolCall(name, {})).text == "done", name

    with host.executor(prompt=prompt) as tools:
        tools.dispatch(ToolCall("plain", {}))
        tools.dispatch(ToolCall("on_a_loop", {}))
    busy = threading.Thread(target=calls, args=[tools.session])
    busy.start()
    begun.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        for use in (lambda: tools.dispatch(ToolCall("plain", {})), host.executor, host.open):
            try:
                use()
            except StateError as error:
                assert str(error).endswith("Make a Host in the child."), error
            else:
                os._exit(1)
        tools.close()
        host.close()
        host = Host(discover=False, timeout=None, plugins=[Kept()]).open()
        parent = os.getpid()
        calls(tools.session)
        host.close()
        os._exit(0)
    release.set()
    busy.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    calls()
    host.close()
"""


@pytest.mark.slow
def test_a_fork_refuses_its_parents_host_and_makes_calls_in_one_of_its_own() -> None:
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORKED)]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


HELD = """
    import importlib, os, signal, sys, threading
    from toolstile import Binding, Cancellation, Host, MarkdownSection, Prompt
    from toolstile import ToolCall, ToolContext, tool

    class Till:
        def begin(self): ...
        def commit(self, savepoint): ...
        def rollback(self, savepoint): ...

    @tool(timeout=0.01, concurrency="serial")
    def waits() -> None:
        "Wait for ever."
        threading.Event().wait()

    @tool(timeout=20)
    def outer(*, context: ToolContext) -> str:
        "Take the till, and wait."
        context.resources.get(Till)
        return context.call("waits", {}).text

    prompt = Prompt.of("shop", "tills", [MarkdownSection(key="t", title="T", tools=[waits, outer])])

    def calls():
        with Host(discover=False) as host:
            with host.executor(prompt=prompt, resources=[Binding.instance(Till, Till())]) as tools:
                assert "timed out" in tools.dispatch(
                    ToolCall("outer", {}, cancellation=Cancellation())
                ).text

    calls()
    module, name = sys.argv[1].split(":")
    lock = getattr(importlib.import_module(module), name)
    held, release = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            release.wait(30)

    threading.Thread(target=hold).start()
    held.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        calls()
        os._exit(0)
    release.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "lock",
    [
        "toolstile.resources.exclusive:_mutex",
        "toolstile.resources.call_scope:_ending",
        "toolstile.drivers.job:_giving_up",
        "toolstile.drivers.limit:_pausing",
        "toolstile.runtime:_lock",
        "toolstile_hookspecs.limits:_cancelling",
    ],
)
def test_a_fork_makes_calls_though_another_thread_held_a_lock_as_it_was_made(lock: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(HELD), lock]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0

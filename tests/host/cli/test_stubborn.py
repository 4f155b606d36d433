"""Ctrl-C ends the process whatever its handler does against that, and nothing of it is kept."""

import json
import signal
import time

import pytest

pytestmark = pytest.mark.slow

GRACE = 2.0
MARGIN = 8.0
REPEATS = 2

PLUGIN = '''
import asyncio
import time
from pathlib import Path

from toolstile_hookspecs import MarkdownSection, ToolContext, hookimpl, tool


def begin(context, flag):
    context.filesystem.write("gone.txt", "not to be kept")
    Path(flag).touch()


def swallow(*kinds):
    while True:
        try:
            time.sleep(60)
        except kinds:
            pass


async def aswallow(*kinds):
    while True:
        try:
            await asyncio.sleep(60)
        except kinds:
            pass


def swallow_interrupts(flag: str, *, context: ToolContext) -> None:
    """Go on whatever interrupts it."""
    begin(context, flag)
    swallow(KeyboardInterrupt, GeneratorExit)


def hang_in_finally(flag: str, *, context: ToolContext) -> None:
    """Hang when it should clean up."""
    begin(context, flag)
    try:
        time.sleep(60)
    finally:
        swallow(BaseException)


async def swallow_cancellation(flag: str, *, context: ToolContext) -> None:
    """Go on although it is cancelled."""
    begin(context, flag)
    await aswallow(asyncio.CancelledError)


async def swallow_exit(flag: str, *, context: ToolContext) -> None:
    """Go on although it is cancelled, and closed."""
    begin(context, flag)
    await aswallow(asyncio.CancelledError, GeneratorExit)


async def swallow_everything(flag: str, *, context: ToolContext) -> None:
    """Go on whatever comes."""
    begin(context, flag)
    await aswallow(BaseException)


async def wait_in_finally(flag: str, *, context: ToolContext) -> None:
    """Wait for ever when it should clean up."""
    begin(context, flag)
    try:
        await asyncio.sleep(60)
    finally:
        await aswallow(BaseException)


async def block_in_finally(flag: str, *, context: ToolContext) -> None:
    """Block the loop when it should clean up."""
    begin(context, flag)
    try:
        await asyncio.sleep(60)
    finally:
        swallow(BaseException)


async def block(flag: str, *, context: ToolContext) -> None:
    """Block the loop whatever comes."""
    begin(context, flag)
    swallow(BaseException)


async def spin_in_a_generator(flag: str, *, context: ToolContext) -> None:
    """Iterate over what will not be closed."""

    async def numbers():
        while True:
            try:
                yield 1
                await asyncio.sleep(60)
            except BaseException:
                pass

    begin(context, flag)
    async for _ in numbers():
        pass


HANDLERS = [
    swallow_interrupts, hang_in_finally, swallow_cancellation, swallow_exit, swallow_everything,
    wait_in_finally, block_in_finally, block, spin_in_a_generator,
]


@hookimpl
def toolstile_sections():
    patient = [tool(each, timeout=600) for each in HANDLERS]
    endless = [tool(each, name=f"{each.__name__}-endless", timeout=None) for each in HANDLERS]
    return [MarkdownSection(key="stubborn", title="Stubborn", tools=[*patient, *endless])]
'''

HANDLERS = (
    "swallow_interrupts",
    "hang_in_finally",
    "swallow_cancellation",
    "swallow_exit",
    "swallow_everything",
    "wait_in_finally",
    "block_in_finally",
    "block",
    "spin_in_a_generator",
)


@pytest.mark.long_if(repeat=1)
@pytest.mark.parametrize("repeat", range(REPEATS))
@pytest.mark.parametrize(
    "name",
    [*HANDLERS, *(pytest.param(f"{each}-endless", marks=pytest.mark.long) for each in HANDLERS)],
)
def test_a_stubborn_handler_is_ended_over(process, calls, folder, name, repeat):
    (folder / "stubborn.py").write_text(PLUGIN, encoding="utf-8")
    workspace, flag = folder / "workspace", folder / "flag"
    workspace.mkdir()
    path = calls(
        ("write_file", {"path": "kept.txt", "content": "kept"}),
        (name, {"flag": str(flag)}),
        ("write_file", {"path": "after.txt", "content": "never"}),
    )
    options = ("--plugin", "stubborn.py", "--workspace", str(workspace), "--json")
    started = process("run", path, *options)
    deadline = time.monotonic() + 60
    while not flag.exists():
        assert time.monotonic() < deadline
        assert started.poll() is None, started.communicate()
        time.sleep(0.02)
    # Each time at another moment of what it does then.
    time.sleep(0.05 * repeat)
    began = time.monotonic()
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    seconds = time.monotonic() - began
    assert started.returncode == 130, (out, err)
    assert "Traceback" not in err
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["c1"]
    assert sorted(each.name for each in workspace.iterdir() if each.is_file()) == ["kept.txt"]
    assert seconds < GRACE + MARGIN

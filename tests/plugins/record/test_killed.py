"""A recorder that is killed at any moment leaves a record that verifies, and goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from toolstile_plugins.record import Recording, verify
from toolstile_plugins.record.file import Damage

RUNS = 25

RECORDER = """
import sys, threading
from pathlib import Path
from toolstile import Host, ToolCall
from toolstile_hookspecs import MarkdownSection, Prompt, tool
from toolstile_plugins.record import Recorder, RecordFile


@tool(timeout=None)
def say(number: int) -> str:
    "Say something, short or long."
    return str(number) * (1 if number % 7 else 30_000)


prompt = Prompt.of("tests", "say", [MarkdownSection(key="say", title="Say", tools=[say])])
with Host(discover=False) as host:
    host.register(Recorder(RecordFile(Path(sys.argv[1])), host.clock))

    def go_on():
        with host.executor(prompt=prompt) as tools:
            number = 0
            while True:
                number += 1
                tools.dispatch(ToolCall("say", {"number": number}))

    for _ in range(3):
        threading.Thread(target=go_on, daemon=True).start()
    with host.executor(prompt=prompt) as tools:
        tools.dispatch(ToolCall("say", {"number": 1}))
    print("going", flush=True)
    go_on()
"""


@pytest.mark.slow
@pytest.mark.long
def test_every_complete_line_verifies_after_a_kill_at_any_instant(path, tmp_path):
    script = tmp_path / "recorder.py"
    script.write_text(RECORDER)
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    calls, torn = 0, 0
    for run in range(1, RUNS + 1):
        with subprocess.Popen(
            [sys.executable, str(script), str(path)], stdout=subprocess.PIPE
        ) as recorder:
            assert recorder.stdout is not None
            assert recorder.stdout.readline() == b"going\n", f"run {run}, seed {seed}"
            time.sleep(moments.random() * 0.05)
            os.kill(recorder.pid, signal.SIGKILL)
        checked = verify(path)
        assert {each.damage for each in checked.faults} <= {Damage.TORN}, f"seed {seed}"
        assert not checked.ended
        assert checked.calls > calls
        calls = checked.calls
        torn += len(checked.faults)
    assert len(Recording.load(path).calls) == calls, f"{torn} torn, seed {seed}"

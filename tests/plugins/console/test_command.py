"""`toolstile console`: a process that serves the console, and tells its address."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from toolstile_cli.main import main

CONFIGURED = """\
[plugins.inbox]
path = "{folder}/inbox/inbox.db"

[plugins.record]
file = "{folder}/calls.jsonl"
"""


def started(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a console; return its process and its address."""
    (folder / "toolstile.toml").write_text(CONFIGURED.format(folder=folder), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "toolstile", "console", "--port", "0"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    told = process.stderr.readline()
    found = re.fullmatch(r"The console is at (http://127\.0\.0\.1:\d+/#\S+)\n", told)
    assert found is not None, told
    return process, found.group(1)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_tells_its_address_serves_and_ends_when_asked(tmp_path, number):
    process, url = started(tmp_path)
    base, _, token = url.partition("/#")
    with httpx2.Client(base_url=base, headers={"origin": base}, trust_env=False) as client:
        page = client.post("/login", data={"token": token}, follow_redirects=True)
        assert "Waiting for you" in page.text
        with client.stream("GET", f"{page.url.path}events/waiting") as events:
            # An open page does not keep it from ending.
            process.send_signal(number)
            assert events.status_code == 200
            events.close()
    _, told = process.communicate(timeout=20)
    assert "It was opened. The next is " in told
    assert "Traceback" not in told
    assert process.returncode == 128 + number


@pytest.mark.slow
def test_it_records_nothing_itself(tmp_path):
    process, _ = started(tmp_path)
    process.terminate()
    process.communicate(timeout=20)
    assert not (tmp_path / "calls.jsonl").exists()


def test_a_port_that_is_taken_is_told(desk, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["console", "--port", str(desk.port)]) == 2
    told = capsys.readouterr().err
    assert f"cannot be served on port {desk.port}: Address already in use" in told
    assert "Choose another with --port" in told

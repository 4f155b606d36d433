"""Scripts in processes that fork, as servers with several workers do."""

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="fork"),
]

PROGRAM = """
import os
from toolstile import Host, Settings
from toolstile_hookspecs import ToolCall

def run():
    with Host(settings=Settings(plugins={"code": {}})) as host, host.executor() as executor:
        print(executor.dispatch(ToolCall("run_python", {"code": "1 + 1"})).text, flush=True)

def forked():
    child = os.fork()
    if not child:
        run()
        os._exit(0)
    os.waitpid(child, 0)

forked()
run()
forked()
run()
"""


def test_scripts_run_in_forks_that_were_made_before_the_first_and_are_refused_in_later_ones():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    first, second, refused, last = done.stdout.splitlines()
    assert [first, second, last] == ["Value: 2"] * 3
    assert refused.startswith(
        "No script can run here: this process was forked after scripts had run"
    )
    assert refused.endswith("fork before the first script.")

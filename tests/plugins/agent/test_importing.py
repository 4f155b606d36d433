"""The plugin costs a host nothing until an agent is made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolstile_plugins import agent
from toolstile_plugins.agent import api

CODE = """
import sys
from toolstile import Host
with Host() as host:
    assert host.settings("agent").model is None
    assert host.plugins.commands()
print({"toolstile_plugins.agent.api", "toolstile_plugins.agent.loop", "tenacity"} & {*sys.modules})
"""


@pytest.mark.slow
def test_a_host_does_not_import_the_loop() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_all_public_names_are_those_of_the_package() -> None:
    names = [name for name in vars(api) if not name.startswith("_") and name != "annotations"]
    assert len(names) > 20
    for name in names:
        assert getattr(agent, name) is getattr(api, name)
    with pytest.raises(AttributeError, match="no attribute 'Agents'"):
        agent.Agents  # noqa: B018 - it is not there

"""Every module can be imported, on every Python."""

from __future__ import annotations

import subprocess
import sys

IMPORT_ALL = """
import importlib, importlib.util, pkgutil, sys
found = 0
# Their package imports them late, because the extra may be missing.
without = () if importlib.util.find_spec("dbos") else ("toolstile_plugins.workers.dbos.",)
for package in ("toolstile_hookspecs", "toolstile", "toolstile_cli", "toolstile_plugins"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.endswith("__main__") and not module.name.startswith(without):
            importlib.import_module(module.name)
            found += 1
print(found)
"""


def test_every_module_is_imported():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300

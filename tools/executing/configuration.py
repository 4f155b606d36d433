"""The check that the host takes a configuration which a page shows."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from toolstile import Host
from toolstile.settings.model import HostTable
from toolstile_hookspecs import ToolstileError

if TYPE_CHECKING:
    from executing.workplace import Workplace


def is_ours(tables: Mapping[str, object]) -> bool:
    """Tell whether tables are meant for `toolstile.toml`, not for `pyproject.toml`."""
    return not tables.keys() & {"project", "tool", "build-system"}


def fault(text: str, folder: Path) -> str | None:
    """Return what the host says against a configuration in a directory, None where nothing."""
    unknown = [key for key in tomllib.loads(text) if key not in HostTable.model_fields]
    if unknown:
        return f"{unknown} are not keys of ours; say whose file it is: <!-- of: NAME -->"
    with NamedTemporaryFile("w", suffix=".toml", dir=folder, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        try:
            host = Host(config=file.name)
        except ToolstileError as error:
            return str(error)
        faulty = (
            report for report in host.plugins.reports if report.fault and report.status != "blocked"
        )
        return "\n".join(map(str, faulty)) or None


def fault_elsewhere(text: str, workplace: Workplace) -> str | None:
    """Return what a host says that has the plugins of another environment."""
    done = subprocess.run(
        [workplace.python, __file__],
        cwd=workplace.folder,
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return None if done.returncode == 0 else f"{done.stdout}{done.stderr}"


if __name__ == "__main__":
    sys.exit(fault(sys.stdin.read(), Path.cwd()))

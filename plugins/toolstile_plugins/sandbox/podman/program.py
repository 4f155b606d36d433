"""The program podman, or docker: how it is called, and what to do where it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from toolstile_hookspecs import Diagnostic
from toolstile_plugins.sandbox.backend import start_process
from toolstile_plugins.sandbox.podman.settings import PodmanConfig

NOTHING_RUNS: Final = "exec"
"""In the messages about a file of an image that cannot be run, unlike those about the engine."""

_CLOSED: Final = (
    *("--network", "none", "--read-only", "--cap-drop", "ALL", "--hostname", "sandbox"),
    *("--security-opt", "no-new-privileges"),
    # The workspace's files keep their labels, which SELinux would let no container read.
    *("--security-opt", "label=disable"),
    # The image's own program would get the command as its arguments.
    *("--entrypoint", ""),
    # Else a log of all output is kept on disk.
    *("--log-driver", "none"),
    *("--stop-signal", "KILL"),
)
_CLOSED_OF_PODMAN: Final = ("--http-proxy=false", "--no-hosts")
_REMEDIES: Final = (
    ("rlimit", "Give smaller plugins.sandbox.options.ulimits, or a smaller open_files."),
    ("hybrid mode", 'Name another runtime: plugins.sandbox.options.runtime = "runc".'),
    ("cgroup controller", "Let users have that cgroup controller, or set cpus = 0 there."),
    ("newuidmap", "Install the package uidmap."),
    ("onnect", "Start the service of the program, or see that this user may use it."),
)
_OTHERWISE: Final = "`toolstile doctor` tries it again. Another backend is plugins.sandbox.backend."
_RAN: Final = {0, 127}


class Program:
    """The program that starts containers.

    Args:
        config: The settings of containers.

    Attributes:
        is_docker: Whether it is Docker's, which knows fewer options.
    """

    def __init__(self, config: PodmanConfig) -> None:
        self._config = config
        self.is_docker = Path(config.program).name.startswith("docker")

    def start(self, options: Sequence[str], stdin: BinaryIO) -> subprocess.Popen[bytes]:
        """Start a container that goes as it ends, with an image and a command after the options.

        Raises:
            SandboxUnavailable: When there is no such program.
        """
        return start_process([*self._words("run"), *self._closed(), *options], stdin=stdin, cwd="/")

    def remove(self, *names: str) -> subprocess.Popen[bytes]:
        """Kill and remove containers; returns at once."""
        return subprocess.Popen(  # noqa: S603 - what is configured
            self._words("rm", "--force", *names),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def labelled(self, label: str) -> Iterator[tuple[str, str]]:
        """Yield the names of all containers with a label, and its value; none where it fails."""
        value = f'.Label "{label}"' if self.is_docker else f'index .Labels "{label}"'
        shown = "{{.Names}} {{" + value + "}}"
        found = self._ask("ps", "--all", "--filter", f"label={label}", "--format", shown)
        if found is not None and not found.returncode:
            for line in found.stdout.splitlines():
                name, _, told = line.partition(" ")
                yield name, told

    def findings(self, limits: Sequence[str]) -> Iterator[Diagnostic]:
        """Yield whether a container with some limits can be started."""
        image, program = self._config.image, self._config.program
        if shutil.which(program) is None:
            remedy = f"Install it, or name another as plugins.sandbox.options.program. {_OTHERWISE}"
            yield Diagnostic.error("sandbox", f"There is no program {program}.", remedy)
            return
        if (found := self._ask("image", "inspect", image)) is not None and found.returncode:
            if self._config.pull:
                yield Diagnostic.note("sandbox", f"The first command pulls the image {image}.")
                return
            yield Diagnostic.error("sandbox", *self._without_image(found.stderr))
            return
        tried = self._ask("run", *self._closed(), *limits, image, "true")
        if tried is None or tried.returncode not in _RAN:
            told = tried.stderr if tried else "it cannot be started"
            yield Diagnostic.error("sandbox", f"{program} fails: {told.strip()}", _remedy(told))
            return
        yield Diagnostic.ok("sandbox", f"Commands run in containers of {program}, from {image}.")
        if not tried.returncode and "limits" in tried.stderr:
            yield Diagnostic.warning(
                "limits of commands",
                tried.stderr.strip(),
                "Use cgroups 2, or run the host as root.",
            )
        if not self._config.is_pinned:
            yield Diagnostic.note(
                "image of the sandbox",
                f"Another image can take the name {image}.",
                f"Name it by one of its digests: {program} image inspect {image}",
            )

    def remedy(self, failure: str) -> str:
        """Return why a container was not started, and what to do."""
        if "no such image" in failure.lower() or "not known" in failure:
            return " ".join(self._without_image(failure))
        return f"{failure.rstrip('.')}. {_remedy(failure)}"

    def _without_image(self, failure: str) -> tuple[str, str]:
        if "onnect" in failure:
            return failure.strip(), _remedy(failure)
        image, program = self._config.image, self._config.program
        remedy = f"Run `{program} pull {image}`, or set plugins.sandbox.options.pull = true."
        return f"The image {image} is not on this machine.", remedy

    def _closed(self) -> list[str]:
        """Return the options that close a container off."""
        made = ["--rm", *_CLOSED, "--pull", "missing" if self._config.pull else "never"]
        if self._config.runtime:
            made += ["--runtime", self._config.runtime]
        if self.is_docker:
            return [*made, "--user", f"{os.geteuid()}:{os.getegid()}"]
        # Without capabilities; of a user, the number 0 in there is the user itself.
        return [*made, *_CLOSED_OF_PODMAN, "--user", "0:0"]

    def _words(self, *words: str) -> list[str]:
        return [self._config.program, "--log-level", "fatal", *words]

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str] | None:
        try:
            return subprocess.run(  # noqa: S603 - likewise
                self._words(*words),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
            )
        except OSError:
            return None


def _remedy(failure: str) -> str:
    found = [told for sign, told in _REMEDIES if sign in failure]
    return " ".join([*found[:1], _OTHERWISE])

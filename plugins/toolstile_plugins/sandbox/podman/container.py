"""The backend `podman`: a container for each command, over a copy of the workspace."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from toolstile_hookspecs import Diagnostic, ToolValidationError
from toolstile_plugins.sandbox.backend import Running, SandboxUnavailable
from toolstile_plugins.sandbox.command import GIT_VARIABLES, ROOT, Command
from toolstile_plugins.sandbox.podman.program import NOTHING_RUNS, Program
from toolstile_plugins.sandbox.podman.settings import PodmanConfig
from toolstile_plugins.sandbox.scratch import is_in_memory, is_left
from toolstile_plugins.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.layout import Layout

_LABEL: Final = "toolstile"
_USUAL: Final = {"HOME": "/tmp", "LANG": "C.UTF-8", "TERM": "dumb"}  # noqa: S108 - of the container
_GRACE_SECONDS: Final = 10
_TRIES: Final = 30
_FAILED: Final = 125
_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127
_KILLED: Final = 137


class Podman:
    """Runs commands in containers of Podman or Docker; nothing of them outlives a rollback.

    Args:
        settings: The settings of the sandbox; its options are a `PodmanConfig`.

    Raises:
        ConfigurationError: When its options are something else.
    """

    name = "podman"
    contained = True
    mounts = False

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._config = PodmanConfig.of(settings)
        self._program = Program(self._config)
        self._has_looked = False

    def findings(self) -> Iterator[Diagnostic]:
        """Yield whether a container can be started here, and what hosts have left."""
        yield from self._program.findings(self._limits(self._settings.memory))
        if names := ", ".join(self._strays()):
            yield Diagnostic.warning(
                "containers",
                f"Hosts that were killed have left containers: {names}.",
                "The next start of a host with this configuration removes them.",
            )

    def remove_strays(self) -> None:
        """Remove the containers of hosts that were killed."""
        self._has_looked = True
        if names := list(self._strays()):
            self._program.remove(*names).wait()

    def start(self, command: Command, layout: Layout, stdin: BinaryIO) -> Running:
        """Start a command."""
        if not self._has_looked:
            self.remove_strays()
        scratch = layout.scratch
        name = f"toolstile-{scratch.name}"
        memory = command.limits.memory
        if is_in_memory(scratch.path):
            memory += command.limits.disk
        # Variables may be secrets: so they are on no command line.
        variables = scratch.path / "variables"
        variables.touch(0o600)
        variables.write_text(_lines({**_USUAL, **GIT_VARIABLES, **command.env}), encoding="utf-8")
        started = scratch.path / "started"
        options = ["--interactive", "--name", name, "--env-file", os.fspath(variables)]
        options += ["--label", f"{_LABEL}={platform.node()}:{scratch.path}"]
        if not self._program.is_docker:
            # Should the host die, the container ends nevertheless.
            seconds = math.ceil(command.seconds) + _GRACE_SECONDS
            options += ["--timeout", str(seconds), "--pidfile", os.fspath(started)]
        options += ["--mount", f"type=bind,source={layout.upper},target={ROOT}"]
        for path in self._settings.readable:
            options += ["--mount", f"type=bind,source={path},target={path},readonly"]
        options += ["--workdir", f"{ROOT}/{command.cwd}" if command.cwd else ROOT]
        process = self._program.start(
            [*self._limits(memory), *options, self._config.image, *command.words], stdin
        )
        return _Container(process, self._program, name, started)

    def _limits(self, memory: int) -> list[str]:
        settings, config = self._settings, self._config
        made = ["--memory", str(memory), "--memory-swap", str(memory)]
        made += ["--pids-limit", str(settings.processes)]
        if config.cpus:
            made += ["--cpus", str(config.cpus)]
        size = max(settings.disk // 10, 1 << 20)
        made += ["--tmpfs", f"/tmp:rw,nosuid,nodev,size={size},mode=1777"]  # noqa: S108 - likewise
        files, disk = settings.open_files, settings.disk
        for limit in ("core=0:0", f"nofile={files}:{files}", f"fsize={disk}:{disk}"):
            made += ["--ulimit", limit]
        for limit in config.ulimits:
            made += ["--ulimit", limit]
        return made

    def _strays(self) -> Iterator[str]:
        """Yield the names of containers whose host has ended, of this machine alone."""
        for name, value in self._program.labelled(_LABEL):
            machine, _, path = value.partition(":")
            if machine == platform.node() and is_left(Path(path)):
                yield name


class _Container(Running):
    """A command in a container; the process is the program that waits for it.

    Args:
        process: That process.
        program: The program.
        name: The name of the container.
        started: A file that is there once the command was started.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], program: Program, name: str, started: Path
    ) -> None:
        super().__init__(process)
        self._program = program
        self._name = name
        self._started = started
        self._removal: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """Remove the container with all in it: killing the program that waits would not."""
        if self._removal is None and not self.ended():
            self._removal = self._program.remove(self._name)

    def join(self) -> None:
        """Wait until nothing of it runs, nor is about to be started."""
        if self._removal is not None:
            self._removal.wait()
            for _ in range(_TRIES):
                if self.ended():
                    break
                # It was killed before there was a container.
                self._program.remove(self._name).wait()
                time.sleep(0.1)
            super().kill()
        super().join()
        if self._removal is not None:
            self._program.remove(self._name).wait()

    def exit_code(self, stderr: bytes) -> int:
        """Return the exit code; that of a program which failed is none."""
        code = super().exit_code(stderr)
        # Docker adds a paragraph on its help.
        told = stderr.decode(errors="replace").strip().partition("\n\n")[0]
        if self._removal is not None or self._is_started(code, told):
            return code
        if code == _NOT_FOUND or (code == _NOT_EXECUTABLE and NOTHING_RUNS in told):
            return code
        raise SandboxUnavailable(f"The container was not started: {self._program.remedy(told)}")

    def notes(self) -> tuple[str, ...]:
        """Return the limits that were reached."""
        if self._removal is None and self.process.returncode == _KILLED:
            # Not each engine says for what a process was killed.
            return ("It was killed, most likely as it had used all of the memory that it may use.",)
        return ()

    def _is_started(self, code: int, told: str) -> bool:
        if self._program.is_docker:
            # A command may print the same, yet hardly with one of Docker's own codes.
            is_own = code in {_FAILED, _NOT_EXECUTABLE, _NOT_FOUND}
            return not (is_own and told.startswith("docker: "))
        return self._started.exists()


def _lines(variables: Mapping[str, str]) -> str:
    """Return variables as a file of lines."""
    for name, value in variables.items():
        if "\n" in value:
            raise ToolValidationError(
                f"env: the value of {name} has several lines, which no container can be given. "
                "Write it to a file of the workspace, or give it as stdin; then retry."
            )
    return "".join(f"{name}={value}\n" for name, value in variables.items())

"""The backend `podman`: a container for each command, over a copy of the workspace."""

from __future__ import annotations

import math
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from toolstile_hookspecs import ConfigurationError, Diagnostic, ToolValidationError
from toolstile_hookspecs.codecs import first_fault
from toolstile_plugins.sandbox.backend import (
    GIT_VARIABLES,
    ROOT,
    TRY_AGAIN,
    Command,
    Running,
    SandboxUnavailable,
    remedy_of,
    start_process,
)
from toolstile_plugins.sandbox.scratch import is_in_memory, is_left
from toolstile_plugins.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.layout import Layout


class PodmanConfig(BaseModel):
    """The settings of the containers that commands run in; the limits are `SandboxSettings`.

    Args:
        image: The image, with a tag other than `latest`, or with a digest, which never changes.
        pull: Whether a missing image is pulled from its registry.
        program: The program: `podman`, `docker`, or the path of one.
        runtime: The program's OCI runtime, such as `runc`; by default the configured one.
        cpus: The number of processors for a command; 0 for no limit.
        ulimits: Further limits of each process, as `name=soft:hard`. By default 4,096 processes
            for its user, because some machines refuse the program's own limit.

    Example:
        >>> PodmanConfig(image="docker.io/library/python:3.13-slim").is_pinned
        False
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: Annotated[str, Field(min_length=1, pattern=r"^[^-\s]\S*$")]
    pull: bool = False
    program: Annotated[str, Field(min_length=1)] = "podman"
    runtime: str | None = None
    cpus: Annotated[float, Field(ge=0)] = 1
    ulimits: tuple[str, ...] = ("nproc=4096:4096",)

    @field_validator("image")
    @classmethod
    def _unchanging(cls, image: str) -> str:
        tag = image.rpartition("/")[2].partition(":")[2]
        if "@" not in image and tag in {"", "latest"}:
            raise ValueError(
                "name an image with a tag other than latest, or with a digest, such as "
                "docker.io/library/python:3.13-slim: latest changes without notice"
            )
        return image

    @property
    def is_pinned(self) -> bool:
        """True if the image is named by its digest, so that it cannot change."""
        return "@" in self.image or self.image.startswith("sha256:")

    @classmethod
    def of(cls, settings: SandboxSettings) -> PodmanConfig:
        """Return the options of the sandbox's settings; `ConfigurationError` for invalid ones."""
        try:
            return cls.model_validate(settings.options)
        except ValidationError as error:
            raise ConfigurationError(f"plugins.sandbox.options: {first_fault(error)}.") from None


NOTHING_RUNS: Final = "exec"
"""A word in the messages about an image's program that cannot be run, not about the engine."""

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
_RAN: Final = {0, 127}


class Program:
    """The program that starts containers; Docker has fewer options."""

    def __init__(self, config: PodmanConfig) -> None:
        self._config = config
        self.is_docker = Path(config.program).name.startswith("docker")

    def start(self, options: Sequence[str], stdin: BinaryIO) -> subprocess.Popen[bytes]:
        """Start a container, removed at its end. The options end in an image and a command."""
        return start_process([*self._words("run"), *self._closed(), *options], stdin=stdin, cwd="/")

    def remove(self, *names: str) -> subprocess.Popen[bytes]:
        """Kill and remove containers without waiting."""
        return subprocess.Popen(  # noqa: S603 - the configured program
            self._words("rm", "--force", *names),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def labelled(self, label: str) -> Iterator[tuple[str, str]]:
        """Yield the names of all containers with a label, and its value; nothing on a failure."""
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
            remedy = f"Install it, or name another as plugins.sandbox.options.program. {TRY_AGAIN}"
            yield Diagnostic.error("sandbox", f"The program {program} is missing.", remedy)
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
        """Return the reason why a container was not started, and the remedy."""
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
        made = ["--rm", *_CLOSED, "--pull", "missing" if self._config.pull else "never"]
        if self._config.runtime:
            made += ["--runtime", self._config.runtime]
        if self.is_docker:
            return [*made, "--user", f"{os.geteuid()}:{os.getegid()}"]
        # In a container of a user, the user 0 is that user. It has no capabilities there.
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
    return remedy_of(failure, _REMEDIES)


_LABEL: Final = "toolstile"
_USUAL: Final = {"HOME": "/tmp", "LANG": "C.UTF-8", "TERM": "dumb"}  # noqa: S108 - of the container
_GRACE_SECONDS: Final = 10
_TRIES: Final = 30
_FAILED: Final = 125
_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127
_KILLED: Final = 137


class Podman:
    """Runs commands in containers of Podman or Docker; none of their effects outlives a rollback.

    The options of the settings are a `PodmanConfig`; invalid ones raise `ConfigurationError`.
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
        yield from self._program.findings(self._limits(self._settings.memory))
        if names := ", ".join(self._strays()):
            yield Diagnostic.warning(
                "containers",
                f"Hosts that were killed have left containers: {names}.",
                "The next start of a host with this configuration removes them.",
            )

    def remove_strays(self) -> None:
        self._has_looked = True
        if names := list(self._strays()):
            self._program.remove(*names).wait()

    def start(self, command: Command, layout: Layout, stdin: BinaryIO) -> Running:
        if not self._has_looked:
            self.remove_strays()
        scratch = layout.scratch
        name = f"toolstile-{scratch.name}"
        memory = command.limits.memory
        if is_in_memory(scratch.path):
            memory += command.limits.disk
        # In a file, because variables may be secrets.
        variables = scratch.path / "variables"
        variables.touch(0o600)
        variables.write_text(_lines({**_USUAL, **GIT_VARIABLES, **command.env}), encoding="utf-8")
        started = scratch.path / "started"
        options = ["--interactive", "--name", name, "--env-file", os.fspath(variables)]
        options += ["--label", f"{_LABEL}={platform.node()}:{scratch.path}"]
        if not self._program.is_docker:
            # So that the container ends even if the host dies.
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
        # One byte more: a file that the limit cuts off has written too much.
        files, disk = settings.open_files, settings.disk + 1
        for limit in ("core=0:0", f"nofile={files}:{files}", f"fsize={disk}:{disk}"):
            made += ["--ulimit", limit]
        for limit in config.ulimits:
            made += ["--ulimit", limit]
        return made

    def _strays(self) -> Iterator[str]:
        for name, value in self._program.labelled(_LABEL):
            machine, _, path = value.partition(":")
            if machine == platform.node() and is_left(Path(path)):
                yield name


class _Container(Running):
    """A command in a container; its process is the program, which waits for the container.

    The file `started` exists after the command was started.
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
        if self._removal is None and not self.ended():
            self._removal = self._program.remove(self._name)

    def join(self) -> None:
        if self._removal is not None:
            self._removal.wait()
            for _ in range(_TRIES):
                if self.ended():
                    break
                # The program was killed before the container existed.
                self._program.remove(self._name).wait()
                time.sleep(0.1)
            super().kill()
        super().join()
        if self._removal is not None:
            self._program.remove(self._name).wait()

    def exit_code(self, stderr: bytes) -> int:
        code = super().exit_code(stderr)
        # Docker adds a paragraph on its help.
        told = stderr.decode(errors="replace").strip().partition("\n\n")[0]
        is_started = self._started.exists()
        if self._program.is_docker:
            # A command may print the same, but hardly with one of Docker's own codes.
            is_own = code in {_FAILED, _NOT_EXECUTABLE, _NOT_FOUND}
            is_started = not (is_own and told.startswith("docker: "))
        if self._removal is not None or is_started:
            return code
        if code == _NOT_FOUND or (code == _NOT_EXECUTABLE and NOTHING_RUNS in told):
            return code
        raise SandboxUnavailable(f"The container was not started: {self._program.remedy(told)}")

    def notes(self) -> tuple[str, ...]:
        if self._removal is None and self.process.returncode == _KILLED:
            # Because some engines do not report why a process was killed.
            return ("It was killed, most likely as it had used all of the memory that it may use.",)
        return ()


def _lines(variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        if "\n" in value:
            raise ToolValidationError(
                f"env: the value of {name} has several lines, which no container can be given. "
                "Write it to a file of the workspace, or give it as stdin; then retry."
            )
    return "".join(f"{name}={value}\n" for name, value in variables.items())

"""The settings of the sandbox, the table `[plugins.sandbox]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

MIB: Final = 1024 * 1024

Positive = Annotated[int, Field(gt=0, strict=True)]


class SandboxSettings(BaseModel):
    """The settings of the sandbox that commands run in.

    Args:
        backend: `bubblewrap`, `podman`, `none` for no sandbox at all, or the name of an entry point
            in the group `toolstile.sandboxes`.
        on_exit: Whether a command whose exit code is not 0 keeps its changes, or fails.
        max_seconds: The maximum seconds for a command, even if a call asks for more.
        memory: In bytes, for all processes of a command together.
        processes: The maximum number of processes of a command.
        open_files: The maximum number of open files of each process.
        disk: In bytes, for the files that a command writes; a tenth of it for `/tmp`.
        readable: Directories and files of this machine that commands can read, beside `/usr`.
        hidden: Paths of the workspace that commands cannot see; they stay as they are.
        environment: Variables for each command; a call may override them.
        output: In bytes, the part of each of a command's two outputs in the result.
        whole_output: In bytes, the beginning of a longer output that can be read by the path in
            the result, until the session ends.
        scratch: The directory for files of commands before the commit; by default a directory on
            the disk of the workspace, of `~/.cache`, `/var/tmp` and the directory for temporary
            files, else `/dev/shm` if it has room.
        options: Further options for the backend.

    Example:
        >>> SandboxSettings(hidden=("./.env",)).hidden
        ('.env',)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: Annotated[str, Field(min_length=1)] = "bubblewrap"
    on_exit: Literal["keep", "fail"] = "keep"
    max_seconds: Annotated[float, Field(ge=1, le=86_400)] = 120
    memory: Positive = 2048 * MIB
    processes: Positive = 256
    open_files: Positive = 1024
    disk: Positive = 2048 * MIB
    output: Annotated[int, Field(ge=1024, strict=True)] = 32 * 1024
    whole_output: Annotated[int, Field(ge=0, strict=True)] = 4 * MIB
    readable: tuple[Path, ...] = ()
    hidden: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    scratch: Path | None = None
    options: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)

    @field_validator("hidden")
    @classmethod
    def _canonical(cls, hidden: tuple[str, ...]) -> tuple[str, ...]:
        try:
            from toolstile_plugins.vfs import paths  # late: few configurations hide paths

            found = tuple(paths.canonical(path) for path in hidden)
        except OSError as error:
            raise ValueError(str(error)) from None
        if "" in found:
            raise ValueError("the root of the workspace cannot be hidden; name paths in it")
        return found

    @field_validator("readable")
    @classmethod
    def _absolute(cls, readable: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in readable:
            if not path.is_absolute() or path == Path("/"):
                raise ValueError(f"{path} is not an absolute path of a directory or file below /")
        return readable

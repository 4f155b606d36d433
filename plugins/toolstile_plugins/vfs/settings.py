"""The settings of a workspace: in code, and as the table `[plugins.vfs]`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from toolstile_hookspecs import Durability
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.paths import Pattern

T = TypeVar("T")

MAX_FILE_SIZE: Final = 10 * 1024 * 1024
MAX_RESULT_CHARS: Final = 30_000


def _checked(check: Callable[[str], T], text: str) -> T:
    """Return the result of a check; pydantic takes a `ValueError` only."""
    try:
        return check(text)
    except OSError as error:
        raise ValueError(str(error)) from None


def _is_glob(glob: str) -> str:
    _checked(Pattern, glob)
    return glob


Globs = tuple[Annotated[str, AfterValidator(_is_glob)], ...]
Positive = Annotated[int, Field(gt=0, strict=True)]


class Mount(BaseModel):
    """Files from elsewhere, placed into the workspace to be read.

    Args:
        source: A directory, a zip or tar archive, or any URL that fsspec opens.
        target: The directory of the workspace that shows it.
        include: Only files whose path within the source matches one of these globs.
        exclude: No files or directories that match one of these.
        max_file_size: In bytes; larger files are shown, but cannot be read.
        storage_options: Further options for fsspec, such as credentials.

    Example:
        >>> Mount(source="/usr/share/doc", target="/workspace/doc/").target
        'doc'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Annotated[str, Field(min_length=1)]
    target: str
    include: Globs = ("**",)
    exclude: Globs = ()
    max_file_size: Positive = MAX_FILE_SIZE
    storage_options: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)

    @field_validator("target")
    @classmethod
    def _canonical(cls, target: str) -> str:
        path = _checked(paths.canonical, target)
        if not path:
            raise ValueError('a directory of the workspace, such as "docs"; it cannot be the root')
        return path


class VfsConfig(BaseModel):
    """The settings of the workspace and its tools.

    Args:
        root: Its directory; None for a workspace in memory, empty at first.
        max_file_size: In bytes: the largest file that the tools read and write.
        max_result_chars: The characters after which a result is cut, at a line.
        mounts: Files from elsewhere, to be read.
        durability: The host's, for a `root`; `power` waits for the disk at each commit.
        readonly: Whether all changes are refused.
        confirm_deletes: Whether a person must approve every deletion.
        protected: Globs of files to change only after a person agreed, beside the list that
            `toolstile doctor` shows.
        unprotected: Globs of files on that list that need no question.

    Example:
        >>> VfsConfig(root="src", readonly=True).root
        PosixPath('src')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: Path | None = None
    max_file_size: Positive = MAX_FILE_SIZE
    max_result_chars: Positive = MAX_RESULT_CHARS
    mounts: tuple[Mount, ...] = ()
    durability: Durability = "power"
    readonly: bool = False
    confirm_deletes: bool = True
    protected: Globs = ()
    unprotected: Globs = ()

    @field_validator("root", mode="before")
    @classmethod
    def _named(cls, root: object) -> object:
        if isinstance(root, str) and not root.strip():
            raise ValueError('a directory, such as "." for where the process starts, or none')
        return root

    @model_validator(mode="after")
    def _apart(self) -> VfsConfig:
        for place, mount in enumerate(self.mounts):
            for other in self.mounts[:place]:
                one, two = other.target, mount.target
                if paths.is_within(one, two) or paths.is_within(two, one):
                    raise ValueError(
                        f"the targets {one!r} and {two!r} of mounts are not apart from one "
                        "another; move one of them"
                    )
        return self

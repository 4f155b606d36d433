"""Writes a package from its templates, whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template
from typing import Final

from toolstile._version import requirement
from toolstile.scaffolding.kinds import KINDS
from toolstile.scaffolding.naming import Names
from toolstile_hookspecs import CONTRACT_VERSION

ENDING: Final = ".txt"
"""What the templates' names end in, so that nobody takes them for code."""

USAGE: Final = "usage.md"
"""The part of the README that each kind has of its own."""

PYDANTIC: Final = "pydantic>=2.13"
"""What a package says that uses pydantic, as Toolstile itself does."""

_IMPORTS_PYDANTIC: Final = re.compile(r"^(?:from|import) pydantic", re.MULTILINE)

RENAMED: Final = {"gitignore": ".gitignore"}


def write_package(names: Names, kind: str, parent: Path) -> tuple[Path, list[str]]:
    """Write a package into a new folder.

    Args:
        names: What it is called.
        kind: One of `KINDS`.
        parent: Where the folder is made.

    Returns:
        The folder, and the files in it.

    Raises:
        ValueError: When there is such a folder, or none to make it in; says what to do.
        OSError: When it cannot be written; then nothing is there.
    """
    target = parent / names.distribution
    if not parent.is_dir():
        raise ValueError(f"{parent} is no folder. Make it, or give another with --path.")
    if os.path.lexists(target):
        raise ValueError(
            f"{target} is there already. Remove it, choose another name, or another place with "
            "--path."
        )
    made = rendered(names, kind)
    draft = Path(tempfile.mkdtemp(prefix=f".{names.distribution}-", dir=parent))
    try:
        for name, text in made.items():
            file = draft / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        draft.chmod(0o777 & ~_umask())
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target, sorted(made)


def rendered(names: Names, kind: str) -> dict[str, str]:
    """Return the files of a package, by their paths in it."""
    templates = files("toolstile.scaffolding") / "templates"
    own = dict(_templates(templates / kind))
    values = {
        "distribution": names.distribution,
        "package": names.package,
        "plugin": names.plugin,
        "prefix": names.prefix,
        "title": names.title,
        "klass": names.klass,
        "made": names.klass_of(kind),
        "summary": KINDS[kind],
        "requirements": _requirements(own),
        "contract": CONTRACT_VERSION,
    }
    values["usage"] = _filled(own.pop(USAGE), values).rstrip("\n") + "\n"
    texts = {**dict(_templates(templates / "shared")), **own}
    return {_path(path, names): _filled(text, values) for path, text in texts.items()}


def _requirements(sources: Mapping[str, str]) -> str:
    """Return what a package needs: Toolstile, and whatever else its own source imports."""
    code = "\n".join(text for path, text in sources.items() if path.startswith("src/"))
    needed = [PYDANTIC, requirement()] if _IMPORTS_PYDANTIC.search(code) else [requirement()]
    return ", ".join(f'"{each}"' for each in needed)


def _templates(folder: Traversable, within: str = "") -> Iterator[tuple[str, str]]:
    for each in folder.iterdir():
        path = f"{within}{each.name}"
        if each.is_dir():
            yield from _templates(each, f"{path}/")
        elif path.endswith(ENDING):
            yield path.removesuffix(ENDING), each.read_text(encoding="utf-8")


def _filled(text: str, values: Mapping[str, str]) -> str:
    return Template(text).substitute(values)


def _path(template: str, names: Names) -> str:
    path = PurePosixPath(template)
    parts = [names.package if part == "package" else part for part in path.parent.parts]
    return str(PurePosixPath(*parts, RENAMED.get(path.name, path.name)))


def _umask() -> int:
    # It can only be read by setting it.
    umask = os.umask(0)
    os.umask(umask)
    return umask

"""`toolstile new`: a package to begin with."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import sys
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template
from typing import Final

from toolstile import _version
from toolstile.plugins.discovery import installed
from toolstile_cli.errors import UsageError
from toolstile_cli.exit_codes import Exit
from toolstile_cli.options import KINDS
from toolstile_hookspecs import CONTRACT_VERSION


def new(args: argparse.Namespace) -> int:
    """Write a package for a new plugin, and print the next steps; `UsageError` writes nothing."""
    try:
        names = names_for(args.name)
        folder, written = write_package(names, args.kind, args.path)
    except ValueError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        target = args.path / (PREFIX + args.name.removeprefix(PREFIX))
        raise UsageError(
            f"{target} cannot be written: {error.strerror or error}. Give another place with "
            "--path."
        ) from error
    if args.out is not None:
        shown = {key: names[key] for key in ("plugin", "distribution", "package")}
        args.out.write({"folder": str(folder), "kind": args.kind, **shown, "files": written})
        return Exit.OK
    sys.stdout.write(
        f"{folder}{os.sep} has a plugin, {names['plugin']}, with tests that pass. Next:\n\n"
        f"  cd {shlex.quote(str(folder))}\n"
        "  python -m pip install -e . pytest\n"
        "  toolstile plugins\n"
        "  python -m pytest\n\n"
        f"Then make it yours, beginning with src/{names['package']}/__init__.py.\n"
    )
    return Exit.OK


# --- Names of a new package


PREFIX: Final = "toolstile-"
MAX_NAME: Final = 30

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)


Names = Mapping[str, str]
"""The names of a package and its parts, by their placeholders in templates."""


def names_for(name: str) -> Names:
    """Return the names of a package, from the plugin's name with or without the prefix.

    Raises:
        ValueError: It is not a name, or is taken; names the cause and the remedy.

    Example:
        >>> names_for("toolstile-lunch-menu")["package"]
        'toolstile_lunch_menu'
    """
    plugin = name.removeprefix(PREFIX)
    if _NAME.fullmatch(plugin) is None or len(plugin) > MAX_NAME:
        raise ValueError(
            f"{name!r} is not a name for a plugin. Use lower-case letters, digits and single "
            f"hyphens, at most {MAX_NAME} characters, and begin with a letter"
            f"{_suggested(plugin)}."
        )
    distribution = PREFIX + plugin
    package = distribution.replace("-", "_")
    for found in installed():
        if found.name.replace("_", "-") == plugin:
            by = f" (from {found.distribution})" if found.distribution else ""
            raise ValueError(
                f"A plugin {found.name!r} is installed{by}, and two of one name cannot both be "
                "loaded. Choose another name, or uninstall that one."
            )
    if importlib.util.find_spec(package) is not None:
        raise ValueError(
            f"A module {package!r} can be imported already, and one would hide the other. "
            "Choose another name."
        )
    return {
        "plugin": plugin,
        "distribution": distribution,
        "package": package,
        "prefix": plugin.replace("-", "_"),
        "title": plugin.replace("-", " ").capitalize(),
        "klass": "".join(part.capitalize() for part in plugin.split("-")),
    }


def _suggested(plugin: str) -> str:
    letters = unicodedata.normalize("NFKD", plugin.casefold())
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    fixed = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:MAX_NAME].strip("-")
    return f"; {fixed!r} is one" if _NAME.fullmatch(fixed) else ""


# --- Templates


ENDING: Final = ".txt"
"""The suffix of templates, which keeps tools from reading them as code."""

USAGE: Final = "usage.md"
"""The part of the README that differs by kind."""

PYDANTIC: Final = "pydantic>=2.13"
"""The requirement of a package that uses pydantic, as Toolstile itself does."""

_IMPORTS_PYDANTIC: Final = re.compile(r"^(?:from|import) pydantic", re.MULTILINE)

RENAMED: Final = {"gitignore": ".gitignore"}


def write_package(names: Names, kind: str, parent: Path) -> tuple[Path, list[str]]:
    """Write a package into a new folder beneath a parent; return the folder and its files.

    Raises `ValueError` with the remedy if the folder exists or the parent is missing. After an
    `OSError` nothing is there.
    """
    target = parent / names["distribution"]
    if not parent.is_dir():
        raise ValueError(f"{parent} is not a folder. Make it, or give another with --path.")
    if os.path.lexists(target):
        raise ValueError(
            f"{target} already exists. Remove it, choose another name, or another place with "
            "--path."
        )
    made = rendered(names, kind)
    draft = Path(tempfile.mkdtemp(prefix=f".{names['distribution']}-", dir=parent))
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
    templates = files("toolstile_cli") / "templates"
    own = dict(_templates(templates / kind))
    code = "\n".join(text for path, text in own.items() if path.startswith("src/"))
    needed = [PYDANTIC, requirement()] if _IMPORTS_PYDANTIC.search(code) else [requirement()]
    values = {
        **names,
        # A name that ends in the kind has it once.
        "made": names["klass"].removesuffix(kind.capitalize()) + kind.capitalize(),
        "summary": KINDS[kind],
        "requirements": ", ".join(f'"{name}"' for name in needed),
        "contract": CONTRACT_VERSION,
    }
    values["usage"] = _filled(own.pop(USAGE), values).rstrip("\n") + "\n"
    texts = {**dict(_templates(templates / "shared")), **own}
    return {_path(path, names): _filled(text, values) for path, text in texts.items()}


def _templates(folder: Traversable, within: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        path = f"{within}{entry.name}"
        if entry.is_dir():
            yield from _templates(entry, f"{path}/")
        elif path.endswith(ENDING):
            yield path.removesuffix(ENDING), entry.read_text(encoding="utf-8")


def _filled(text: str, values: Mapping[str, str]) -> str:
    return Template(text).substitute(values)


def _path(template: str, names: Names) -> str:
    path = PurePosixPath(template)
    parts = [names["package"] if part == "package" else part for part in path.parent.parts]
    return str(PurePosixPath(*parts, RENAMED.get(path.name, path.name)))


def _umask() -> int:
    # It can only be read by setting it.
    umask = os.umask(0)
    os.umask(umask)
    return umask


def requirement() -> str:
    """Return how a package says that it needs this version, such as `toolstile>=0.1,<0.2`."""
    major, minor = (int(part) for part in _version.__version__.split(".")[:2])
    end = f"0.{minor + 1}" if major == 0 else f"{major + 1}"
    return f"toolstile>={major}.{minor},<{end}"

"""The names of a new package, and what keeps one from being taken."""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from toolstile.plugins.discovery import installed

PREFIX: Final = "toolstile-"
MAX_NAME: Final = 30

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Names:
    """What a package and its parts are called.

    Args:
        plugin: The plugin's name, that of its entry point.
    """

    plugin: str

    @property
    def distribution(self) -> str:
        """What is installed; also the name of the folder."""
        return PREFIX + self.plugin

    @property
    def package(self) -> str:
        """What is imported."""
        return self.distribution.replace("-", "_")

    @property
    def prefix(self) -> str:
        """What the names of tools and kinds begin with."""
        return self.plugin.replace("-", "_")

    @property
    def title(self) -> str:
        """The name for people."""
        return self.plugin.replace("-", " ").capitalize()

    @property
    def klass(self) -> str:
        """What the names of classes begin with."""
        return "".join(part.capitalize() for part in self.plugin.split("-"))

    def klass_of(self, kind: str) -> str:
        """Return what the class is called that is of a kind, which ends in that word.

        Example:
            >>> Names("lunch").klass_of("policy"), Names("lunch-policy").klass_of("policy")
            ('LunchPolicy', 'LunchPolicy')
        """
        return self.klass.removesuffix(kind.capitalize()) + kind.capitalize()


def names_for(name: str) -> Names:
    """Return the names that a wished one leads to, with or without the prefix.

    Raises:
        ValueError: When it is no name, or cannot be taken; says why and what to do.

    Example:
        >>> names_for("toolstile-lunch-menu").package
        'toolstile_lunch_menu'
    """
    plugin = name.removeprefix(PREFIX)
    if _NAME.fullmatch(plugin) is None or len(plugin) > MAX_NAME:
        raise ValueError(
            f"{name!r} is no name for a plugin: it is made of lower-case letters, digits and "
            f"single hyphens, begins with a letter, and has at most {MAX_NAME} characters"
            f"{_suggested(plugin)}."
        )
    names = Names(plugin)
    _refuse_taken(names)
    return names


def _suggested(plugin: str) -> str:
    letters = unicodedata.normalize("NFKD", plugin.casefold())
    plain = "".join(each for each in letters if not unicodedata.combining(each))
    mended = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:MAX_NAME].strip("-")
    return f"; {mended!r} is one" if _NAME.fullmatch(mended) else ""


def _refuse_taken(names: Names) -> None:
    for found in installed():
        if found.name.replace("_", "-") == names.plugin:
            by = f" (from {found.distribution})" if found.distribution else ""
            raise ValueError(
                f"A plugin {found.name!r} is installed{by}, and two of one name cannot both be "
                "loaded. Choose another name, or uninstall that one."
            )
    if importlib.util.find_spec(names.package) is not None:
        raise ValueError(
            f"A module {names.package!r} can be imported already, and one would hide the other. "
            "Choose another name."
        )

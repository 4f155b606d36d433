"""Quantities and moments in words, for people and models."""

from __future__ import annotations

import difflib
import json
import re
import shlex
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

FINE: Final = 0.00995
SECOND: Final = 0.9995
MINUTE: Final = 59.95
"""Below these, a time still rounds to less than 10 ms, a second, a minute."""


def duration(seconds: float) -> str:
    """Return a time in a short form.

    Example:
        >>> [duration(seconds) for seconds in (0.000_42, 0.0123, 3.21, 125)]
        ['0.4 ms', '12 ms', '3.2 s', '2 min 5 s']
    """
    if seconds < FINE:
        return f"{seconds * 1000:.1f} ms"
    if seconds < SECOND:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def extra_remedy(*extras: str) -> str:
    """Return how to install the packages of extras, in this environment."""
    # With uv, environments have no pip.
    pip = "python -m pip" if find_spec("pip") else "uv pip"
    return f"Run: {install_line(*extras, source=_source(), pip=pip)}"


def install_line(*extras: str, source: str, pip: str = "python -m pip") -> str:
    """Return the command that installs Toolstile with some extras.

    Args:
        *extras: The extras.
        source: A clone, a wheel, an address, or the project's name for a package index.
        pip: The installer.

    Example:
        >>> install_line("mcp", source=".")
        "python -m pip install '.[mcp]'"
        >>> install_line(source="path/to/clone")
        'python -m pip install path/to/clone'
        >>> install_line("mcp", "otlp", source="git+https://example.com/toolstile@1f2e3d")
        "python -m pip install 'toolstile[mcp,observability] @ git+https://example.com/toolstile@1f2e3d'"
    """
    named = f"[{','.join(extras)}]" if extras else ""
    option = "-e " * source.startswith("-e ")
    source = source.removeprefix("-e ")
    needed = f"toolstile{named} @ {source}" if "://" in source else f"{source}{named}"
    return f"{pip} install {option}{shlex.quote(needed)}"


def _source() -> str:
    """Return where this installation came from, as pip and uv note it."""
    # Late: it is slow to import, and only missing packages need it.
    from importlib.metadata import PackageNotFoundError, distribution

    checkout = Path(__file__).parents[3]
    try:
        noted: Any = json.loads(distribution("toolstile").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return str(checkout) if (checkout / "pyproject.toml").exists() else "path/to/clone"
    url = noted.get("url")
    if url is None:
        return "toolstile"
    if "vcs_info" in noted:
        return f"{noted['vcs_info']['vcs']}+{url}@{noted['vcs_info']['commit_id']}"
    if not url.startswith("file://"):
        return str(url)
    path = Path(unquote(urlsplit(str(url)).path))
    # Because a wheel or a clone may have been removed since, the path is checked.
    there = str(path) if path.exists() else "path/to/clone"
    return f"-e {there}" if noted.get("dir_info", {}).get("editable") else there


def for_model(text: str) -> str:
    """Return a text without sentences about commands and settings, and without folders.

    A model may repeat its texts to a customer; an operator has the whole text in the log.

    Example:
        >>> for_model("/var/lib/desk.db is locked. Run `toolstile database check`. Retry.")
        'desk.db is locked. Retry.'
    """
    sentences = re.split(r"(?<=[.!?] )|(?<=\n)", text)
    told = "".join(each for each in sentences if not re.search(_OF_OPERATOR, each))
    return re.sub(_FOLDERS, "", told).strip()


_OF_OPERATOR: Final = (
    r"`toolstile |\btoolstile (?:ledger|approvals)\b|(?<![\w.])plugins\.\w|\bpip install\b"
    r"|\bapproval_(?:key|spent)\b|\bTOOLSTILE_"
)
_FOLDERS: Final = r"(?<![\w./:~-])/(?:[^\s/'\",;:()]+/)+(?=[^\s/])"


def noted_for_operator(error: BaseException, depth: int = 10) -> str:
    """Return the attribute `for_operator` of an error or its causes, which no model reads."""
    told = str(getattr(error, "for_operator", ""))
    if told or error.__cause__ is None or not depth:
        return told
    return noted_for_operator(error.__cause__, depth - 1)


def counted(number: float, thing: str, things: str | None = None) -> str:
    """Return a number of things.

    Example:
        >>> counted(1, "call"), counted(2000, "call"), counted(2, "directory", "directories")
        ('1 call', '2,000 calls', '2 directories')
        >>> counted(1.0, "second"), counted(0.25, "second")
        ('1 second', '0.25 seconds')
    """
    return f"{number:,.15g} {thing if number == 1 else things or f'{thing}s'}"


# --- Text for a model


MAX_TEXT: Final = 100_000
"""The most characters of a text, unless the configuration says otherwise."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def legible(text: str) -> str:
    r"""Return a text with its control characters and lone surrogates escaped.

    Providers refuse some of them, and a model cannot see any. Tabs and line breaks stay.

    Example:
        >>> legible("red: \x1b[31m, end: \x00")
        'red: \\x1b[31m, end: \\x00'
        >>> legible("caf\udce9.txt")
        'caf\\udce9.txt'
    """
    return text if text.isprintable() else _CONTROL.sub(lambda found: _escaped(found[0]), text)


def cut(text: str, most: int = MAX_TEXT) -> str:
    """Return a text of at most so many characters: a longer one without its middle.

    Example:
        >>> print(cut("a" * 100 + "b" * 100, 120))
        aaaaaaaaaaaaaaaaa
        [cut here: of 200 characters, 120 may be shown. Ask for less at a time, if needed.]
        bbbbbbbbbbbbbbbbbb
    """
    if len(text) <= most:
        return text
    note = (
        f"\n[cut here: of {len(text):,} characters, {most:,} may be shown. Ask for less at a time, "
        "if needed.]\n"
    )
    room = max(most - len(note), 0)
    return f"{text[: room // 2]}{note}{text[len(text) - (room + 1) // 2 :]}"


# --- Text for a terminal


_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS: Final = frozenset("\u200c\u200d\ufe0f")
"""Invisible, but parts of words and emoji, and harmless."""


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text on one line, with everything escaped that could steer a terminal.

    Control and format characters (also for the direction of writing), line separators and lone
    surrogates become `\x1b` and the like. The characters of `keep`, such as newlines, stay.

    Example:
        >>> printable("red: \x1b[31m,\n")
        'red: \\x1b[31m,\\n'
    """
    if text.isprintable():
        return text
    harmless = {*_JOINERS, *keep}
    return "".join(
        _escaped(char)
        if unicodedata.category(char) in _UNPRINTABLE and char not in harmless
        else char
        for char in text
    )


def _escaped(character: str) -> str:
    # Not by the codec `unicode_escape`, which Python loads from files that a sandbox may hide.
    return ascii(character)[1:-1]


# --- Suggestions for misspelt names


ALIKE: Final = 0.6
"""The similarity, from 0 to 1, at which a name counts as misspelt."""
COMPARED: Final = 100
"""Characters compared of a name that may be of any length."""


def near(name: str, known: Iterable[str], most: int, alike: float = ALIKE) -> list[str]:
    """Return at most so many known names like another, the most similar first.

    `alike` is the least similarity, from 0 to 1.

    Example:
        >>> near("custmer", ["price", "customer", "customers"], 2)
        ['customer', 'customers']
    """
    names = list(known)
    same = [each for each in names if looks_like(name, each)]
    close = difflib.get_close_matches(name[:COMPARED], names, n=most, cutoff=alike)
    return [*dict.fromkeys([*same, *close])][:most]


def looks_like(one: str, other: str) -> bool:
    """Tell whether two texts look alike, and are written in different Unicode forms."""
    return one != other and _plain(one) == _plain(other)


_plain: Final = partial(unicodedata.normalize, "NFKC")


def nearest(name: str, known: Iterable[str], alike: float = ALIKE) -> str | None:
    """Return the known name that is most like another, or None when none is like it."""
    return next(iter(near(name, known, 1, alike)), None)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest known name, or nothing."""
    found = nearest(name, known)
    if found is None:
        return ""
    other_form = f"{found!a}, which looks the same in another Unicode form"
    return f"; did you mean {other_form if looks_like(name, found) else repr(found)}?"


def wire_time(moment: datetime, offset: float = 0.0) -> str:
    """Return a moment, some seconds later, as ISO 8601 in UTC with milliseconds.

    Example:
        >>> wire_time(datetime(2026, 1, 15, 10, 30, tzinfo=UTC))
        '2026-01-15T10:30:00.000Z'
    """
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    later = in_utc + timedelta(seconds=offset)
    return f"{later.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"

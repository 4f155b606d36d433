"""Record a run of the demo at a terminal and draw it: `python tools/draw_demo.py docs/demo.svg`.

All lines are faint at first, and each gets its colour at the second at which it came; so the
picture is readable as a still, too. It follows the reader's colours, light or dark, and has no
script.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Final
from xml.sax.saxutils import escape

COLUMNS: Final = 92
WIDTH, HEIGHT, MARGIN = 8.4, 20, 16
"""Pixels: a character, a line, and the space around them."""

LIGHT: Final = {
    "back": "#f6f8fa",
    "fore": "#1f2328",
    "dim": "#59636e",
    "red": "#cf222e",
    "green": "#116329",
    "yellow": "#7d4e00",
    "blue": "#0550ae",
    "magenta": "#8250df",
    "cyan": "#1b7c83",
}
DARK: Final = {
    "back": "#0d1117",
    "fore": "#e6edf3",
    "dim": "#9198a1",
    "red": "#ff7b72",
    "green": "#7ee787",
    "yellow": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
}
STYLES: Final = {
    "1": "bold",
    "2": "dim",
    "3": "italic",
    **{str(30 + number): name for number, name in enumerate([*LIGHT][3:], start=1)},
}
_CURSOR = re.compile(r"\x1b\[(?:\?25[hl]|2K)")
_SEQUENCE = re.compile(r"\x1b\[([0-9;]*)m")

Line = tuple[float, str]
"""The second at which a line was complete, and the line, with its colours."""


def record(command: Sequence[str]) -> list[Line]:
    """Run a command at a terminal of its own and return its lines.

    Raises:
        SystemExit: The command failed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    environment.pop("NO_COLOR", None)
    started = monotonic()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    lines: list[Line] = []
    rest = b""
    while True:
        try:
            read = os.read(ours, 65_536)
        except OSError:  # Linux says so when the last writer has closed the terminal
            read = b""
        if not read:
            break
        *whole, rest = (rest + read).split(b"\n")
        now = monotonic() - started
        for line in whole:
            # A line that was drawn again, such as a spinner, stands as it was drawn last.
            last = line.decode().rstrip("\r").rpartition("\r")[2]
            lines.append((now, _CURSOR.sub("", last)))
    os.close(ours)
    if status := process.wait():
        sys.exit(f"{' '.join(command)} ended with {status}.")
    return lines


def spans(line: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line, each with the classes of its style.

    Raises:
        ValueError: The line has a sequence other than those of styles.
    """
    styles: list[str] = []
    pieces = _SEQUENCE.split(line)
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            if "\x1b" in piece:
                raise ValueError(f"This line moves the cursor, which a picture cannot: {line!r}")
            if piece:
                yield piece, " ".join(styles)
            continue
        for code in piece.split(";"):
            if code in {"", "0"}:
                styles.clear()
            else:
                styles.append(STYLES[code])


def draw(lines: Sequence[Line], title: str) -> str:
    """Return the SVG of lines.

    Args:
        lines: The recorded lines.
        title: The text for readers who do not see the picture.
    """
    drawn: list[str] = []
    for number, (second, line) in enumerate(lines):
        parts = "".join(
            f'<tspan class="{style}">{escape(text)}</tspan>' if style else escape(text)
            for text, style in spans(line)
        )
        length = len(_SEQUENCE.sub("", line)) * WIDTH
        if parts:
            drawn.append(
                f'<text x="{MARGIN}" y="{MARGIN + HEIGHT * (number + 0.75):g}" '
                f'textLength="{length:.1f}" style="animation-delay:{second:.2f}s">{parts}</text>'
            )
    width = COLUMNS * WIDTH + 2 * MARGIN
    height = len(lines) * HEIGHT + 2 * MARGIN
    box = f'viewBox="0 0 {width:g} {height:g}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">
<title>{escape(title)}</title>
<style>
svg {{ {_colours(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ svg {{ {_colours(DARK)} }} }}
@media (prefers-reduced-motion: no-preference) {{ text {{ animation: appear 0.3s both }} }}
@keyframes appear {{ from {{ opacity: 0.35 }} }}
rect {{ fill: var(--back) }}
text {{ fill: var(--fore); white-space: pre;
  font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }}
.bold {{ font-weight: bold }}
.italic {{ font-style: italic }}
{" ".join(f".{name} {{ fill: var(--{name}) }}" for name in [*LIGHT][2:])}
</style>
<rect width="100%" height="100%" rx="8"/>
{chr(10).join(drawn)}
</svg>
"""


def _colours(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def main() -> None:
    """Record the demo and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="the picture to write")
    parser.add_argument(
        "command",
        nargs="*",
        default=["toolstile", "demo", "--yes"],
        help="the command to record, after `--` (default: toolstile demo --yes)",
    )
    options = parser.parse_args()
    title = "A recorded run of `toolstile demo`: four scenes, each with its proof"
    options.file.write_text(draw(record(options.command), title), encoding="utf-8")


if __name__ == "__main__":
    main()

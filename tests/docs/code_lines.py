"""Lines of code: as ruff formats them at 88 columns, without blank lines and comments."""

import io
import subprocess
import sys
import tokenize
from pathlib import Path


def lines_of(path: Path) -> int:
    """Return how many lines of code a file has, as it would be formatted."""
    command = [sys.executable, "-m", "ruff", "format", "--line-length", "88", "--isolated", "-"]
    text = subprocess.run(
        command, input=path.read_text(), capture_output=True, text=True, check=True
    ).stdout
    empty = {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in {*empty, tokenize.ENDMARKER}:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)

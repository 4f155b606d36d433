"""Counts phrases that a reader must decode: `python tools/prose.py [PART] [--under FOLDER]`.

`pages` are the first that a reader opens, the how-tos and the concepts, `help` that of every
command, `messages` the commonest to people and models, as `common_messages.txt` lists them: they
hold no such phrase. `source` is each docstring, comment and text of the product, `docs` each page:
their count falls. Prints the place and the phrase of each hit, then the counts; the exit status is
1 if there is a hit.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from toolstile_cli import quick_help

ROOT = Path(__file__).parents[1]

PAGES = (
    "README.md",
    "docs/index.md",
    "docs/compare.md",
    "docs/start/*.md",
    "docs/how-to/*.md",
    "docs/concepts/*.md",
)

PRODUCT = ("hookspecs", "host", "plugins")

MESSAGES = Path(__file__).with_name("common_messages.txt")

PHRASES = re.compile(
    r"\b(?:what|where (?:there|it|nobody|one)|(?:of|in|by|to) which|nobody|somebody|whoever|anew"
    r"|once more|told|tells? of|go(?:es)? on|given up|of (?:its|their) own|those (?:that|of)"
    r"|has to be|by now|as it is|came to|is no(?! longer)|another one|one (?:that|who))\b".replace(
        " ", r"\s+"
    ),
    re.IGNORECASE,
)

_QUESTION = re.compile(r"what\b[^.!?]*\?", re.IGNORECASE)

_NOT_PROSE = re.compile(
    r"^ *```.*?^ *```$|<!--.*?-->|`[^`\n]+`|\]\([^)\n]*\)", re.MULTILINE | re.DOTALL
)

_PLACEHOLDER = re.compile(r"%[sdr]|\{[^{}]*\}")


class Hit(NamedTuple):
    """A phrase of the list in a text."""

    place: str
    phrase: str

    def __str__(self) -> str:
        return f"{self.place}: {self.phrase}"


def hits(part: str) -> list[Hit]:
    """Return the phrases in a part.

    Raises:
        LookupError: If a listed message is no longer in the source.
    """
    found: list[Hit] = []
    for place, text in _PARTS[part]():
        for phrase in phrases_in(text):
            line = ":" + str(text.count("\n", 0, phrase.start()) + 1) if "\n" in text else ""
            found.append(Hit(f"{place}{line}", " ".join(phrase.group().lower().split())))
    return found


def phrases_in(text: str) -> Iterator[re.Match[str]]:
    """Yield each phrase in a text; code and questions have none."""
    prose = _NOT_PROSE.sub(lambda found: re.sub(r"[^\n]", "`", found.group()), text)
    for found in PHRASES.finditer(prose):
        if not _QUESTION.match(prose, found.start()):
            yield found


def _pages() -> Iterator[tuple[str, str]]:
    for pattern in PAGES:
        for page in sorted(ROOT.glob(pattern)):
            yield page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")


def _help() -> Iterator[tuple[str, str]]:
    """Yield each text of the help of every command."""
    waiting = [("toolstile", quick_help._parser())]
    while waiting:
        name, parser = waiting.pop(0)
        yield name, parser.description or ""
        yield f"{name}, examples", parser.epilog or ""
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += [(f"{name} {each}", inner) for each, inner in action.choices.items()]
            elif action.help != argparse.SUPPRESS:
                option = action.option_strings[-1] if action.option_strings else action.metavar
                yield f"{name} {option}", action.help or ""


def _messages() -> Iterable[tuple[str, str]]:
    """Return the commonest messages, each with the file that it is in."""
    listed = MESSAGES.read_text(encoding="utf-8").splitlines()
    wanted = [line for line in listed if line and not line.startswith("#")]
    found = dict(source_templates())
    if lost := [template for template in wanted if template not in found]:
        raise LookupError(f"{MESSAGES.name} lists messages that no file has: {lost}")
    return ((f"{found[template]}: {template}", template) for template in wanted)


def source_templates() -> Iterator[tuple[str, str]]:
    """Yield each text of the product's source, `{}` in place of values, and the file it is in."""
    for package in PRODUCT:
        for file in sorted((ROOT / package).rglob("*.py")):
            place = file.relative_to(ROOT).as_posix()
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.JoinedStr):
                    yield _template(node), place
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield _one_line(node.value), place


def _source() -> Iterator[tuple[str, str]]:
    """Yield each comment and each string of several words in the product's source."""
    for package in PRODUCT:
        for file in sorted((ROOT / package).rglob("*.py")):
            place = file.relative_to(ROOT).as_posix()
            for token in tokenize.generate_tokens(io.StringIO(file.read_text("utf-8")).readline):
                is_text = token.type in {tokenize.COMMENT, tokenize.STRING, _F_STRING}
                # Before Python 3.12, an f-string is one token, with the code that it holds.
                text = _PLACEHOLDER.sub("{}", token.string)
                if is_text and " " in text:
                    yield f"{place}:{token.start[0]}", text


_F_STRING = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)


def _docs() -> Iterator[tuple[str, str]]:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        yield page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")


def _template(node: ast.JoinedStr) -> str:
    parts = (str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    return _one_line("".join(parts))


def _one_line(text: str) -> str:
    return _PLACEHOLDER.sub("{}", text).replace("\n", "\\n")


CLEAN = ("pages", "help", "messages")
"""The parts that hold no phrase of the list."""

_PARTS = {
    "pages": _pages,
    "help": _help,
    "messages": _messages,
    "source": _source,
    "docs": _docs,
}


def main() -> int:
    """Print the hits in the parts that are named, or in those that hold none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(_PARTS))
    parser.add_argument("--under", default="", metavar="FOLDER", help="count only these files")
    options = parser.parse_args()
    found = {
        part: [hit for hit in hits(part) if hit.place.startswith(options.under)]
        for part in options.parts or CLEAN
    }
    for each in found.values():
        print(*each, sep="\n", end="\n" if each else "")
    for phrase, times in Counter(
        hit.phrase for each in found.values() for hit in each
    ).most_common():
        print(f"{times:5} {phrase}")
    print(", ".join(f"{part}: {len(each)}" for part, each in found.items()))
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Shell lines as their simple commands, including the commands of wrappers and inner shells.

Two readers must agree on a line: our scanner, and the grammar tree-sitter-bash. Each alone misses
commands that shells run; a line on which they differ is unknown.
"""

from __future__ import annotations

import importlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, Final, cast

from toolstile_hookspecs import DefinitionError
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.rules.shell.programs import (
    BUILTINS,
    CARRIERS,
    DECLARATIONS,
    READ_ONCE,
    SHELLS,
    WRAPPERS,
    is_protected,
)
from toolstile_plugins.rules.shell.scanner import (
    ASSIGNMENT,
    Scanner,
    SimpleCommand,
    Unreadable,
    Word,
)

LONGEST: Final = 32_768
"""The most bytes of a line that is read."""
_DEEPEST: Final = 5
_MOST: Final = 100
_MOST_COMMANDS: Final = 1000
_PROGRAM: Final = re.compile(r"[\w./+@~:-]+|\[\[?")
_PLAIN: Final = re.compile(r"[\w./:=@%+,^-]+|\{\}", re.ASCII)
_RESERVED: Final = frozenset(
    "if then else elif fi do done case esac while until for select in function { } !".split()
)
_OPERAND: Final = r"""(?:"[^"`\\]*"|'[^']*'|[\w./:+@%=,-]+|\$[?\#])"""
# Because some shells evaluate numbers, also that of -t, tests have few forms.
_NUMBER: Final = r"(?:-?[0-9]+|\$[?#])"
_UNARY: Final = rf"-[a-hknprsuwxzLSGNO]\s+{_OPERAND}"
# Because some shells run a command behind && in [[ ]], only an operator may begin there.
_TEST: Final = re.compile(
    rf"(?:!\s+)?(?:{_UNARY}|{_OPERAND}|{_OPERAND}\s+(?:==?|!=|-[no]t|-ef)\s+{_OPERAND}"
    rf"|{_NUMBER}\s+-(?:eq|ne|lt|le|gt|ge)\s+{_NUMBER})"
    rf"(?:\s(?:&&|\|\|)\s(?:!\s+)?{_UNARY})*",
    re.ASCII,
)
_DECLARED: Final = re.compile(r"(?s)([A-Za-z_]\w*)(?:\+?=.*)?|-[fgrxv]", re.ASCII)
HARMLESS_TARGETS: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


@dataclass
class ShellLine:
    """The simple commands that a line would run; with `unknown`, the reason, there may be more."""

    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    unknown: str = ""
    depth: int = 0

    def guarded(self, action: Callable[..., object], *given: object) -> None:
        """Call a function, and note why the line is unknown; commands found before stay."""
        try:
            action(*given)
        except Unreadable as error:
            self.unknown = self.unknown or str(error)
        except RecursionError:
            self.unknown = self.unknown or "it is nested too deeply"

    def add(self, command: SimpleCommand) -> None:  # noqa: C901, PLR0912 - a case for each kind
        """Add a command, and the commands that it runs by its words."""
        self._bound()
        for word in command.assignments:
            name, value = re.split(r"\+?=", word.text, maxsplit=1)
            if is_protected(name):
                self._doubt(f"{name} changes which commands run")
            if word.head is None and re.search(r"\[.*[$`]", value):
                # Some variables are numbers, whose values are evaluated.
                self._doubt("a value may run commands")
        words = command.words
        if not words:
            self.commands.append(command)
            return
        program, rest = words[0], words[1:]
        name = program.text.rpartition("/")[2]
        if program.head is not None or not _PROGRAM.fullmatch(program.text):
            self._doubt("the name of a command is not written out")
        if program.text in _RESERVED:
            self._doubt(f"{program.text} stands in place of a command")
        elif name in WRAPPERS:
            self._unwrap(name, command)
            return
        elif name in SHELLS:
            self._shell(command)
            return
        if program.text != "[[" or command.assignments or command.redirections:
            self.commands.append(command)
        if (fault := BUILTINS.get(name)) is not None:
            given = "\0".join("$" if word.may_be_option else word.text for word in rest)
            if re.search(fault, given, re.ASCII):
                self._doubt(f"{name} may run or change commands")
        if name in DECLARATIONS:
            self._declare(rest)
        elif name in {"test", "[", "[["}:
            is_open = name != "test" and rest[-1:] != (Word(name.replace("[", "]")),)
            compared = (_quoted(word, name) for word in (rest if name == "test" else rest[:-1]))
            text = " ".join(compared)
            if is_open or (text and not _TEST.fullmatch(text)):
                self._doubt("a test may run commands; compare quoted values")
        elif name in CARRIERS:
            self._carry(name, rest)
        elif name == "find":
            self._executed(rest)

    def _declare(self, words: Sequence[Word]) -> None:
        for word in words:
            found = _DECLARED.fullmatch(word.text if word.head is None else word.head)
            if not found or word.splits or is_protected(found[1] or ""):
                self._doubt("a declaration may change commands; quote its value")

    def _doubt(self, reason: str) -> None:
        self.unknown = self.unknown or reason

    def _unwrap(self, name: str, command: SimpleCommand) -> None:
        """Add a wrapper and the command behind its options."""
        option = WRAPPERS[name].replace(" ", r"\0[^\0]*")
        options = re.compile(rf"(?:(?!--\0)(?:{option}|(?P<odd>-[^\0]+))\0)*+(?:--\0)?")
        words = command.words
        found = cast("re.Match[str]", options.match(_joined(words[1:])))
        at = 1 + found[0].count("\0") + (name == "timeout")
        given, inner = words[1:at], words[at:]
        looks_up = name == "command" and found["odd"] in {"-v", "-V"}
        if not looks_up and (found["odd"] or any(word.may_be_option for word in given)):
            self._doubt(f"an option of {name} is not known, or not written out")
        if looks_up or not inner:
            # Alone, exec redirects, and env prints.
            self.commands.append(command)
            return
        assigned = [word for word in given if name == "env" and ASSIGNMENT.match(word.text)]
        if name == "xargs":
            more = Word("{}", "", splits=True)
            replaces = any(word.text.startswith("-I") for word in given)
            inner = (inner[0], *(more if replaces else word for word in inner[1:]), more)
        self.commands.append(SimpleCommand(words, role=_role(words[0])))
        assignments = (*command.assignments, *assigned)
        self._deeper(self.add, replace(command, words=inner, assignments=assignments))

    def _shell(self, command: SimpleCommand) -> None:
        """Add a shell and the commands of its script, if that is written out."""
        words = command.words
        options = cast("re.Match[str]", re.match(r"(?:[-+][ceuxl]+\0)*", _joined(words[1:])))[0]
        at, has_script = 1 + options.count("\0"), "c" in options
        script = words[at] if at < len(words) else Word("", "")
        if has_script and script.head is None and script.text[:1] not in {"-", "+", ""}:
            self.commands.append(replace(command, role=_role(words[0])))
            self._deeper(_read, script.text, self)
            return
        self.commands += [command, SimpleCommand(words[at:], role="carried")]
        name = script.text.rpartition("/")[2]
        # A shell finds a script by PATH, and the script may run its words.
        is_file = name not in {"find", *SHELLS, *WRAPPERS, *CARRIERS} and re.fullmatch(
            r"(?!/dev/|/proc/|[-+])[\w./~@:+-]+", script.text
        )
        if script.text != "--version" and (has_script or script.head is not None or not is_file):
            self._doubt("a shell gets a script that is not written out")

    def _deeper(self, action: Callable[..., object], *given: object) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unreadable("it is nested too deeply")
        action(*given)
        self.depth -= 1

    def _carry(self, name: str, words: Sequence[Word]) -> None:
        """Add all commands that words may be, for a program that runs some of its words."""
        before = CARRIERS[name]
        programs = [word.text.rpartition("/")[2] for word in words]
        is_read_again = not READ_ONCE.issuperset((name, *CARRIERS.keys() & programs))
        begins = [at + 1 for at, word in enumerate(words) if re.fullmatch(before, word.text)]
        if before and not begins:
            return
        if len(words) > _MOST:
            raise Unreadable(f"a program runs one of more than {_MOST} words")
        for at in range(begins[0] if before else 0, len(words)):
            word = words[at]
            self.commands.append(SimpleCommand(tuple(words[at:]), role="carried"))
            inner = ShellLine(depth=self.depth + 1)
            if word.head is not None or inner.depth > _DEEPEST:
                self._doubt("a program runs words that are not written out")
            elif programs[at] in {"find", *SHELLS, *WRAPPERS}:
                inner.guarded(inner.add, SimpleCommand(tuple(words[at:])))
            elif not is_read_again or _PLAIN.fullmatch(word.text):
                continue
            else:
                if at + 1 == len(words):
                    inner.guarded(_read, word.text, inner)
                if not inner.commands:
                    self._doubt("a further shell may read the words")
            self.unknown = self.unknown or inner.unknown
            self.commands += [replace(each, role="carried") for each in inner.commands]
            self._bound()

    def _bound(self) -> None:
        if len(self.commands) > _MOST_COMMANDS:
            raise Unreadable(f"it runs more than {_MOST_COMMANDS} commands")

    def _executed(self, words: Sequence[Word]) -> None:
        """Add the commands that `find` runs."""
        texts = [word.text for word in words]
        for at, text in enumerate(texts):
            if text in {"-exec", "-execdir", "-ok", "-okdir"}:
                ends = [place for place in range(at, len(texts)) if texts[place] in {";", "+"}]
                inner = words[at + 1 : ends[0] if ends else None]
                files = Word("{}", "", splits=True)
                given = tuple(files if "{}" in each.text else each for each in inner)
                self._deeper(self.add, SimpleCommand(given))


def _joined(words: Sequence[Word]) -> str:
    return "".join(f"{word.text}\0" for word in words)


def listed(words: Sequence[str], assignments: Sequence[str] = ()) -> ShellLine:
    """Return the commands of a list of words, which no shell reads."""
    found = ShellLine()
    found.guarded(found.add, SimpleCommand(_words(words), _words(assignments)))
    return found


def _words(texts: Iterable[str]) -> tuple[Word, ...]:
    return tuple(Word(text) for text in texts)


@lru_cache(maxsize=256)
def parsed(text: str, assignments: tuple[str, ...] = ()) -> ShellLine:
    """Return the commands of a line; `assignments` are variables that it begins with.

    Raises `DefinitionError` if the library that reads lines is not installed.
    """
    _grammar()
    found = ShellLine()
    if assignments:
        found.guarded(found.add, SimpleCommand((), _words(assignments)))
    found.guarded(_read, text, found)
    return found


@cache
def _grammar() -> tuple[Any, Any]:
    try:
        library: Any = importlib.import_module("tree_sitter")
        grammar: Any = importlib.import_module("tree_sitter_bash")
    except ImportError:
        told = f"commands need a library that reads shell lines. {extra_remedy('policies')}"
        raise DefinitionError(told) from None
    return library.Parser, library.Language(grammar.language())


def _role(program: Word) -> str:
    """Return the role of a wrapper: one in another directory may be any program."""
    is_known = program.text.rpartition("/")[0] in {"", "/bin", "/usr/bin"}
    return "wrapper" if is_known else ""


def _quoted(word: Word, program: str) -> str:
    """Return a word of a test as its pattern has it."""
    if word.head is None and re.fullmatch(r"[\w./:+@%=,!?#-]+", word.text, re.ASCII):
        return word.text
    if (word.splits and word.text in {"$?", "$#"}) or (
        program == "[[" and word.text in {"&&", "||"}
    ):
        return word.text
    # Within [[ ]], words are neither split nor replaced by files.
    others = r"[*?\[]" if word.head is not None and program != "[[" else "(?!)"
    splits = word.splits and program != "[["
    return "(" if splits or re.search(rf'["\\`]|{others}', word.text) else f'"{word.text}"'


_PROGRAMS: Final = frozenset({"command", "declaration_command", "unset_command", "test_command"})


def _read(text: str, found: ShellLine) -> None:
    """Add the commands of a text, and raise `Unreadable` unless both readers agree on them."""
    source = _checked(text)
    scan = Scanner(text)
    found.guarded(scan.scan)
    for command in scan.commands:
        found.guarded(found.add, command)
    # A parser belongs to one thread.
    parser, language = _grammar()
    nodes = [parser(language).parse(source).root_node]
    if nodes[0].has_error:
        raise Unreadable("it is not written as bash reads it")
    for node in nodes:
        nodes.extend(node.children)
    substitutions = {node.start_byte for node in nodes if node.type.endswith("_substitution")}
    programs = {
        (node.child_by_field_name("name") or node).start_byte
        for node in nodes
        if node.type in _PROGRAMS
    }
    extents = {(node.start_byte, node.end_byte) for node in nodes}
    # The grammar counts bytes.
    at = [0, *accumulate(len(char.encode()) for char in text)]
    if (
        {at[each] for each in scan.substitutions} != substitutions
        or {at[each] for each in scan.programs} != programs
        or not {(at[begin], at[end]) for begin, end in scan.words} <= extents
    ):
        raise Unreadable("it can be read in two ways")


def _checked(text: str) -> bytes:
    """Return a line as bytes."""
    odd = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}
    if any(unicodedata.category(char) in odd for char in text if char not in " \n\t"):
        raise Unreadable("it has a control character, or a blank that shells do not read as one")
    found = text.encode()
    if len(found) > LONGEST:
        raise Unreadable("it is too long")
    return found

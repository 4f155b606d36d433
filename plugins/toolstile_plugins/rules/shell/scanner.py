"""A reader of shell lines, which finds their simple commands without a grammar.

`lines` compares its findings with the tree of tree-sitter-bash, because each reader alone may miss
commands that a shell runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final


class Unreadable(Exception):
    """It is unknown which commands a line runs; the text says why, as a clause."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word, with quotes and escapes resolved, and expansions as they are written."""

    text: str
    head: str | None = None  # the text before its first expansion; None if it has no expansion
    splits: bool = False  # it may become several words, or none

    @property
    def may_be_option(self) -> bool:
        """True if an expansion may make it an option, or anything else."""
        return self.head is not None and (self.splits or self.head[:1] in {"", "-"})


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A simple command; without words it assigns or redirects only."""

    words: tuple[Word, ...] = ()
    assignments: tuple[Word, ...] = ()
    redirections: tuple[tuple[str, Word], ...] = ()  # the operator without a number, the target
    role: str = ""  # `wrapper` if others of the line stand for it, `carried` if it may be run

    @property
    def shown(self) -> str:
        """The command in one line."""
        texts = [each.text for each in (*self.assignments, *self.words)]
        texts += [f"{operator} {target.text}" for operator, target in self.redirections]
        return " ".join(texts)


_OPERATOR: Final = re.compile(r";;&|;;|;&|&&|\|\||\|&|[;&|\n]")
_REDIRECTION: Final = re.compile(
    r"[0-9]?(?:<<<|(?P<here><<)(?P<tabs>-?)|(?P<closing>[<>]&-)|&>>?|[<>]&|>\||>>|<>|[<>](?!\())"
)
_DELIMITER: Final = re.compile(
    r"""[ \t]*(?:(?:(['"])([\w.-]+)\1|\\([\w.-]+))|([\w.-]+))(?=[\s;&|)<>]|\Z)""", re.ASCII
)
_PARAMETER: Final = re.compile(
    r"\$(?:(?:[A-Za-z_]\w*+|[0-9@*#?$!_-])(?!\[)|\{#?(?:\w+|[@*#?])(?:\[[@*0-9]+\])?\}"
    r"|\{\w+(?:\[[@*0-9]+\])?"
    r"(?:(?::?[-+?]|\#\#?|%%?|//?|\^\^?|,,?)[\w ./:*?,@%+=-]*|:[0-9]+(?::[0-9]+)?)\})",
    re.ASCII,
)
# Names in arithmetic are evaluated as expressions, which may run commands: a[$(rm x)].
_ARITHMETIC: Final = re.compile(r"\$\(\([0-9\s+*/%<>=!&|^~?:,-]*\)\)")
_ESCAPED: Final = re.compile(r"\$'((?:[^'\\]|\\[nt\\\"])*)'")
_ESCAPES: Final = {"n": "\n", "t": "\t"}
_FUNCTION: Final = re.compile(r"function[ \t]+([\w.:-]+)(?:[ \t]*\([ \t]*\))?(?=\s|\()", re.ASCII)
_PARENTHESES: Final = re.compile(r"[ \t]*\([ \t]*\)")
ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_]\w*\[.*\]\+?=", re.ASCII | re.DOTALL)
_OPENING: Final = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{"})
_CLOSING: Final = frozenset({"fi", "done", "}", "esac"})
_EXPANDED: Final = r"\$(?:\w+|[?#]|\{\w+(?::?-)?\})"
_OPERAND: Final = rf"""(?:"(?:[^"`\\()$\[]|{_EXPANDED})*"|'[^']*'|[\w./:+@%=,*?-]+|{_EXPANDED})"""
_TEST: Final = (
    rf"""(?:!\s+)?(?:-[a-hknprsuwxzLSGNO]\s+{_OPERAND}|{_OPERAND}\s+(?:==?|!=)\s+{_OPERAND})"""
)
# Arithmetic in a test, as by -eq, evaluates its operands, which may run commands.
_DOUBLE_TEST: Final = re.compile(
    rf"\[\[\s+{_TEST}(?:\s+(?:&&|\|\|)\s+{_TEST})*\s+\]\](?=[\s;&|)]|\Z)", re.ASCII
)
_DESCRIPTOR: Final = re.compile(r"[0-9]+\Z|\{")
_DOCUMENT: Final = re.compile(r"\$\(cat <<'(\w+)'\n((?:(?!\1\n).*\n)*)\1\n[ \t]*\)", re.ASCII)
_OTHER_CAT: Final = re.compile(r"\bcat\W*\(|function\s+\W*cat")
_COPIED: Final = re.compile(r"[0-9]+-?")
_EMPTY: Final = re.compile(r"\}[^,\s;&|()<>]*(?=[\s;&|()<>]|\Z)")
_ENDS: Final = " \t\n;&|()<>"
_DEEPEST: Final = 40


@dataclass
class _Open:
    """A simple command that is being read."""

    words: list[Word] = field(default_factory=list[Word])
    assignments: list[Word] = field(default_factory=list[Word])
    redirections: list[tuple[str, Word]] = field(default_factory=list[tuple[str, Word]])
    operator: str = ""  # of the redirection whose target comes next
    is_ended: bool = False  # by &>, which ends a command for some shells


@dataclass
class Scanner:
    """The commands of a text, and the offsets of its parts; raises `Unreadable` in doubt."""

    text: str
    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    words: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    programs: set[int] = field(default_factory=set[int])
    substitutions: set[int] = field(default_factory=set[int])
    _at: int = 0
    _depth: int = 0

    def scan(self) -> None:
        """Read the whole text."""
        self._script("")

    def _script(self, end: str) -> None:  # noqa: C901, PLR0912 - a case for each kind
        """Read commands up to the character `end`."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unreadable("it is nested too deeply")
        # The next word is a command's first, an argument, or one of a `for`, `case` or pattern.
        mode, command, documents = "start", _Open(), list[tuple[str, bool, bool]]()
        while (char := self.text[self._at : self._at + 1]) or end:
            if char == "":
                raise Unreadable("a parenthesis or a quote is not closed")
            if char == end and mode != "pattern":
                self._at += 1
                break
            if char in " \t":
                self._at += 1
                while self.text.startswith("\\\n", self._at):
                    self._at += 2
            elif char == "#":
                self._comment(end)
            elif found := _REDIRECTION.match(self.text, self._at):
                self._at = found.end()
                if found["here"]:
                    documents.append((*self._delimiter(), bool(found["tabs"])))
                elif not found["closing"]:
                    command.operator = found[0].lstrip("0123456789")
            elif found := _OPERATOR.match(self.text, self._at):
                self._at = found.end()
                self._close(command)
                command = _Open()
                if found[0] == "\n":
                    for document in documents:
                        self._document(*document)
                    documents.clear()
                if mode != "pattern" or found[0] not in {"\n", "|"}:
                    mode = "pattern" if found[0] in {";;", ";&", ";;&"} else "start"
            elif char == ")" and mode == "pattern":
                self._at, mode = self._at + 1, "start"
            elif char == "(" and mode == "pattern":
                self._at += 1
            elif char == "(" and mode == "start" and self._is_subshell(command):
                self._at, mode = self._at + 1, "closed"
                self._script(")")
            elif char in "()":
                raise Unreadable("a parenthesis may calculate, or stands within a word")
            else:
                mode = self._next(mode, command, end)
        self._close(command)
        self._depth -= 1
        if documents or mode in {"for", "case", "pattern"}:
            raise Unreadable("it is not written to its end")

    def _is_subshell(self, command: _Open) -> bool:
        return command == _Open() and not self.text.startswith("((", self._at)

    def _close(self, command: _Open) -> None:
        if command.operator:
            raise Unreadable("a redirection has no target")
        parts = (command.words, command.assignments, command.redirections)
        if any(parts):
            self.commands.append(SimpleCommand(*map(tuple, parts)))  # type: ignore[arg-type]

    def _next(self, mode: str, command: _Open, end: str) -> str:  # noqa: C901, PLR0911, PLR0912
        """Read a word, and return the mode behind it."""
        begin = self._at
        is_first = mode in {"start", "closed"} and command == _Open()
        if mode == "start" and is_first and (found := _FUNCTION.match(self.text, begin)):
            self._at = found.end()
            return "start"
        if is_first and (found := _DOUBLE_TEST.match(self.text, begin)):
            self._at = found.end()
            self.programs.add(begin)
            return "closed"
        word = self._parts(end)
        raw = self.text[begin : self._at]
        self.words.add((begin, self._at))
        if command.operator:
            copies = command.operator in {">&", "<&"} and _COPIED.fullmatch(word.text)
            if command.operator != "<<<" and not (copies and word.head is None):
                command.redirections.append((command.operator, word))
            command.is_ended = command.is_ended or command.operator[0] == "&"
            command.operator = ""
        elif self.text[self._at : self._at + 1] in {"<", ">"} and _DESCRIPTOR.match(raw):
            # Some shells assign to a variable, and some take a long number for a word.
            raise Unreadable("a redirection has an unusual descriptor")
        elif command.is_ended:
            raise Unreadable("words stand behind &>; put them before it")
        elif is_first and raw in _OPENING:
            return "start"
        elif is_first and raw in _CLOSING:
            return "closed"
        elif is_first and raw in {"for", "select", "case"}:
            return "case" if raw == "case" else "for"
        elif mode == "closed":
            raise Unreadable("a word stands where none is expected")
        elif mode == "case":
            return "pattern" if raw == "in" else mode
        elif mode == "pattern":
            if raw == "esac":
                return "closed"
        elif mode == "for":
            self.commands.append(SimpleCommand((), (Word(f"{raw}=", ""),), role="loop"))
            return "in"
        elif mode == "in":
            if raw == "do":
                raise Unreadable("a loop goes over the words of the shell")
        elif raw in {"[[", "]]"} or (mode == "start" and _SUBSCRIPT.match(raw)):
            raise Unreadable("a subscript or a test may run commands")
        elif mode == "start" and ASSIGNMENT.match(raw):
            command.assignments.append(word)
        elif is_first and raw == word.text and (found := _PARENTHESES.match(self.text, self._at)):
            self._at = found.end()
        else:
            if not command.words:
                self.programs.add(begin)
            command.words.append(word)
            return "argument"
        return mode

    def _comment(self, end: str) -> None:
        stop = self.text.find("\n", self._at)
        stop = len(self.text) if stop < 0 else stop
        # Shells disagree whether a comment hides the end of a substitution in backticks.
        if end == "`" or self.text[self._at : stop].endswith("\\"):
            raise Unreadable("some shells end a comment elsewhere")
        self._at = stop

    def _delimiter(self) -> tuple[str, bool]:
        found = _DELIMITER.match(self.text, self._at)
        if found is None:
            raise Unreadable("a here-document has an unusual delimiter")
        self._at = found.end()
        return found[2] or found[3] or found[4], found[4] is None

    def _document(self, delimiter: str, is_quoted: bool, has_tabs: bool) -> None:  # noqa: FBT001
        begin = self._at
        while True:
            stop = self.text.find("\n", self._at)
            line = self.text[self._at : stop if stop >= 0 else len(self.text)]
            if (line.lstrip("\t") if has_tabs else line) == delimiter:
                break
            if stop < 0:
                raise Unreadable("a here-document has no end")
            self._at = stop + 1
        end, after = self._at, self._at + len(line) + (stop >= 0)
        self._at = begin
        while not is_quoted and self._at < end:
            char = self.text[self._at]
            if char == "\\":
                self._escaped()
            elif char in "$`":
                self._expansion(is_quoted=True)
            else:
                self._at += 1
        if self._at > end:
            raise Unreadable("a here-document ends within a substitution")
        self._at = after

    def _escaped(self) -> str:
        char = self.text[self._at + 1 : self._at + 2]
        if char in {"", "\n"}:
            raise Unreadable("a word continues in the next line")
        self._at += 2
        return char

    def _parts(self, end: str) -> Word:  # noqa: C901, PLR0912 - as above
        parts, head, splits = list[str](), None, False
        while (char := self.text[self._at : self._at + 1]) and char != end:
            before, expands = "".join(parts), False
            if char in "<>" and self.text[self._at + 1 : self._at + 2] == "(":
                expands = splits = True
                parts.append(self._substitution(2))
            elif char in _ENDS:
                break
            elif char == "\\":
                parts.append(self._escaped())
            elif char == "'":
                stop = self.text.find("'", self._at + 1)
                if stop < 0:
                    raise Unreadable("a quote is not closed")
                parts.append(self.text[self._at + 1 : stop])
                self._at = stop + 1
            elif char == '"':
                expands = self._quoted(parts)
                splits = splits or (expands and "@" in parts[-1])
            elif char in "$`":
                if found := _ESCAPED.match(self.text, self._at):
                    letters = re.sub(r"\\(.)", lambda at: _ESCAPES.get(at[1], at[1]), found[1])
                    parts.append(letters)
                    self._at = found.end()
                    expands = True  # by some shells only
                else:
                    expands = splits = True
                    parts.append(self._expansion(is_quoted=False))
            else:
                self._at += 1
                parts.append(char)
                following = self.text[self._at : self._at + 1]
                expands = char in "*?" or (char == "[" and following not in _ENDS)
                if char == "{" and following not in _ENDS and not _EMPTY.match(self.text, self._at):
                    expands = splits = True  # it may be expanded
            if expands and head is None:
                head = before
                if char == '"':
                    head += parts[-1].partition("$")[0].partition("`")[0]
        return Word("".join(parts), head, splits)

    def _quoted(self, parts: list[str]) -> bool:
        """Read a text in double quotes, add it as one part, and return whether it expands."""
        inner, expands = list[str](), False
        self._at += 1
        while (char := self.text[self._at : self._at + 1]) != '"':
            if char == "":
                raise Unreadable("a quote is not closed")
            if char == "\\":
                escaped = self._escaped()
                inner.append(escaped if escaped in '$`"\\' else f"\\{escaped}")
            elif char in "$`" and self.text[self._at : self._at + 2] not in ('$"', "$ ", "$'"):
                text = self._expansion(is_quoted=True)
                known = None if _OTHER_CAT.search(self.text) else _DOCUMENT.fullmatch(text)
                # Agents write messages of several lines as here-documents without expansions.
                inner.append(known[2].rstrip("\n") if known else text)
                expands = expands or known is None
            else:
                inner.append(char)
                self._at += 1
        self._at += 1
        parts.append("".join(inner))
        return expands

    def _expansion(self, *, is_quoted: bool) -> str:
        """Read an expansion, and return its source."""
        if found := _PARAMETER.match(self.text, self._at) or _ARITHMETIC.match(self.text, self._at):
            self._at = found.end()
            return found[0]
        if self.text.startswith("$((", self._at):
            raise Unreadable("it calculates with names, which may run commands")
        if self.text.startswith("$(", self._at):
            return self._substitution(2)
        if self.text.startswith("`", self._at):
            inner = self.text[self._at + 1 :].partition("`")[0]
            if "\\" in inner or (is_quoted and '"' in inner):
                raise Unreadable("backticks are nested, or hold quotes; write $(...)")
            return self._substitution(1)
        follows = self.text[self._at + 1 : self._at + 2]
        if not follows or follows in f"{_ENDS}%/.,:=^+]":
            self._at += 1
            return "$"
        raise Unreadable("an expansion may run commands, or hides which ones it runs")

    def _substitution(self, opening: int) -> str:
        begin = self._at
        self.substitutions.add(begin)
        self._at += opening
        self._script(")" if opening > 1 else "`")
        return self.text[begin : self._at]

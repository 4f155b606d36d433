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
_DOCUMENT: Final = re.compile(
    r"""[0-9]?<<(-?)[ \t]*(?:(?:(['"])([\w.-]+)\2|\\([\w.-]+))|([\w.-]+))(?=[\s;&|)<>]|\Z)""",
    re.ASCII,
)
_REDIRECTION: Final = re.compile(
    r"[0-9]?(?:<<<|(?P<here><<)|(?P<closing>[<>]&-)|&>>?|[<>]&|>\||>>|<>|[<>](?!\())"
)
_BLANK: Final = re.compile(r"[ \t](?:\\\n)*")
_COMMENT: Final = re.compile(r"#[^\n]*")
_ESCAPE: Final = re.compile(r"\\(.)")
_SINGLE: Final = re.compile(r"'([^']*)'")
_PARAMETER: Final = re.compile(
    r"\$(?:(?:[A-Za-z_]\w*+|[0-9@*#?$!_-])(?!\[)|\{#?(?:\w+|[@*#?])(?:\[[@*0-9]+\])?\}"
    r"|\{\w+(?:\[[@*0-9]+\])?"
    r"(?:(?::?[-+?]|\#\#?|%%?|//?|\^\^?|,,?)[\w ./:*?,@%+=-]*|:[0-9]+(?::[0-9]+)?)\})",
    re.ASCII,
)
# Names in arithmetic are evaluated as expressions, which may run commands: a[$(rm x)].
_ARITHMETIC: Final = re.compile(r"\$\(\([0-9\s+*/%<>=!&|^~?:,-]*\)\)")
_DOLLAR: Final = re.compile(r"\$(?=[ \t\n;&|)<>%/.,:=^+\]]|\Z)")
_ESCAPED: Final = re.compile(r"\$'((?:[^'\\]|\\[nt\\\"])*)'")
_ESCAPES: Final = {"n": "\n", "t": "\t"}
_FUNCTION: Final = re.compile(r"function[ \t]+([\w.:-]+)(?:[ \t]*\([ \t]*\))?(?=\s|\()", re.ASCII)
_PARENTHESES: Final = re.compile(r"[ \t]*\([ \t]*\)")
_SUBSHELL: Final = re.compile(r"\((?!\()")
ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_]\w*\[.*\]\+?=", re.ASCII | re.DOTALL)
_PLAIN_VARIABLE: Final = re.compile(r"(?!.*_proxy\Z)[a-z_]\w*", re.ASCII)
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
_MESSAGE: Final = re.compile(r"\$\(cat <<'(\w+)'\n((?:(?!\1\n).*\n)*)\1\n[ \t]*\)", re.ASCII)
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

    @property
    def _char(self) -> str:
        return self.text[self._at : self._at + 1]

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern here, and go behind it."""
        found = pattern.match(self.text, self._at)
        self._at = self._at if found is None else found.end()
        return found

    def scan(self, end: str = "") -> None:  # noqa: C901, PLR0912 - a case for each kind
        """Read commands up to the character `end`, by default the whole text."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unreadable("it is nested too deeply")
        # The next word is a command's first, an argument, or one of a `for`, `case` or pattern.
        mode, command, documents = "start", _Open(), list[tuple[str, bool, bool]]()
        while (char := self._char) or end:
            if char == "":
                raise Unreadable("a parenthesis or a quote is not closed")
            if char == end and mode != "pattern":
                self._at += 1
                break
            if self._take(_BLANK):
                continue
            if found := self._take(_COMMENT):
                # Shells disagree whether a comment hides the end of a substitution in backticks.
                if end == "`" or found[0].endswith("\\"):
                    raise Unreadable("some shells end a comment elsewhere")
            elif found := self._take(_DOCUMENT):
                tabs, _, quoted, escaped, plain = found.groups()
                documents.append((quoted or escaped or plain, plain is None, bool(tabs)))
            elif found := self._take(_REDIRECTION):
                if found["here"]:
                    raise Unreadable("a here-document has an unusual delimiter")
                if not found["closing"]:
                    command.operator = found[0].lstrip("0123456789")
            elif found := self._take(_OPERATOR):
                self._close(command)
                command = _Open()
                if found[0] == "\n":
                    for document in documents:
                        self._document(*document)
                    documents.clear()
                if mode != "pattern" or found[0] not in {"\n", "|"}:
                    mode = "pattern" if found[0] in {";;", ";&", ";;&"} else "start"
            elif char in "()" and mode == "pattern":
                self._at, mode = self._at + 1, "start" if char == ")" else mode
            elif mode == "start" and command == _Open() and self._take(_SUBSHELL):
                mode = "closed"
                self.scan(")")
            elif char in "()":
                raise Unreadable("a parenthesis may calculate, or stands within a word")
            else:
                mode = self._next(mode, command, end)
        self._close(command)
        self._depth -= 1
        if documents or mode in {"for", "case", "pattern"}:
            raise Unreadable("it is not written to its end")

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
        if mode == "start" and is_first and self._take(_FUNCTION):
            return "start"
        if is_first and self._take(_DOUBLE_TEST):
            self.programs.add(begin)
            return "closed"
        word = self._word(end)
        raw = self.text[begin : self._at]
        self.words.add((begin, self._at))
        if command.operator:
            copies = command.operator in {">&", "<&"} and _COPIED.fullmatch(word.text)
            if command.operator != "<<<" and not (copies and word.head is None):
                command.redirections.append((command.operator, word))
            command.is_ended = command.is_ended or command.operator[0] == "&"
            command.operator = ""
        elif self._char in {"<", ">"} and _DESCRIPTOR.match(raw):
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
            return "closed" if raw == "esac" else mode
        elif mode == "for":
            if not _PLAIN_VARIABLE.fullmatch(raw):
                self.commands.append(SimpleCommand((), (Word(f"{raw}=", ""),)))
            return "in"
        elif mode == "in":
            if raw == "do":
                raise Unreadable("a loop goes over the words of the shell")
        elif raw in {"[[", "]]"} or (mode == "start" and _SUBSCRIPT.match(raw)):
            raise Unreadable("a subscript or a test may run commands")
        elif mode == "start" and ASSIGNMENT.match(raw):
            command.assignments.append(word)
        elif not (is_first and raw == word.text and self._take(_PARENTHESES)):
            if not command.words:
                self.programs.add(begin)
            command.words.append(word)
            return "argument"
        return mode

    def _document(self, delimiter: str, is_quoted: bool, has_tabs: bool) -> None:  # noqa: FBT001
        line = "\t*" * has_tabs + re.escape(delimiter)
        found = re.compile(f"(?m)^{line}$").search(self.text, self._at)
        if found is None:
            raise Unreadable("a here-document has no end")
        while not is_quoted and self._at < found.start():
            char = self._char
            if char == "\\":
                self._escaped()
            elif char in "$`":
                self._expansion(is_quoted=True)
            else:
                self._at += 1
        if self._at > found.start():
            raise Unreadable("a here-document ends within a substitution")
        self._at = found.end() + 1

    def _escaped(self) -> str:
        if (found := self._take(_ESCAPE)) is None:
            raise Unreadable("a word continues in the next line")
        return found[1]

    def _word(self, end: str) -> Word:  # noqa: C901, PLR0912 - as above
        parts, head, splits = list[str](), None, False
        while (char := self._char) and char != end:
            before, expands = "".join(parts), False
            if self.text.startswith(("<(", ">("), self._at):
                expands = splits = True
                parts.append(self._substitution(2))
            elif char in _ENDS:
                break
            elif char == "\\":
                parts.append(self._escaped())
            elif found := self._take(_SINGLE):
                parts.append(found[1])
            elif char == "'":
                raise Unreadable("a quote is not closed")
            elif char == '"':
                expands = self._quoted(parts)
                splits = splits or (expands and "@" in parts[-1])
            elif found := self._take(_ESCAPED):
                parts.append(re.sub(r"\\(.)", lambda at: _ESCAPES.get(at[1], at[1]), found[1]))
                expands = True  # by some shells only
            elif char in "$`":
                expands = splits = True
                parts.append(self._expansion(is_quoted=False))
            else:
                self._at += 1
                parts.append(char)
                is_last = self._char in _ENDS
                expands = char in "*?" or (char == "[" and not is_last)
                if char == "{" and not is_last and not _EMPTY.match(self.text, self._at):
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
        while (char := self._char) != '"':
            if char == "":
                raise Unreadable("a quote is not closed")
            if char == "\\":
                escaped = self._escaped()
                inner.append(escaped if escaped in '$`"\\' else f"\\{escaped}")
            elif char in "$`" and not self.text.startswith(('$"', "$ ", "$'"), self._at):
                text = self._expansion(is_quoted=True)
                known = None if _OTHER_CAT.search(self.text) else _MESSAGE.fullmatch(text)
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
        found = self._take(_PARAMETER) or self._take(_ARITHMETIC) or self._take(_DOLLAR)
        if found is not None:
            return found[0]
        if self.text.startswith("$((", self._at):
            raise Unreadable("it calculates with names, which may run commands")
        if self.text.startswith("$(", self._at):
            return self._substitution(2)
        if self._char == "$":
            raise Unreadable("an expansion may run commands, or hides which ones it runs")
        inner = self.text[self._at + 1 :].partition("`")[0]
        if "\\" in inner or (is_quoted and '"' in inner):
            raise Unreadable("backticks are nested, or hold quotes; write $(...)")
        return self._substitution(1)

    def _substitution(self, opening: int) -> str:
        begin = self._at
        self.substitutions.add(begin)
        self._at += opening
        self.scan(")" if opening > 1 else "`")
        return self.text[begin : self._at]

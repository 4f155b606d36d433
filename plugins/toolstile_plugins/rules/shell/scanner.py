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
_CONNECTIVE: Final = re.compile(r"&&|\|\|")
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
_PLAIN: Final = re.compile(r"([^\s;&|()<>\\'\"$`*?\[{]+|\[\[?(?=[\s;&|()<>]|\Z))")
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
# In zsh, `path` is PATH.
PLAIN_VARIABLE: Final = r"(?!\w*proxy|(?:cd|f|module_)?path\b)[a-z_]\w*"
_OPENING: Final = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{"})
_CLOSING: Final = frozenset({"fi", "done", "}", "esac"})
_DESCRIPTOR: Final = re.compile(r"[0-9]+\Z|\{")
_MESSAGE: Final = re.compile(r"\$\(cat <<'(\w+)'\n((?:(?!\1\n).*\n)*)\1\n[ \t]*\)", re.ASCII)
_OTHER_CAT: Final = re.compile(r"\bcat\W*\(|function\s+\W*cat")
_COPIED: Final = re.compile(r"[0-9]+-?")
_EMPTY: Final = re.compile(r"\}[^,\s;&|()<>]*(?=[\s;&|()<>]|\Z)")
_ENDS: Final = " \t\n;&|()<>"


@dataclass
class _Open:
    """A simple command that is being read."""

    words: list[Word] = field(default_factory=list[Word])
    assignments: list[Word] = field(default_factory=list[Word])
    redirections: list[tuple[str, Word]] = field(default_factory=list[tuple[str, Word]])
    operator: str = ""  # of the redirection whose target comes next

    @property
    def is_test(self) -> bool:
        return self.words[:1] == [Word("[[")] and self.words[-1] != Word("]]")


@dataclass
class Scanner:
    """The commands of a text, and the offsets of its parts; raises `Unreadable` in doubt."""

    text: str
    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    words: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    programs: set[int] = field(default_factory=set[int])
    substitutions: set[int] = field(default_factory=set[int])
    _at: int = 0

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
            elif command.is_test and (found := self._take(_CONNECTIVE)):
                command.words.append(Word(found[0]))
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
        word = self._word(end)
        raw = self.text[begin : self._at]
        self.words.add((begin, self._at))
        if command.operator:
            copies = command.operator in {">&", "<&"} and _COPIED.fullmatch(word.text)
            if command.operator != "<<<" and not (copies and word.head is None):
                command.redirections.append((command.operator, word))
            # Because &> ends a command for some shells, no word may follow.
            mode = "closed" if command.operator[0] == "&" else mode
            command.operator = ""
        elif self._char in {"<", ">"} and _DESCRIPTOR.match(raw):
            # Some shells assign to a variable, and some take a long number for a word.
            raise Unreadable("a redirection has an unusual descriptor")
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
            if not re.fullmatch(PLAIN_VARIABLE, raw, re.ASCII):
                self.commands.append(SimpleCommand((), (Word(f"{raw}=", ""),)))
            return "in"
        elif mode == "in":
            if raw == "do":
                raise Unreadable("a loop goes over the words of the shell")
        elif mode == "start" and _SUBSCRIPT.match(raw):
            raise Unreadable("a subscript may run commands")
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
        if not is_quoted:
            self._inner(found.start())
        if self._at > found.start():
            raise Unreadable("a here-document ends within a substitution")
        self._at = found.end() + 1

    def _inner(self, end: int | None = None) -> tuple[str, bool]:
        """Read a text as in double quotes, up to these or an offset; tell whether it expands."""
        text, expands = "", False
        while self._at < end if end is not None else self._char != '"':
            if (char := self._char) == "":
                raise Unreadable("a quote is not closed")
            if char == "\\":
                escaped = self._escaped()
                text += escaped if escaped in '$`"\\' else f"\\{escaped}"
            elif char in "$`" and not self.text.startswith(('$"', "$ ", "$'"), self._at):
                piece = self._expansion()
                known = None if _OTHER_CAT.search(self.text) else _MESSAGE.fullmatch(piece)
                # Agents write messages of several lines as here-documents without expansions.
                text += known[2].rstrip("\n") if known else piece
                expands = expands or known is None
            else:
                text += char
                self._at += 1
        return text, expands

    def _escaped(self) -> str:
        if (found := self._take(_ESCAPE)) is None:
            raise Unreadable("a word continues in the next line")
        return found[1]

    def _word(self, end: str) -> Word:
        text, head, splits = "", None, False
        while (char := self._char) and char != end:
            begins, expands = text, False
            if found := self._take(_PLAIN) or self._take(_SINGLE):
                text += found[1]
            elif char in "$`" or self.text.startswith(("<(", ">("), self._at):
                expands = True
                if found := self._take(_ESCAPED):  # which some shells expand, and others do not
                    text += re.sub(r"\\(.)", lambda at: _ESCAPES.get(at[1], at[1]), found[1])
                else:
                    text, splits = text + self._expansion(), True
            elif char in _ENDS:
                break
            elif char == "\\":
                text += self._escaped()
            elif char == '"':
                self._at += 1
                piece, expands = self._inner()
                self._at, text = self._at + 1, text + piece
                splits = splits or (expands and "@" in piece)
                begins += piece.partition("$")[0].partition("`")[0]
            elif char == "'":
                raise Unreadable("a quote is not closed")
            else:
                self._at, text = self._at + 1, text + char
                is_last = self._char in _ENDS or _EMPTY.match(self.text, self._at)
                braces = char == "{" and not is_last
                expands = braces or char in "*?["
                splits = splits or braces
            if expands and head is None:
                head = begins
        return Word(text, head, splits)

    def _expansion(self) -> str:
        """Read an expansion, and return its source."""
        begin = self._at
        found = self._take(_PARAMETER) or self._take(_ARITHMETIC) or self._take(_DOLLAR)
        if found is not None:
            return found[0]
        if self.text.startswith("$((", begin):
            raise Unreadable("it calculates with names, which may run commands")
        is_quoted = self._char == "`"
        if is_quoted and re.search(r'[\\"]', self.text[begin + 1 :].partition("`")[0]):
            raise Unreadable("backticks are nested, or hold quotes; write $(...)")
        if not is_quoted and self.text[begin + 1 : begin + 2] != "(":
            raise Unreadable("an expansion may run commands, or hides which ones it runs")
        self.substitutions.add(begin)
        self._at += 1 if is_quoted else 2
        self.scan("`" if is_quoted else ")")
        return self.text[begin : self._at]

"""A grammar of shell lines whose every program is a canary, and random lines of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

Maker = Callable[["Lines"], str]


class Lines:
    """Makes random lines; the same seed makes the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.depth = 0
        self.documents: list[str] = []

    def __iter__(self) -> Iterator[str]:
        while True:
            self.documents.clear()
            yield self.line()

    def one(self, *choices: str | Callable[[], str]) -> str:
        chosen = self.random.choice(choices)
        return chosen if isinstance(chosen, str) else chosen()

    def deeper(self, make: Callable[[], str], otherwise: str) -> str:
        if self.depth >= 4:
            return otherwise
        self.depth += 1
        try:
            return make()
        finally:
            self.depth -= 1

    def line(self) -> str:
        text = self.body()
        if self.documents:
            text = "\n".join([text, *self.documents])
            self.documents.clear()
            if self.random.random() < 0.5:
                text += "\n" + self.simple()
        return self.damaged(text) if self.random.random() < 0.2 else text

    def body(self) -> str:
        parts = [self.statement()]
        while self.random.random() < 0.45:
            parts += [self.one(";", " && ", " || ", " | ", " & ", "\n", " |& ", "; ")]
            if self.documents and "\n" in parts[-1]:
                parts[-1] = "; "
            parts += [self.statement()]
        return "".join(parts)

    def block(self) -> str:
        """Return statements without a here-document, for a place within a line."""
        kept, self.documents = self.documents, []
        text = self.body()
        if self.documents:
            text = "\n".join([text, *self.documents, ""])
        self.documents = kept
        return text

    def statement(self) -> str:
        return self.one(
            self.simple, self.simple, self.simple, lambda: self.deeper(self.compound, "c0")
        )

    def compound(self) -> str:
        block, word = self.block, self.word
        return self.one(
            lambda: f"({block()})",
            lambda: f"{{ {block()}; }}",
            lambda: f"if {block()}; then {block()}; else {block()}; fi",
            lambda: f"if ! {block()}\nthen {block()}\nelif {block()}; then {block()}\nfi",
            lambda: f"for f in {word()} {word()}; do {block()}; done",
            lambda: f"while {block()}; do {block()}; break; done",
            lambda: f"until ! {block()}; do {block()}; break; done",
            lambda: f"case {word()} in (a|{word()}) {block()};; *) {block()} ;; esac",
            lambda: f"case a in a) {block()} ;& b) {block()};; esac",
            lambda: f"g() {{ {block()}; }}; g",
            lambda: f"function g {{ {block()}; }}; g {word()}",
            lambda: f"g () ( {block()} ); g",
            lambda: f"[ -z {self.quoted()} ] && {self.simple()}",
            lambda: f"[[ {word()} == {word()} ]] || {self.simple()}",
            lambda: f"test -n {word()} || {self.simple()}",
            lambda: f"select f in {word()}; do {block()}; break; done <<< 1",
            lambda: self.one("for ((i=0; i<1; i++)); do c1; done", "(( 1 )) && c1", "a=1 b=$(c1)"),
            lambda: f"coproc {self.simple()}",
            lambda: f"time {self.simple()}",
            lambda: f"! {self.simple()}",
            lambda: f"if {block()}; then {block()}; fi {self.redirection()}",
            lambda: f"{{ {block()}; }} {self.redirection()}",
        )

    def program(self) -> str:
        name = f"c{self.random.randrange(10)}"
        if self.random.random() < 0.04:
            return self.one(
                f"$'{name}'", f"$(c1){name}", f"$'\\x63{name[1]}'", f"c{{{name[1]},}}",
                f"/canaries/{name[0]}?", f"${{nope}}{name}", "$(echo c1)", "${Y:-c2}", "c\\\n3",
            )  # fmt: skip
        return self.one(
            name, name, name, name, f"\\{name}", f"'{name}'", f'"{name}"', f'"{name[0]}"{name[1]}',
            f"{name[0]}\\{name[1]}", f"/canaries/{name}", f"{name}''",
        )  # fmt: skip

    def simple(self) -> str:
        words = [self.word() for _ in range(self.random.randrange(4))]
        before = [self.one("A=1", f"B={self.word()}", "C+=x")] if self.random.random() < 0.1 else []
        wrapper = [self.wrapper()] if self.random.random() < 0.2 else []
        text = [*before, *wrapper, self.program(), *words]
        if self.random.random() < 0.25:
            text.insert(self.random.randrange(len(before), len(text) + 1), self.redirection())
        if self.random.random() < 0.1:
            return self.deeper(self.carried, "c0")
        comment = (
            self.one(" # it's; c1 $(c2) `c3`\n", " #c1\n") if self.random.random() < 0.04 else ""
        )
        if comment and not self.documents and not self.depth:
            return " ".join(text) + comment + self.program()
        return self.one(" ", " ", " ", "  ", "\t", " \\\n ").join(text)

    def wrapper(self) -> str:
        return self.one(
            "command", "builtin command", "exec", "env", "env A=1", "env -i PATH=$PATH", "nohup",
            "nice", "nice -n 5", "setsid", "stdbuf -oL", "timeout 9", "timeout -k 1 9s", "xargs",
            "xargs -n 1", "time -p", "sudo", "sudo -u x", "ssh host", "docker run -it image",
            "env -u A", "exec -a x", "nice -5", "xargs -I{} env", "env -S", "command -p", "eval",
        )  # fmt: skip

    def carried(self) -> str:
        inner = self.block()
        if self.random.random() < 0.2:
            inner = f"printf '%s' {self.quoted()}; {inner}"
        text = "'" + inner.replace("'", "'\\''") + "'"
        if self.random.random() < 0.3:
            text = '"' + inner.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'
            text = text.replace("`", "\\`")
        return (
            self.one("sh -c ", "bash -c ", "bash -ec ", "eval ", "ssh host ", "env sh -c ") + text
        )

    def word(self) -> str:
        if self.random.random() < 0.03:
            return self.one(
                "$'a\\'b'", "${X:-$(c4)}", "${X/$(c5)/}", "$[1]", "$((X))", "${X@Q}", "${!X}",
                '$"c1"', "${X:-`c3`}", '"${X:-`c3`}"', "$((1 + $(c2)))", "a[$(c6)]=1", "@(a|b)",
                "${X:=$(c1)}", "x=(a $(c2))", "$(( $(c8) ))", "'a'\\\nb", '"a\\\nb"',
            )  # fmt: skip
        return self.one(
            "a", "-x", "--long=b", "'a b'", "'$(c1)'", "a\\ b", "*.txt", "~", "$X", "${X}", "$?",
            "'it'\\''s'", "$'\\n'", "a#b", "{}", "a{b,c}d", "1", "a=b", "-", "--",
            "${X:-d}", "${#X}", "${X%y}", "$((1+2))", "\\$\\(c1\\)", "'`c1`'", "é", "a@b", "[a]",
            self.quoted, self.quoted, self.substitution, self.substitution, "!", "\\;", "';'",
            "'#'", "done", "fi", "$'a\\tb'", "%", "==", "$(<a.txt)",
            "&>a.txt", "}", "{", "a\"b\"'c'", "}x", "^", ":", "''", '""',
        )  # fmt: skip

    def quoted(self) -> str:
        inner = [
            self.one(
                "a", " ", "'", "$X", "${X}", '\\"', "\\$(c1)", "\\`", ";", "#", "$", "(", ")", "*",
                "${X:-e}", "é", "&", "|", "\\\\", "$X y", "!", "\n", "{", "<(c1)",
                self.substitution, "$(cat <<'E'\n-x $(c1) `c2`\n\\ E\n\nE\n)",
            )
            for _ in range(self.random.randrange(5))
        ]  # fmt: skip
        return f'"{"".join(inner)}"'

    def substitution(self) -> str:
        def made() -> str:
            block = self.block()
            return self.one(
                f"$({block})", f"$({block} )", f"$( {block}\n)", f'"$({block})"', f"<({block})",
                f"`{self.plain()}`", f"`{self.plain()} {self.plain()}`", f"$( ({block}) )",
                f"`c6 \\`{self.plain()}\\``", f">({self.plain()})", f"x$({block})y", f"`{block}`",
            )  # fmt: skip

        return self.deeper(made, "$(c7)")

    def plain(self) -> str:
        return f"c{self.random.randrange(10)}"

    def redirection(self) -> str:
        return self.one(
            ">a.txt", ">>b.txt", "2>/dev/null", "2>&1", "</dev/null", "<a.txt", "&>c.txt",
            ">|b.txt", "<>a.txt", ">&2", "<<<x", f"<<<{self.quoted()}", f"> {self.word()}",
            "3>d.txt", "2>&-", f"< {self.substitution()}", "{fd}>/dev/null", ">& e.txt",
            self.document, self.document,
        )  # fmt: skip

    def document(self) -> str:
        if self.depth > 2:
            return "<a.txt"
        name = self.one("E", "EOF", "END")
        kept, self.documents = self.documents, []
        lines = [
            self.one("a", "$X", "c8", "\t" + name, "it's \"x", "$(c9)", "`c9`", "\\$(c1)", ")", "`")
            for _ in range(self.random.randrange(3))
        ]
        self.documents = kept
        operator, end = self.one("<<", "<<", "<<-"), name
        if operator == "<<-":
            lines = [self.one("", "\t") + each for each in lines]
            end = self.one("", "\t", "\t\t") + name
        self.documents += [*lines, end]
        return (
            operator
            + self.one("", " ")
            + self.one(name, name, f"'{name}'", f'"{name}"', f"\\{name}")
        )

    def damaged(self, text: str) -> str:
        """Return a line with one character more, less or another."""
        if not text:
            return text
        at = self.random.randrange(len(text))
        char = self.one(
            *"'\"`$()\\{};&|<>#\n \t=!*~", "\\\n", "\r", "$(", "<<E", "c1", "; c2", " c3 "
        )
        return text[:at] + char + text[at + self.random.randrange(2) :]

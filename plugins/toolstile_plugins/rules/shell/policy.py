"""The policy `command`: the simple commands of a shell line, allowed, asked about or denied."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any, ClassVar, Final, Literal

from toolstile_hookspecs import (
    DefinitionError,
    Diagnostic,
    HostHandle,
    PersistentPolicy,
    PolicyDecision,
    Tool,
    ToolContext,
)
from toolstile_hookspecs.support.text import nearest
from toolstile_plugins.dialects.parse import items, mapping
from toolstile_plugins.policies.checks import Otherwise, SelectingPolicy
from toolstile_plugins.policies.path_arguments import schema_of
from toolstile_plugins.rules.shell.lines import HARMLESS_TARGETS, listed, parsed
from toolstile_plugins.rules.shell.presets import PRESETS
from toolstile_plugins.rules.shell.programs import OPTIONS, uncovered
from toolstile_plugins.rules.shell.scanner import ASSIGNMENT, SimpleCommand, Word
from toolstile_plugins.rules.values import arguments_of, properties_of

MOVED: Final = "command.moved"
"""The meta of a call whose command runs outside of the workspace's own directory."""

Preset = Literal["read-only", "developer", "careful"]
Verdict = Literal["allow", "ask", "deny"]
_REDIRECTED: Final = re.compile(r"[0-9]*(&>>?|>>|>\||<>|[<>])(.*)")


@dataclass(frozen=True)
class Pattern:
    """A pattern of simple commands: globs for words, assignments and redirections.

    A last `*` stands for any more words, or none. Of a pattern that denies or asks, options may
    stand anywhere.
    """

    text: str
    words: tuple[str, ...] = ()
    has_more: bool = False
    assignments: tuple[str, ...] = ()
    redirections: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Return the pattern of a text; raise `DefinitionError` if its quotes do not match."""
        try:
            tokens = shlex.split(text)
        except ValueError as error:
            raise DefinitionError(f"{text!r}: {str(error).lower()}; quote whole words") from None
        words, assignments, redirections = list[str](), list[str](), list[tuple[str, str]]()
        waiting = iter(tokens)
        for token in waiting:
            if found := _REDIRECTED.fullmatch(token):
                if re.fullmatch(r"&[0-9-]+", found[2]):
                    continue
                redirections.append((_plain(found[1]), found[2] or next(waiting, "*")))
            elif not words and ASSIGNMENT.match(token):
                assignments.append(token)
            else:
                words.append(token)
        if not tokens or words[:1] == [""]:
            raise DefinitionError("a pattern is empty; name a program, as in 'git status'")
        has_more = words[-1:] == ["*"]
        kept = words[:-1] if has_more else words
        return cls(text, tuple(kept), has_more, tuple(assignments), tuple(redirections))

    def gap(self, command: SimpleCommand, options: Mapping[str, Sequence[str]]) -> str | None:
        """Return the part of a command that an allow does not cover, or "" if it covers all.

        None if the words of the command do not match.
        """
        words = command.words
        if len(words) < len(self.words) or not (self.has_more or len(words) == len(self.words)):
            return None
        if not all(map(_fits, self.words, words)):
            return None
        named = {at for at, each in enumerate(self.words) if each[:1] not in {"*", "?", "["}}
        parts = [words[at].text for at in sorted(uncovered(words, options) - named)]
        parts += [
            each.text
            for each in command.assignments
            if not any(_fits(glob, each) for glob in self.assignments)
        ]
        for kind, target in command.redirections:
            known = {">>", ">"} if _plain(kind) == ">>" else {_plain(kind)}
            is_read = known == {"<"} and not target.text.startswith("/dev/")
            is_harmless = target.head is None and (is_read or target.text in HARMLESS_TARGETS)
            fits = (each in known and _fits(glob, target) for each, glob in self.redirections)
            if not (is_harmless or any(fits)):
                parts.append(f"{kind} {target.text}")
        return ", ".join(parts)

    def touches(self, command: SimpleCommand) -> bool | None:
        """Tell whether a command is one to ask about or to deny; None if it may be."""
        found = [_any(glob, command.assignments) for glob in self.assignments]
        for operator, glob in self.redirections:
            targets = [each for kind, each in command.redirections if _plain(kind) == operator]
            found.append(_any(glob, targets))
        if self.words:
            fits = _program_fits(self.words[0], command.words)
            found += [fits, self._follows(command.words[1:])]
        return False if False in found else None if None in found else True

    def _follows(self, words: Sequence[Word]) -> bool | None:
        """Tell whether the words of the pattern come in their order, options at any place."""
        is_open = any(word.may_be_option for word in words)
        options = [word for word in words if word.text.startswith("-") and word.text != "-"]
        for glob in self.words[1:]:
            if glob.startswith("-") and not _has_option(glob, options):
                return None if is_open else False
        wanted = [glob for glob in self.words[1:] if not glob.startswith("-")]
        at, is_value = 0, False
        for word in words:
            if at < len(wanted) and _may_fit(wanted[at], word):
                at, is_value = at + 1, False
            elif word.text.startswith("-"):
                # The word behind it may be its value.
                is_value = "=" not in word.text
            elif not is_value and (at < len(wanted) or not self.has_more):
                return None if is_open else False
            else:
                is_value = False
        if at < len(wanted):
            return None if is_open else False
        return True if self.has_more or not is_open else None


def _plain(operator: str) -> str:
    """Return the kind of a redirection."""
    return {">|": ">", ">&": ">", "&>": ">", "&>>": ">>", "<&": "<"}.get(operator, operator)


def _fits(glob: str, word: Word) -> bool:
    """Tell whether a glob matches a word, whatever its expansions are."""
    if word.head is not None:
        is_value = glob.endswith("=*") and word.head.startswith(glob[:-1])
        return not word.splits and (glob == "*" or is_value)
    if ".." in word.text.split("/") and ".." not in glob and glob != "*":
        # It would lead out of a directory in the pattern.
        return glob == word.text
    return fnmatchcase(word.text, glob)


def _may_fit(glob: str, word: Word) -> bool:
    forms = {word.text, posixpath.normpath(word.text or ".")}
    return any(fnmatchcase(form, glob) for form in forms)


def _any(glob: str, words: Collection[Word]) -> bool | None:
    if any(_may_fit(glob, word) for word in words):
        return True
    return None if any(word.head is not None for word in words) else False


def _program_fits(glob: str, words: Sequence[Word]) -> bool | None:
    if not words:
        return False
    if words[0].head is not None:
        return None
    # Some file systems have one file for all cases of a name.
    text = words[0].text.casefold()
    names = {text, text.rpartition("/")[2], text.rpartition("/")[2].removesuffix(".exe")}
    return any(fnmatchcase(name, glob.casefold()) for name in names)


def _has_option(glob: str, options: Sequence[Word]) -> bool:
    if any(fnmatchcase(word.text, glob) for word in options):
        return True
    if glob.startswith("--"):
        name = glob.partition("=")[0]
        names = {word.text.partition("=")[0] for word in options}
        return any(len(each) > len("--") and name.startswith(each) for each in names)
    letters = {letter for word in options if word.text[:2] != "--" for letter in word.text[1:]}
    return glob[1:].isalnum() and letters.issuperset(glob[1:])


@dataclass(frozen=True)
class Judgement:
    """The verdict on one command of a line, and the pattern or the reason that gave it."""

    command: str
    verdict: Verdict
    rule: str


def _is_harmless(command: SimpleCommand) -> bool:
    """Tell whether a command assigns nothing and redirects to no file."""
    return Pattern("").gap(replace(command, words=()), {}) == ""


_UNKNOWN: Final = "unknown: "


def strictest(found: Collection[Judgement]) -> Verdict:
    """Return the verdict on a line."""
    verdicts = {each.verdict for each in found}
    return "deny" if "deny" in verdicts else "ask" if "ask" in verdicts else "allow"


@dataclass(frozen=True, kw_only=True)
class CommandPolicy(SelectingPolicy):
    """Allows, asks or denies by the simple commands that a shell line would run.

    Deny wins over ask, and ask over allow; a line is allowed if each of its commands is. A line
    that cannot be read with certainty is never allowed.

    Args:
        argument: The argument with the line; a list of words is one command, read by no shell.
        allow: Patterns of commands that are allowed; they cover words, but no redirection to a
            file, assignment, or option of the tables unless they name it.
        ask: Patterns of commands that a person decides on.
        deny: Patterns of commands that are denied.
        preset: Patterns to begin with: `read-only`, `developer` or `careful`.
        otherwise: The verdict on other commands, `ask` or `deny`; by default the preset's, else
            `ask`.
        options: Further options, by program, that write a file or run a program.
        environment: The argument with the variables of the command, if the tool has one.
        arguments: The argument with further words of the command, if the tool has one.

    Raises:
        DefinitionError: When a pattern is wrong, or none is given.
    """

    wants_params: ClassVar = True

    argument: str = "command"
    allow: Sequence[str] = ()
    ask: Sequence[str] = ()
    deny: Sequence[str] = ()
    preset: Preset | None = None
    otherwise: Otherwise | None = None
    options: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    environment: str = "env"
    arguments: str = "args"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.allow or self.ask or self.deny or self.preset):
            told = "give patterns, such as allow = ['git status'], or a preset"
            raise DefinitionError(f"CommandPolicy: {told}.")
        try:
            _ = self._patterns
        except DefinitionError as error:
            raise DefinitionError(f"CommandPolicy: {error}.") from None
        # Fail here, not at the first call, without the library.
        parsed("true")

    @cached_property
    def _patterns(self) -> Mapping[Verdict, list[Pattern]]:
        given: Mapping[str, list[str]] = PRESETS[self.preset] if self.preset else {}
        own: Mapping[Verdict, Sequence[str]]
        own = {"allow": self.allow, "ask": self.ask, "deny": self.deny}
        return {
            effect: [Pattern.of(text) for text in (*texts, *given.get(effect, ()))]
            for effect, texts in own.items()
        }

    @property
    def _rest(self) -> Verdict:
        return self.otherwise or ("deny" if self.preset == "read-only" else "ask")

    def judge(
        self, line: str | Sequence[str], variables: Sequence[str] = (), *, moves: bool = False
    ) -> list[Judgement]:
        """Return the verdict on each command of a line, with `NAME=value` of its environment.

        `moves` says that the line runs outside of the workspace's own directory.
        """
        if isinstance(line, str):
            read, shown = parsed(line, tuple(variables)), line
        else:
            read, shown = listed(line, variables), shlex.join(line)
        cds = ((Word("cd"),), (Word("pushd"),))
        moves = moves or any(each.words[:1] in cds for each in read.commands)
        judged = ((each, self._verdict(each, moves=moves)) for each in read.commands)
        found = [Judgement(each.shown, *verdict) for each, verdict in judged if verdict is not None]
        if read.unknown:
            found.append(Judgement(shown, self._rest, f"{_UNKNOWN}{read.unknown}"))
        return found

    def _verdict(self, command: SimpleCommand, *, moves: bool) -> tuple[Verdict, str] | None:
        """Return the verdict on a command with the reason, None if others stand for it."""
        may_touch = None
        effects: tuple[Verdict, ...] = ("deny", "ask")
        for effect in effects:
            for pattern in self._patterns[effect]:
                is_touched = pattern.touches(command)
                if is_touched:
                    return effect, f"{effect} {pattern.text!r}"
                may_touch = may_touch or (pattern if is_touched is None else None)
        is_stood_for = command.role == "wrapper" or not command.words
        if command.role == "carried" or (is_stood_for and _is_harmless(command)):
            return None
        if moves and _program_fits("git", command.words) is not False:
            # Its settings there name programs, and an agent may have written them.
            return self._rest, "git may run programs that a directory names"
        if may_touch is not None:
            return self._rest, f"it may become {may_touch.text!r}"
        told = "no pattern"
        for pattern in self._patterns["allow"]:
            gap = pattern.gap(command, self.options)
            if gap == "":
                return "allow", f"allow {pattern.text!r}"
            told = told if gap is None else f"allow {pattern.text!r} does not name {gap}"
        return self._rest, told

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Decide by the strictest verdict on a command of the line."""
        arguments = arguments_of(tool, params)
        line: object = arguments.get(self.argument)
        if line is None:
            return PolicyDecision.allow()
        words = items(line)
        is_command = words and all(isinstance(word, str) for word in words)
        if not isinstance(line, str) and not is_command:
            told = f"{tool.label} takes {self.argument} as a text or a list of words. Correct that."
            return PolicyDecision.deny(told)
        variables = mapping(arguments.get(self.environment))
        assigned = [f"{name}={value}" for name, value in variables.items()]
        moves = bool(context.tool_call and context.tool_call.meta.get(MOVED))
        judge = partial(self.judge, variables=assigned, moves=moves)
        if more := arguments.get(self.arguments):
            # It is not known whether a shell joins and reads the words.
            whole = [*map(str, (*(words or [line]), *(items(more) or [more])))]
            found = [*judge(whole), *judge(" ".join(whole))]
        else:
            found = judge(line if isinstance(line, str) else [*map(str, words)])
        worst = strictest(found)
        if worst == "allow":
            # Because of its reason, it counts as more than no objection.
            return PolicyDecision(allowed=True, reason=f"Allowed by {self.name}.")
        first = next(each for each in found if each.verdict == worst)
        unknown = first.rule.partition(_UNKNOWN)[2]
        why = f" It is not clear which commands it runs: {unknown}." if unknown else ""
        if worst == "ask":
            return PolicyDecision.ask(f"A person decides on this command: {first.command}.{why}")
        way = "Write plain commands, one a line" if unknown else "Continue without it"
        told = f"{tool.label} does not run this command here: {first.command}.{why} {way}."
        return PolicyDecision.deny(told)

    def silence(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> str:
        """Return why the policy is silent on a call."""
        return f"The call has no argument {self.argument}."

    def misfits(
        self, tools: Sequence[Tool[Any, Any]], may_come: Callable[[str], bool]
    ) -> list[str]:
        """Return the tools without the argument."""
        chosen = [tool for tool in tools if self.selects(tool) and schema_of(tool) is not None]
        lacking = [tool for tool in chosen if self.argument not in properties_of(tool)]
        if not lacking or (self.tools is None and len(lacking) < len(chosen)):
            return []
        near = nearest(self.argument, properties_of(lacking[0]))
        meant = f" (did you mean {near}?)" if near else ""
        return [f"reads the argument {self.argument}, which {lacking[0].name} does not have{meant}"]


def policies_of(host: HostHandle) -> list[CommandPolicy]:
    """Return the policies over commands of a host."""
    found = (each.policy if isinstance(each, PersistentPolicy) else each for each in host.policies)
    return [each for each in found if isinstance(each, CommandPolicy)]


def findings(host: HostHandle) -> Iterator[Diagnostic]:
    """Yield the options that an allow does not cover, if a host has such a policy."""
    policies = policies_of(host)
    tables = {names: text.split() for names, text in OPTIONS.items()} if policies else {}
    for policy in policies:
        for name, more in policy.options.items():
            tables.setdefault(name, []).extend(more)
    for names, entries in tables.items():
        told = f"An allow covers these only if it names them: {' '.join(entries)}"
        yield Diagnostic.ok(f"commands of {names}", told)

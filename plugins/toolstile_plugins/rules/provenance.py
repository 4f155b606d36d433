"""The policies on where values come from, where they may not go, and words of the request."""

from __future__ import annotations

import logging
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, Literal, NamedTuple, cast
from weakref import WeakKeyDictionary

from pydantic_core import from_json, to_json

from toolstile_hookspecs import (
    DefinitionError,
    PolicyDecision,
    PolicyState,
    SliceView,
    Tool,
    ToolContext,
    ToolInvoked,
    ToolResult,
    masked,
)
from toolstile_hookspecs.diagnostics import NOTICE
from toolstile_hookspecs.execution.approvals import is_approved
from toolstile_hookspecs.selectors import ToolSelector, fits
from toolstile_hookspecs.stored_names import stored_as
from toolstile_hookspecs.support.patterns import bounded
from toolstile_plugins.policies.checks import (
    Count,
    Otherwise,
    Stateless,
    check_fields,
    entries_for,
    objection,
    refuse_none,
)
from toolstile_plugins.policies.path_arguments import names_declared_by
from toolstile_plugins.rules.helpers import words_of
from toolstile_plugins.rules.values import (
    LONGEST,
    SHORTEST,
    WHOLE,
    PhraseIndex,
    Value,
    arguments_of,
    decoded,
    index_of,
    is_default,
    links,
    names_of_result,
    phrase,
    plain,
    properties_of,
    texts_of,
    unknown_names,
    values_in,
    values_of_result,
    words,
)


@stored_as("rules.RememberedValues", of_policy=True)
@dataclass(frozen=True, slots=True)
class RememberedValues:
    """The values of one call that one policy remembers, as plain texts."""

    policy: str
    at: int  # the number of items when the call was checked
    # In its arguments, unless a person has approved them, and in the arguments of calls that had
    # failed, or were refused, when it showed something.
    arguments: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()  # in trusted fields of its result
    approved: tuple[str, ...] = ()  # the phrases that a person has approved with the call


class ValueIndex:
    """Finds values in the memory of a policy on a session; its users hold the `lock`.

    The index is made of the items alone, so it goes back when a call is rolled back. `refused` has
    the values of calls that never ran, and `size` is the number of words.
    """

    def __init__(self, policy: str) -> None:
        self.lock = threading.Lock()
        self.refused = RefusedValues()
        self.size = 0
        self._policy = policy
        self._begin()

    def _begin(self) -> None:
        self._items: list[RememberedValues] = []
        self._trusted, self._arguments = PhraseIndex(), PhraseIndex()
        self._approved: dict[str, int] = {}
        self.size = 0

    def follow(self, items: Sequence[RememberedValues]) -> None:
        """Index the new items."""
        shared = min(len(items), len(self._items))
        if shared and items[shared - 1] is not self._items[shared - 1]:
            self._begin()
        for place in range(len(self._items), len(items)):
            item = items[place]
            self._items.append(item)
            if item.policy != self._policy:
                continue
            for text in item.arguments:
                self._arguments.add(item.at, text)
            for text in item.trusted:
                self._trusted.add(place, text)
            for approved in item.approved:
                self._approved.setdefault(approved, place)
            texts = (*item.arguments, *item.trusted, *item.approved)
            self.size += sum(text.count(" ") + 1 for text in texts)

    def new(self, texts: Iterable[str], among: int, *, trusted: bool) -> tuple[str, ...]:
        """Return the texts that none of so many items has as trusted, or as arguments."""
        if len(self._items) != among:
            # The index may have texts of a call that was rolled back.
            return tuple(texts)
        known = self._trusted if trusted else self._arguments
        return tuple(text for text in texts if known.whole(text) is None)

    def is_approved(self, phrase: str, among: int) -> bool:
        """Tell whether a person has approved a call with this phrase, by so many items."""
        return self._approved.get(phrase, among) < among

    def is_shown(self, phrase: str, among: int, *, is_word: bool = False) -> bool:
        """Tell whether a phrase, or a word, stood in a trusted text before any call gave it."""
        find = PhraseIndex.first_word if is_word else PhraseIndex.first
        shown = find(self._trusted, phrase)
        if shown is None or shown >= among:
            return False
        given = find(self._arguments, phrase)
        if phrase.count(" ") >= LONGEST and not is_word:
            # The index does not find it within longer texts.
            given = self._arguments.within(phrase)
        return given is None or given > shown


class RefusedValues:
    """The texts of the refused calls of a session: denied calls, and calls that did not fit.

    They are read from the session's log of calls, so a refused call costs nothing more.
    """

    def __init__(self) -> None:
        self._newest: ToolInvoked | None = None
        self._texts: dict[str, None] = {}

    def among(self, calls: SliceView[ToolInvoked]) -> Iterable[str]:
        """Return the texts; the texts of newly ended calls come last."""
        known, newest = self._newest, None
        for event in reversed(calls.all()):
            newest = newest or event
            if event is known:
                break
            # The policy's `on_failure` handles a call that was rolled back.
            if not (event.success or event.rolled_back):
                self._texts.update(dict.fromkeys(texts_of(_values_of(event), is_given=True)))
        self._newest = newest
        return self._texts


def _values_of(event: ToolInvoked) -> list[Value]:
    given = event.call.arguments if event.arguments is None else event.arguments
    if isinstance(given, Mapping):
        given = to_json(dict(given), serialize_unknown=True)
    try:
        values = from_json(given)
    except ValueError:
        # The text is not JSON, but the model wrote it.
        values = given if isinstance(given, str) else given.decode(errors="replace")
    if event.tool is None:
        return values_in(values, ())
    values = masked(values, event.tool.params_codec.secret_schema())
    return values_in(values, names_declared_by(event.tool))


Comparison = Literal["value", "links", "words", "request"]

NO_REQUEST = "no request was given, so the wishes of the user are unknown"

SESSIONS: Final = 64
"""The number of sessions with an index in memory; other sessions get a new one."""
SHOWN: Final = 80
"""The most characters that a message shows of a value."""

_NUMBERS: Final = {"integer", "number"}
_PLAIN: Final = {*_NUMBERS, "boolean", "null"}
FAILED: Final = "failed"
"""The key of the arguments of failed calls in the reserved record."""

_NAME: Final = r"[^\s@/?#\\%,;<>\"()]*"

log = logging.getLogger("toolstile.policies")


@dataclass(frozen=True, slots=True)
class _Ruled:
    """The rules on one tool, the trusted fields of its results, and the names it declares."""

    rules: tuple[tuple[str, Comparison], ...]
    fields: AbstractSet[str]
    properties: Mapping[str, Any]  # of its arguments
    declared: AbstractSet[str]  # at any depth


class _Checked(NamedTuple):
    """The findings of a check of a call, kept until its result."""

    ruled: _Ruled
    items: Sequence[RememberedValues]  # the remembered values that it saw
    values: Sequence[Value]
    keys: Sequence[str] = ()  # the phrases that are ruled
    objections: Sequence[str] = ()  # in words


@dataclass(frozen=True, kw_only=True)
class ProvenancePolicy:
    """Lets tools be called with values that the user gave, or that trusted results have shown.

    A value that a call gave before anything had shown it stays unproven, whatever shows it later,
    unless the user names it or a person approves the call. That holds for calls that failed, were
    denied or did not fit, as far as the session's log of calls reaches. A result counts for calls
    that are checked after it, so not for others of its batch. Nothing is kept beyond the session.

    Args:
        arguments: From a tool, also as a glob, to the arguments that are ruled, and how. `value`:
            the whole value, or each element, stands as a whole in the request or in a trusted
            field, but for case and white space. `links`: the addresses and URLs within it do.
            `words`: each word of four letters or more does. `request`: as `value`, but in the
            request alone. Values under three characters are not ruled by `value`. Arguments that
            the tool does not declare are ruled by it; defaults of the author are not.
        trusted: From a tool, also as a glob, to the fields of its results that are trusted, at
            any depth, names in them included; `*` trusts the whole text of a result that has no
            fields, and a mapping whose names are not declared.
        allow: Values that always pass, also as globs. A `*` stands for a part of a name, not for
            `@`, `/`, `?` or `#`; at the end, after a `/`, for anything.
        otherwise: The decision on other values: a person decides (`ask`), or the call is denied.
        most: The most words that are remembered of a session. Beyond them, nothing new is trusted.
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When nothing is ruled, or a field has another type.

    Example:
        >>> ProvenancePolicy(arguments={"send_email": {"recipients": "value"}}).otherwise
        'ask'
    """

    arguments: Mapping[str, Mapping[str, Comparison]]
    trusted: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    allow: tuple[str, ...] = ()
    otherwise: Otherwise = "ask"
    most: Count = 50_000
    name: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_none(self, "arguments")
        named = {"arguments": self.arguments, "trusted": self.trusted}
        empty = [f"{key}: {tool}" for key, of in named.items() for tool in of if not of[tool]]
        empty += [f"allow: {pattern!r}" for pattern in self.allow if not pattern.strip("* ")]
        if empty:
            msg = "it names none or all, so nothing would be ruled by it; name some, or leave it"
            raise DefinitionError(f"ProvenancePolicy: {', '.join(empty)}: {msg} out.")
        if self.most < 1:
            raise DefinitionError("ProvenancePolicy: most must be more than 0; else none is known.")

    @property
    def governed(self) -> AbstractSet[str]:
        """The names of tools it rules by."""
        return frozenset(self.arguments) | frozenset(self.trusted)

    def misfits(
        self, tools: Sequence[Tool[Any, Any]], may_come: Callable[[str], bool]
    ) -> list[str]:
        """Return the named arguments and fields that none of the tools has."""
        _ = self._notice
        found = unknown_names("arguments", self.arguments, tools, names_declared_by)
        for pattern, arguments in self.arguments.items():
            fitting = [tool for tool in tools if fits(tool, pattern)]
            found += _without_text(pattern, arguments, fitting)
        found += unknown_names("trusted", self.trusted, tools, names_of_result)
        return found

    @cached_property
    def _notice(self) -> None:
        # A host makes its policies more than once before it opens, and asks only the last ones.
        if any("value" in of.values() for of in self.arguments.values()):
            told = "Policy %r rules no value under %s characters by `value`."
            log.warning(told, self.name, SHORTEST, extra=NOTICE)

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Decide by the values whose source is not known."""
        checked = self._look_at(tool, params, context)
        self._checked[context.session] = checked
        if not checked.objections:
            return PolicyDecision.allow()
        why = "; ".join(checked.objections) + ("" if context.request else f"; {NO_REQUEST}")
        return objection(tool, why, self.otherwise, "like this")

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember the values of the call and of its result, and those that a person approved."""
        checked = self._checked.pop(context.session, None)
        checked = checked or self._look_at(tool, params, context)
        fields, items = checked.ruled.fields, checked.items
        shown = texts_of(values_of_result(tool, result, fields)) if fields else ()
        has_person = is_approved(context)
        given = () if has_person else texts_of(checked.values, is_given=True)
        if not (shown or given or has_person):
            return
        index = self._indexes(context.session.id)
        with index.lock:
            index.follow(items)
            if index.size >= self.most:
                return
            if shown:
                # Their values came first, so this result does not prove them.
                refused = index.refused.among(context.session[ToolInvoked])
                given = (*given, *refused, *self._failed(context))
            given = index.new(given, len(items), trusted=False)
            shown = index.new(shown, len(items), trusted=True)
        approved = {*map(phrase, checked.values), *checked.keys} if has_person else set[str]()
        if given or shown or approved:
            context.session[RememberedValues].append(
                RememberedValues(
                    policy=self.name,
                    at=len(items),
                    arguments=given,
                    trusted=shown,
                    approved=tuple(sorted(approved)),
                )
            )

    def on_failure(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember the values of the call, and of the calls rolled back with it."""
        given = [] if is_approved(context) else [(tool, arguments_of(tool, params))]
        given += _given_within(context)
        found = [value for own, each in given for value in values_in(each, names_declared_by(own))]
        known, index = self._failed(context), self._indexes(context.session.id)
        with index.lock:
            index.follow(context.session[RememberedValues].all())
            if index.size >= self.most:
                return
        if new := [text for text in texts_of(found, is_given=True) if text not in known]:
            state = PolicyState.reserved(context, self.name)
            replace(state, data={FAILED: (*known, *new)}).save(context)

    def _failed(self, context: ToolContext) -> Sequence[str]:
        failed: Sequence[str] = PolicyState.reserved(context, self.name).data.get(FAILED, ())
        return failed

    # --- Values, and where they come from

    def _ruled_of(self, tool: Tool[Any, Any]) -> _Ruled:
        ruled = self._ruled.get(tool)
        if ruled is None:
            rules = [rule for entry in entries_for(tool, self.arguments) for rule in entry.items()]
            fields = {name for names in entries_for(tool, self.trusted) for name in names}
            names = properties_of(tool), names_declared_by(tool)
            ruled = _Ruled(tuple(rules), frozenset(fields), *names)
            self._ruled[tool] = ruled
        return ruled

    @cached_property
    def _ruled(self) -> WeakKeyDictionary[Tool[Any, Any], _Ruled]:
        return WeakKeyDictionary()

    @cached_property
    def _checked(self) -> WeakKeyDictionary[Any, _Checked]:
        return WeakKeyDictionary()

    @cached_property
    def _indexes(self) -> Callable[[str], ValueIndex]:
        @lru_cache(SESSIONS)
        def made(session_id: str) -> ValueIndex:  # noqa: ARG001 - for each session its own
            return ValueIndex(self.name)

        return made

    @cached_property
    def _allowed(self) -> re.Pattern[str] | None:
        found: list[str] = []
        for pattern in self.allow:
            *parts, last = [re.escape(part) for part in plain(pattern).split("*")]
            rest = r"[^\s<>\"]*" if pattern.endswith("/*") else _NAME
            found.append(_NAME.join(parts) + rest + last if parts else last)
        return re.compile("|".join(found)) if found else None

    def _look_at(self, tool: Tool[Any, Any], params: Any, context: ToolContext) -> _Checked:
        arguments, ruled = arguments_of(tool, params), self._ruled_of(tool)
        items: Sequence[RememberedValues] = context.session[RememberedValues].all()
        values = values_in(arguments, ruled.declared)
        # To be proven: the argument, how, the phrase, and the phrase as shown.
        found: list[tuple[str, Comparison, str, str]] = []
        rules, properties = [*ruled.rules], ruled.properties
        for name in arguments:
            if name not in properties:
                rules.append((name, "value"))  # noqa: PERF401 - so that its type is known
        for argument, how in rules:
            given = arguments.get(argument)
            if given is None or is_default(properties, argument, given):
                continue
            for value in values_in(given, ruled.declared):
                for own, shown in _phrases_of(value, how):
                    found.append((argument, how, own, shown))
        if not found:
            return _Checked(ruled, items, values)
        index = self._indexes(context.session.id)
        request = index_of(tuple([turn.text for turn in context.request]))
        with index.lock:
            index.follow(items)
            objections = [
                f"{shown[:SHOWN]!r} in {argument} comes from neither the user nor a trusted source"
                for argument, how, own, shown in found
                if not self._is_proven(own, how, request, index, len(items))
            ]
        keys = [_key(own, how) for _, how, own, _ in found]
        return _Checked(ruled, items, values, keys, list(dict.fromkeys(objections)))

    def _is_proven(
        self, own: str, how: Comparison, request: PhraseIndex, index: ValueIndex, items: int
    ) -> bool:
        if self._allowed is not None and self._allowed.fullmatch(own):
            return True
        is_word = how == "words"
        if (request.first_word(own) if is_word else request.first(own)) is not None:
            return True
        if how == "request":
            return False
        return index.is_approved(_key(own, how), items) or index.is_shown(
            own, items, is_word=is_word
        )


def _phrases_of(value: Value, how: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the parts of a value to prove, each as its key and as shown."""
    text = plain(value)
    if how in {"links", "words"}:
        found = links(str(value)) if how == "links" else words(text)
        yield from zip(found, found, strict=True)
    elif text and (how == "request" or len(text) >= SHORTEST):
        # The same key as `phrase` makes.
        yield text if isinstance(value, str) else f"={text}", str(value)


def _key(own: str, how: Comparison) -> str:
    # A word that was approved within a text is not approved as a value.
    return f"~{own}" if how == "words" else own


def _given_within(context: ToolContext) -> Iterator[tuple[Tool[Any, Any], Mapping[str, Any]]]:
    """Yield the tools and arguments of the calls within a call, at any depth."""
    made = {context.tool_call.id} if context.tool_call is not None else set[str]()
    # A call ends after those within it, so the newest events come first.
    for event in reversed(context.session[ToolInvoked].all()):
        if event.parent_id in made and event.tool is not None and event.params is not None:
            made.add(event.call_id)
            yield event.tool, arguments_of(event.tool, event.params)


def _without_text(
    pattern: str, arguments: Mapping[str, Comparison], tools: Sequence[Tool[Any, Any]]
) -> list[str]:
    declared = [properties_of(tool) for tool in tools]
    schemas = {name: [own[name] for own in declared if name in own] for name in arguments}
    found: list[str] = []
    for name, comparison in arguments.items():
        is_text = comparison in {"links", "words"}
        types = {_type_of(schema) for schema in schemas[name]}
        if types and types <= (_PLAIN if is_text else _PLAIN - _NUMBERS):
            wanted = "a text" if is_text else "a text or a number"
            told = f"compares {name!r} of {pattern!r} by {comparison!r}, and it is never {wanted}"
            found.append(told)
    return found


def _type_of(schema: Any) -> str | None:
    found = cast("Mapping[str, Any]", schema).get("type") if isinstance(schema, Mapping) else None
    return found if isinstance(found, str) else None


# --- Where values may not go


@dataclass(frozen=True, kw_only=True)
class ConfidentialPolicy:
    """Keeps the values of named sources out of named places.

    An argument holds a value if it has it as a whole, in any case and grouping. Of a longer value,
    eight words in a row are enough. Values under three characters do not count.

    Args:
        sources: From a tool, also as a glob, to the fields of its results that are confidential,
            at any depth; `*` stands for all of the result.
        places: From a tool, also as a glob, to the arguments that may not hold such a value; `*`
            stands for all arguments.
        otherwise: The decision on a call that holds one: a person decides (`ask`), or the call is
            denied (`deny`).
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When it names no source or no place, or a field has another type.
    """

    sources: Mapping[str, tuple[str, ...]]
    places: Mapping[str, tuple[str, ...]]
    otherwise: Otherwise = "ask"
    name: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_none(self, "sources", "places")

    @property
    def selector(self) -> ToolSelector:
        """The governed tools."""
        return ToolSelector(tools=frozenset(self.sources) | frozenset(self.places))

    def misfits(
        self, tools: Sequence[Tool[Any, Any]], may_come: Callable[[str], bool]
    ) -> list[str]:
        """Return the named fields and arguments that none of the tools has."""
        found = unknown_names("places", self.places, tools, names_declared_by)
        return found + unknown_names("sources", self.sources, tools, names_of_result)

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Decide by the arguments that hold a confidential value."""
        places = {name for names in entries_for(tool, self.places) for name in names}
        known = self._known(context) if places else []
        arguments: Mapping[str, Any] = arguments_of(tool, params) if known else {}
        holding = [
            name
            for name, given in arguments.items()
            if not places.isdisjoint((name, WHOLE)) and _holds(given, known)
        ]
        if not holding:
            return PolicyDecision.allow()
        why = f"a confidential value stands in {', '.join(holding)}"
        return objection(tool, why, self.otherwise, "like this")

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember the values of a source."""
        fields = {name for names in entries_for(tool, self.sources) for name in names}
        found = values_of_result(tool, result, fields, is_all=True) if fields else ()
        texts = dict.fromkeys(text for text in map(_spelt, found) if len(text) >= SHORTEST)
        if new := tuple(texts.keys() - self._known(context)):
            item = RememberedValues(policy=self.name, at=0, trusted=new)
            context.session[RememberedValues].append(item)

    def _known(self, context: ToolContext) -> list[str]:
        items = context.session[RememberedValues].all()
        return [text for item in items if item.policy == self.name for text in item.trusted]


def _holds(argument: object, known: Sequence[str]) -> bool:
    text = " ".join(map(_spelt, values_in(argument, ())))
    said, joined = text.split(), text.replace(" ", "")
    runs = {" ".join(said[at : at + LONGEST]) for at in range(len(said) - LONGEST + 1)}
    return any(
        f" {value} " in f" {text} "
        # An account number may be grouped otherwise; a short value is part of many words.
        or (len(bare := value.replace(" ", "")) >= LONGEST and bare in joined)
        or any(f" {run} " in f" {value} " for run in runs)
        for value in known
    )


def _spelt(value: object) -> str:
    return " ".join(words_of(decoded(plain(str(value)))))


# --- The words of the request


@dataclass(frozen=True, kw_only=True)
class AskedForPolicy(Stateless):
    """Lets tools be called if a turn of the request mentions their purpose.

    Args:
        words: From a tool, also as a glob, to a pattern of RE2. It is searched for in each turn,
            in letters of either case, with white space as single spaces.
        otherwise: The decision if no turn has it, or without a request: a person decides (`ask`),
            or the call is denied (`deny`).
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When a pattern is not one of RE2, or matches any text.

    Example:
        >>> AskedForPolicy(words={"send_email": "send|e-?mail .* to"}, otherwise="deny").name
        ''
    """

    wants_params: ClassVar = False

    words: Mapping[str, str]
    otherwise: Otherwise = "ask"
    name: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_none(self, "words")
        for tool, pattern in self._patterns.items():
            if pattern.search(""):
                raise DefinitionError(
                    f"AskedForPolicy: words: the pattern of {tool!r} matches any text, so "
                    "the policy would allow everything; write words that the user must say."
                )

    @cached_property
    def _patterns(self) -> Mapping[str, Any]:
        made: dict[str, Any] = {}
        for tool, pattern in self.words.items():
            try:
                made[tool] = bounded(f"(?i){pattern}")
            except ValueError as error:
                raise DefinitionError(
                    f"AskedForPolicy: words: the pattern of {tool!r} is not one of RE2: {error}. "
                    "Correct it; look-around and back-references are not known there."
                ) from None
        return made

    @property
    def selector(self) -> ToolSelector:
        """The governed tools."""
        return ToolSelector(tools=frozenset(self.words))

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Allow if a turn has the words of the tool."""
        patterns = entries_for(tool, self._patterns)
        turns = (unicodedata.normalize("NFC", turn.text) for turn in context.request)
        texts = [" ".join(text.split()) for text in turns]
        if any(pattern.search(text) for pattern in patterns for text in texts):
            return PolicyDecision.allow()
        why = "the request does not ask for it" if texts else NO_REQUEST
        return objection(tool, why, self.otherwise, "here")

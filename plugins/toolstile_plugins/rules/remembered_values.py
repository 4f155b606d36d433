"""The values that a policy on provenance remembers of a session, and an index of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic_core import from_json, to_json

from toolstile_hookspecs import SliceView, ToolInvoked, masked
from toolstile_hookspecs.stored_names import stored_as
from toolstile_plugins.policies.path_arguments import names_declared_by
from toolstile_plugins.rules.phrases import LONGEST, PhraseIndex
from toolstile_plugins.rules.values import Value, texts_of, values_in


@stored_as("rules.RememberedValues", of_policy=True)
@dataclass(frozen=True, slots=True)
class RememberedValues:
    """The values of one call that one policy remembers, as plain texts.

    Args:
        policy: The name of the policy.
        at: The number of items that there were when the call was checked.
        arguments: The texts in its arguments, unless a person has approved them, and those of
            calls that had failed, or were refused, when it showed something.
        trusted: The texts in trusted fields of its result.
        approved: The phrases that a person has approved with the call.
    """

    policy: str
    at: int
    arguments: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    approved: tuple[str, ...] = ()


class ValueIndex:
    """Finds values among those that a policy remembers of a session.

    It is made of the items alone, and goes back where they do: as a call is rolled back.

    Attributes:
        lock: Held by those who use it.
        refused: The values of calls that never ran.
        size: The number of words in it.
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
        """Index what was remembered since; what earlier items said may be there as well."""
        shared = min(len(items), len(self._items))
        if shared and items[shared - 1] is not self._items[shared - 1]:
            self._begin()
        for place in range(len(self._items), len(items)):
            self._add(place, items[place])

    def _add(self, place: int, item: RememberedValues) -> None:
        self._items.append(item)
        if item.policy != self._policy:
            return
        for text in item.arguments:
            self._arguments.add(item.at, text)
        for text in item.trusted:
            self._trusted.add(place, text)
        for phrase in item.approved:
            self._approved.setdefault(phrase, place)
        texts = (*item.arguments, *item.trusted, *item.approved)
        self.size += sum(text.count(" ") + 1 for text in texts)

    def new(self, texts: Iterable[str], among: int, *, trusted: bool) -> tuple[str, ...]:
        """Return those texts that none of so many items has as trusted, or as arguments."""
        if len(self._items) != among:
            # It may have some of a call that is rolled back by now.
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
            # Within longer texts it is not looked for.
            given = self._arguments.within(phrase)
        return given is None or given > shown


class RefusedValues:
    """The texts that the refused calls of a session gave: denied ones, and those that did not fit.

    They are read from the session's log of calls, so a call that is refused costs nothing more.
    """

    def __init__(self) -> None:
        self._newest: ToolInvoked | None = None
        self._texts: dict[str, None] = {}

    def among(self, calls: SliceView[ToolInvoked]) -> Iterable[str]:
        """Return the texts, those of calls that ended since the last time at the end."""
        known, newest = self._newest, None
        for event in reversed(calls.all()):
            newest = newest or event
            if event is known:
                break
            # Of one that was rolled back a policy hears as it fails.
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
        # No JSON, but the model wrote it.
        values = given if isinstance(given, str) else given.decode(errors="replace")
    if event.tool is None:
        return values_in(values, ())
    values = masked(values, event.tool.params_codec.secret_schema())
    return values_in(values, names_declared_by(event.tool))

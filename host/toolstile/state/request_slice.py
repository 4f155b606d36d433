"""The slice of the request, which only the executor writes and no read set holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from toolstile.state.persistent_list import Items, SliceReader
from toolstile.state.store import Store
from toolstile_hookspecs import Clock, ConfigurationError, Principal, RequestTurn, hide, secrets_in
from toolstile_hookspecs.codecs import type_name
from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.execution.principal import RequestTexts
from toolstile_hookspecs.sessions import Append

_KEYS: Final = frozenset({RequestTurn, type_name(RequestTurn)})


def is_request(slice_key: object) -> bool:
    """Tell whether a slice is the request's, even while it is JSON under its name."""
    return slice_key in _KEYS


def differ_besides_request(before: Mapping[Any, Items], now: Mapping[Any, Items]) -> bool:
    """Tell whether slices differ in anything but the request, which no call's outcome stands on."""
    keys = {*before, *now}
    return any(before.get(key) is not now.get(key) for key in keys if not is_request(key))


class RequestSlice(SliceReader):
    """The turns of the request, to be read; `items` returns them without counting as a read."""

    __slots__ = ("_read",)

    def __init__(self, items: Callable[[], Items]) -> None:
        self._read = items

    def _items(self) -> Items:
        return self._read()

    def _refuse(self, *given: object, **options: object) -> NoReturn:  # noqa: ARG002 - any write
        raise StateError(
            "The request is what the user said, so tools and plugins only read it. The application "
            "gives it: host.executor(request=...), or tools.request(...) for a later turn."
        )

    append = replace = seed = clear = register = _refuse


def turns_of(
    said: RequestTexts, principal: Principal | None, clock: Clock
) -> tuple[RequestTurn, ...]:
    """Return texts as turns, said by the principal now, without the credentials in them.

    Raises `ConfigurationError` for anything but a text or a turn.
    """
    given: Any = said
    is_one = isinstance(given, (str, bytes)) or not isinstance(given, Iterable)
    several: list[Any] = [given] if is_one else [*given]
    secrets = tuple(secrets_in(principal and principal.auth))
    return tuple(_turn(each, principal, clock, secrets) for each in several)


def _turn(
    said: Any, principal: Principal | None, clock: Clock, secrets: Iterable[str]
) -> RequestTurn:
    if isinstance(said, RequestTurn):
        return RequestTurn(hide(said.text, secrets), said.at, said.user_id, said.source)
    if not isinstance(said, str):
        what = type(said).__qualname__
        raise ConfigurationError(f"A request is a text, a RequestTurn or several, not a {what}.")
    who = () if principal is None else (principal.id, principal.source)
    return RequestTurn(hide(said, secrets), clock.now(), *who)


def add_turns(store: Store, turns: Sequence[RequestTurn]) -> None:
    """Add turns to the request of a session."""
    store.write(RequestTurn, lambda _, added: Append(added), turns)

"""People who are asked beside an inbox: the question is kept there, and the first answer counts."""

from __future__ import annotations

import getpass
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from toolstile_hookspecs import ApprovalAnswer, ApprovalRequest, Principal
from toolstile_plugins.approval.grants import Terms


class KeptQuestion(Protocol):
    """A question of an inbox about which one person is asked beside it."""

    @property
    def request(self) -> ApprovalRequest:
        """The request; its `withdrawn` is cancelled once no call waits for this person."""
        ...

    def answer(self, given: ApprovalAnswer, terms: Terms | None = None) -> str:
        """Keep the person's answer, or a grant by terms; return why the answer does not count."""
        ...

    def end(self) -> str:
        """Return who answered first, or why the question is closed; "" while the question waits."""
        ...

    def proof(self) -> str:
        """Return the proof that this was asked, which comes back with a later answer."""
        ...


@dataclass(frozen=True, slots=True)
class Reached:
    """A person who can be asked at this moment.

    Args:
        by: The person.
        ask: Asks them, until they have answered, or leave the question to others.
        ends_call: Whether the answer comes once the call has ended; asking returns at once.
    """

    by: Principal
    ask: Callable[[KeptQuestion], Awaitable[None]]
    ends_call: bool = False


class Way(Protocol):
    """A way to ask a person."""

    def reach(self) -> Reached | None:
        """Return the person whom a call can reach now, or None."""
        ...


@runtime_checkable
class AtTerminal(Way, Protocol):
    """The terminal of this process, as a resource."""


@runtime_checkable
class AtClient(Way, Protocol):
    """The MCP client whose request is being answered, as a resource."""


WAYS: Final[Mapping[str, type[Way]]] = {
    "terminal": AtTerminal,  # type: ignore[type-abstract]
    "mcp": AtClient,  # type: ignore[type-abstract]
}
"""The ways by the names that settings and answers have for them."""


def person() -> Principal:
    """Return the user of this process, with the groups that the system gives them."""
    import grp  # absent on some systems, whose users then have no groups

    names: list[str] = []
    for number in os.getgroups():
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            names.append(str(number))
    return Principal("os", getpass.getuser(), groups=names)

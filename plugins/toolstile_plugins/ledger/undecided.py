"""Effects that are decided while what they changed is not committed yet, and who may know them.

What a nested call changed is on the branch of its caller until the top-level call commits. A hit
before that would tell of what may still be put back, or let a session have it twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolstile_hookspecs import ToolContext
from toolstile_hookspecs.services.ledger import EffectState, LedgerEntry, RecordedResult
from toolstile_hookspecs.services.replay import without_effects
from toolstile_plugins.ledger.keys import printable_session


@dataclass(slots=True)
class Uncommitted:
    """An effect of this process whose changes are on a branch.

    Args:
        result: What its call came to.
        holder: The call around it whose branch has the changes; None for a top-level call,
            whose changes are on its own, and for what is being put back.
        contained: Whether it counts as not having happened if that call is rolled back.
    """

    result: RecordedResult
    holder: ToolContext | None
    contained: bool


_by_effect: dict[str, Uncommitted] = {}


def note(effect_id: str, noted: Uncommitted) -> Uncommitted:
    """Keep others from an effect until `forget`."""
    _by_effect[effect_id] = noted
    return noted


def forget(effect_id: str) -> None:
    """Let everybody know an effect, or nobody: it is committed or put back."""
    _by_effect.pop(effect_id, None)


def as_seen_by(context: ToolContext, entry: LedgerEntry) -> LedgerEntry:
    """Return what a call may know of an entry: done where it sees the changes, else under way."""
    uncommitted = _by_effect.get(entry.claim.effect_id)
    if uncommitted is None:
        return entry
    if _is_within(uncommitted.holder, context):
        return entry._replace(state=EffectState.DONE, result=uncommitted.result)
    result, session_id = uncommitted.result, printable_session(context.session.id)
    if not changes_something(result) or entry.claim.session_id != session_id:
        return entry
    return entry._replace(state=EffectState.CLAIMED, result=None)


def certain(result: RecordedResult) -> RecordedResult:
    """Return a result without the changes of calls within that may still be put back."""
    if result.changes is None:
        return result
    return result._replace(changes=without_effects(result.changes, _may_be_put_back))


def changes_something(result: RecordedResult) -> bool:
    """Tell whether an effect is one on its session, too."""
    return result.changes is not None or result.unportable is not None


def _may_be_put_back(effect_id: str) -> bool:
    noted = _by_effect.get(effect_id)
    return noted is not None and noted.contained


def _is_within(holder: ToolContext | None, context: ToolContext) -> bool:
    caller = context.parent
    while caller is not None:
        if caller is holder:
            return True
        caller = caller.parent
    return False

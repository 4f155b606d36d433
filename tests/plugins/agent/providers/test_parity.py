"""One conversation leaves the same state, events and result over every adapter and a script.

Arguments that broke off are compared as such: APIs keep more or less of them.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

import pytest
from tests.plugins.agent.providers.played_server import Scripted, called, said
from tests.plugins.agent.providers.providers import NAMES, PROVIDERS
from tests.plugins.agent.providers.test_scenarios import COUNTING, WAYS, Story, Teller

from toolstile.testing import ScriptedModel
from toolstile_hookspecs.agents.messages import StopReason, Turn
from toolstile_hookspecs.agents.provider import FaultType, ProviderError
from toolstile_hookspecs.testing.provider_adapter import calls_of
from toolstile_plugins.agent import effects as requesting

pytestmark = pytest.mark.slow
LATER = ProviderError("Later.", FaultType.RATE_LIMIT, retry_after=0.01)
NOTED = called(("note", {"text": "a"}), ("note", {"text": "fail"}), text="I note both.")
CONVERSATIONS: dict[str, list[Scripted]] = {
    "answered": [
        NOTED,
        LATER,
        called(("send", {"to": "Ada"})),
        called(("nota", {"text": "b"}), ("note", {"text": "crash"})),
        said(""),
        said('{"notes": "many"}'),
        said('{"notes": 1}'),
    ],
    "cut off": [NOTED, called(("note", '{"text": "b'), text="I", stop=StopReason.MAX_TOKENS)],
    "refused": [NOTED, said("I cannot help with that.", StopReason.REFUSED)],
    "failed": [NOTED, ProviderError("No more.", FaultType.QUOTA)],
}


@dataclass(frozen=True)
class Script:
    """Stands for a provider; nothing is sent."""

    def serve(self, stack: ExitStack, *script: Scripted, **_: Any) -> tuple[Any, Any]:
        answers: list[Any] = [
            _with_ids(entry, number) if isinstance(entry, Turn) else entry
            for number, entry in enumerate(script)
        ]
        return _OpenScript(*answers), None


class _OpenScript(ScriptedModel):
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _with_ids(turn: Turn, number: int) -> Turn:
    calls = tuple(
        replace(call, id=f"call_{number}{index}") for index, call in enumerate(turn.message.calls)
    )
    return replace(turn, message=replace(turn.message, calls=calls))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requesting, "FIRST_WAIT", 0.001)


def told(provider: Any, way: tuple[bool, bool], script: list[Scripted]) -> dict[str, Any]:
    """Return all of a conversation that no provider may change."""
    with ExitStack() as stack:
        story = Teller(provider, *way, stack).tell(*script, prompt=COUNTING)
    return {
        "conversation": [
            (role, text, [(name, _given(given)) for name, given in calls], answers)
            for role, text, calls, answers in story.conversation
        ],
        "notes": story.notes,
        "events": _ordered(story.events),
        "heard": story.text_heard,
        "calls heard": [call[1:] for call in calls_of(story.heard)],
        **_result(story),
    }


def _given(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return "broken off"


def _ordered(events: list[str]) -> list[str]:
    """Return events, with those of calls that run at the same time in one order."""
    ordered: list[str] = []
    batch: list[str] = []
    for event in [*events, ""]:
        if event and event.split()[0] not in {"rendered", "replied", "executed"}:
            batch.append(event)
            continue
        ordered += [*sorted(batch), event]
        batch = []
    return ordered


def _result(story: Story) -> dict[str, Any]:
    names = ("text", "output", "turns", "usage", "stop_reason", "success")
    return {name: getattr(story.result, name) for name in names}


@pytest.mark.parametrize("way", WAYS, ids=["sync", "sync-streamed", "async", "async-streamed"])
@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("provider", NAMES)
def test_a_conversation_is_the_same_as_that_of_a_script(
    provider: str, name: str, way: tuple[bool, bool]
):
    script = CONVERSATIONS[name]
    assert told(PROVIDERS[provider], way, script) == told(Script(), way, script)


def test_the_conversations_end_in_all_ways():
    ends = {name: told(Script(), (False, False), script) for name, script in CONVERSATIONS.items()}

    assert {name: end["stop_reason"] for name, end in ends.items()} == {
        "answered": StopReason.END,
        "cut off": StopReason.MAX_TOKENS,
        "refused": StopReason.REFUSED,
        "failed": StopReason.ERROR,
    }
    assert ends["cut off"]["conversation"][3][2] == [("note", "broken off")]
    assert all(end["notes"] == ["a"] for end in ends.values())
    assert len(ends["answered"]["conversation"]) == 11

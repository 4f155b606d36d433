"""An adapter of somebody else: one class over an API of its own, and one entry point."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.plugins.agent.providers.played_server import serving

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.agents.messages import CallMade, Message, Role, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import (
    CallDelta,
    FaultType,
    Listener,
    ModelRequest,
    ProviderError,
)
from toolstile_hookspecs.testing import ProviderAdapterContract
from toolstile_hookspecs.testing.providers import STATUS, Json
from toolstile_plugins.agent.providers import adapter_named


class TheirAdapter:
    """Asks a model by the standard library alone."""

    name = "their-provider"

    def __init__(self, model: str, *, url: str = "http://localhost") -> None:
        self.model = model
        self._url = url

    def send(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        if unknown := sorted(request.settings.keys() - {"temperature"}):
            raise ConfigurationError(f"{self.name} does not take {unknown[0]}.")
        turn = self._read(self._post(request))
        if listen is not None:
            listen(turn.text)
            for call in turn.tool_calls:
                listen(CallDelta(call.id, call.name, call.arguments))
        return turn

    async def asend(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        return await asyncio.to_thread(self.send, request, listen)

    def close(self) -> None:
        """Close nothing: no connection is kept."""

    async def aclose(self) -> None:
        """Close nothing."""

    def _post(self, request: ModelRequest) -> Json:
        body = {
            "system": request.system,
            "said": [
                {
                    "by": message.role.value,
                    "text": message.text,
                    "calls": [call.id for call in message.calls],
                    "answers": {each.call_id: each.text for each in message.answers},
                }
                for message in request.messages
            ],
            "tools": [tool.name for tool in request.tools],
        }
        sent = Request(f"{self._url}/ask", json.dumps(body).encode())
        try:
            with urlopen(sent, timeout=request.timeout) as answer:
                read: Json = json.load(answer)
                return read
        except HTTPError as error:
            with error:
                told = json.load(error)
            wait = error.headers["retry-after"]
            raise ProviderError(
                told["text"], FaultType(told["fault"]), retry_after=wait and float(wait)
            ) from error

    def _read(self, reply: Json) -> Turn:
        calls = tuple(CallMade(*call) for call in reply["calls"])
        message = Message(Role.ASSISTANT, reply["text"], calls)
        return Turn(message, StopReason(reply["stop"]), Usage(*reply["tokens"]), self.model)


class TheirWire:
    """Their API."""

    path = "/ask"

    def __init__(self) -> None:
        self.slips: dict[str, Callable[[Json], None]] = {}

    def fault(self, body: Json, sent: Sequence[Json]) -> str | None:
        made = [call for message in body["said"] for call in message["calls"]]
        answered = [call for message in body["said"] for call in message["answers"]]
        return None if sorted(made) == sorted(answered) else "Each call needs a result."

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        assert turn.usage is not None
        return {
            "text": turn.text,
            "calls": [
                [f"c{number}-{index}", call.name, call.arguments]
                for index, call in enumerate(turn.tool_calls)
            ],
            "stop": turn.stop_reason.value,
            "tokens": [turn.usage.input_tokens, turn.usage.output_tokens],
        }

    def events(self, reply: Json, body: Json) -> list[Any]:
        raise NotImplementedError

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        return STATUS[fault.type], {"text": str(fault), "fault": fault.type.value}


class TestTheirAdapter(ProviderAdapterContract):
    @pytest.fixture
    def play(self) -> Iterator[Callable[..., Any]]:
        with ExitStack() as stack:
            yield lambda *script: TheirAdapter(
                "theirs", url=stack.enter_context(serving(TheirWire(), *script)).url
            )


def test_an_installed_adapter_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "their_provider.py").write_text(
        "class Adapter:\n"
        "    def __init__(self, model, **options):\n"
        "        self.model, self.options = model, options\n"
    )
    metadata = tmp_path / "their_provider-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: their-provider\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(
        "[toolstile.adapters]\ntheirs = their_provider:Adapter\nbroken = their_provider:Missing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    adapter: Any = adapter_named("theirs:some-model", url="http://localhost")

    assert (adapter.model, adapter.options) == ("some-model", {"url": "http://localhost"})
    with pytest.raises(ConfigurationError, match="'broken' cannot be imported"):
        adapter_named("broken:some-model")
    sys.modules.pop("their_provider")

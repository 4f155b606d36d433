"""The provider's side: one request to a model, and one reply."""

# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from toolstile_hookspecs.agents.messages import Message, Turn, Usage, sendable
from toolstile_hookspecs.codecs import encodable
from toolstile_hookspecs.errors import PromptEvaluationError
from toolstile_hookspecs.tools import Tool


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a call in a stream; a call runs only once its reply is whole.

    Args:
        id: The provider's id of the call, the `provider_id` of the call once it is made.
        name: The tool, as the model named it.
        arguments: The next piece of its arguments, as JSON text.
    """

    id: str
    name: str
    arguments: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """A piece of the thoughts before an answer; they are no part of its text.

    Args:
        text: The next piece.
    """

    text: str


Delta = str | CallDelta | ThoughtDelta
"""A piece of a reply in a stream: of its text, of a call, or of thoughts."""
Listener = Callable[[Delta], object]
"""Called with each piece as it arrives."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model.

    Args:
        system: The rendered prompt.
        messages: The conversation, oldest first, in the form of `sendable`: an adapter puts the
            calls as they stand there into the provider's own items.
        tools: The tools that the model may call.
        output: The JSON Schema of the answer, None where any text will do.
        settings: The settings of the model that were given, such as `temperature`.
        timeout: Seconds until the request times out, None for the client's default.
    """

    system: str
    messages: Sequence[Message]
    tools: Sequence[Tool[Any, Any]] = ()
    output: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    timeout: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "system", encodable(self.system))
        object.__setattr__(self, "messages", sendable(self.messages))


class FaultType(StrEnum):
    """The type of a fault of a provider."""

    RATE_LIMIT = "rate_limit"
    """Too many requests; a later one may succeed."""
    QUOTA = "quota"
    """The account may spend no more."""
    TIMEOUT = "timeout"
    """The provider did not answer in time."""
    UNAVAILABLE = "unavailable"
    """The provider failed, or could not be reached."""
    REFUSED = "refused"
    """The provider does not take the request."""


class ProviderError(PromptEvaluationError):
    """A provider could not, or would not, answer; its own exception is the cause.

    Args:
        message: The text for a person.
        type_: The type of the fault.
        retry_after: Seconds after which the provider wants to be asked again.
        usage: The tokens that the request has taken all the same, where the provider tells them.
    """

    def __init__(
        self,
        message: str,
        type_: FaultType = FaultType.UNAVAILABLE,
        *,
        retry_after: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.type = type_
        self.retry_after = retry_after
        self.usage = usage

    @property
    def retry_safe(self) -> bool:
        """True when the same request may succeed later."""
        return self.type not in {FaultType.QUOTA, FaultType.REFUSED}


class ThrottleError(ProviderError):
    """A provider did not answer, however often it was asked; its last fault is the cause.

    Args:
        message: The text for a person.
        type_: The type of the last fault.
        retry_after: Seconds after which the provider wants to be asked again.
        attempts: The number of requests.
    """

    def __init__(
        self,
        message: str,
        type_: FaultType = FaultType.UNAVAILABLE,
        *,
        retry_after: float | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(message, type_, retry_after=retry_after)
        self.attempts = attempts


class ProviderAdapter(Protocol):
    """Sends requests to one provider, reads its replies and classifies its errors.

    It neither retries nor keeps anything between two requests, and is safe across threads.
    """

    @property
    def name(self) -> str:
        """The name of the provider, as OpenTelemetry names it: `openai`, `anthropic`."""

    @property
    def model(self) -> str:
        """The model that is asked."""

    def send(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        """Send one request and read its reply, streamed with a listener.

        Raises:
            ProviderError: For every fault of the provider.
            ConfigurationError: For a setting that it does not take.
        """

    async def asend(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        """Send one request; see `send`."""

    def close(self) -> None:
        """Close the client, if the adapter has made it."""

    async def aclose(self) -> None:
        """Close the client, that of the running event loop as well."""

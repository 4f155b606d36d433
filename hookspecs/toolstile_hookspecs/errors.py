"""The errors that the contract raises on purpose. All derive from `ToolstileError`.

Messages for people name the thing, the cause and the remedy. Messages for a model name the fault,
its cause and the next step, such as "retry" or "requires human intervention".
"""

from __future__ import annotations


class ToolstileError(Exception):
    """The base of every error that Toolstile raises on purpose.

    Args:
        args: The text, or the arguments of the error's class.
        for_operator: Advice such as a command, for the event and the log; no model reads it.

    Attributes:
        call: The `ToolCall` it came from, where `dispatch_all` returned it in its place.
    """

    call: object = None

    def __init__(self, *args: object, for_operator: str = "") -> None:
        super().__init__(*args)
        self.for_operator = for_operator


class DefinitionError(ToolstileError, ValueError):
    """A tool, section, policy or binding is wrong; raised at its definition."""


class ConfigurationError(ToolstileError, ValueError):
    """The configuration is wrong; names the file, the key and the expected value."""


class PluginError(ToolstileError):
    """A plugin cannot be loaded or registered; names it, the cause and the remedy."""


class PromptValidationError(ToolstileError, ValueError):
    """A prompt's sections do not fit together (a tool or key twice, a missing value)."""


class ToolValidationError(ToolstileError, ValueError):
    """Arguments are refused. The model reads the text unchanged, so name every fault at once."""


class ConditionError(ToolstileError):
    """A condition of `require` or `ensure` does not hold; the text is its description alone."""


class PromptEvaluationError(ToolstileError):
    """The evaluation cannot continue. Leaves `dispatch` after the rollback of the call."""


class DeadlineExceededError(ToolstileError):
    """The deadline has passed. The host turns it into a `PromptEvaluationError`."""


class VisibilityExpansionRequired(ToolstileError):
    """The model asked for sections that are shown as summaries.

    Leaves `dispatch` after the call is rolled back; see `ExecutorHandle.expand`.

    Args:
        section_keys: The keys of the sections to open.
        reason: Why the model wants them, in its words.
    """

    def __init__(self, section_keys: tuple[str, ...], reason: str = "") -> None:
        super().__init__(f"Sections to open: {', '.join(section_keys)}. {reason}".rstrip())
        self.section_keys = section_keys
        self.reason = reason

    def __reduce__(self) -> tuple[type[VisibilityExpansionRequired], tuple[object, ...]]:
        return type(self), (self.section_keys, self.reason)


class Interrupt(ToolstileError):
    """A handler pauses the run, for a person or a graph framework.

    Leaves `dispatch` after the call is rolled back, as do the types in `Host(interrupts=...)`.
    """


class CallClosed(ToolstileError):
    """The call has finished, timed out or been cancelled, so it can change nothing more."""


class CallRefused(ToolstileError):
    """A plugin keeps a call from running or counting; the model reads the text unchanged.

    For `toolstile_snapshot`, `toolstile_execute` and a participant's `prepare`.
    """


class ToolError(ToolstileError):
    """A failed result that a handler raises; the model reads the text unchanged.

    The call counts as without effect, so that a repeated call runs again.
    """


class EffectUnknownError(ToolstileError):
    """A handler cannot tell whether it had its effect; the model reads the text unchanged."""


class ProcessDied(EffectUnknownError):
    """A handler's separate process ended without a result."""


class LedgerError(ToolstileError):
    """The ledger cannot be read or written; the text has the cause and the remedy."""


class StateError(ToolstileError):
    """A session, slice or reducer was used wrongly."""


class DecisionUnknownError(StateError):
    """It is unknown whether a call was kept: the answer of its session's store was lost."""


class ConflictError(StateError):
    """Another call committed a change to data that this call has read or replaced."""


class SnapshotError(StateError):
    """A snapshot cannot be read, or is of a format or version that this session cannot take."""


class ResourceError(ToolstileError):
    """A resource cannot be given to a handler."""


class UnboundResourceError(ResourceError, LookupError):
    """Nothing is bound for the type; the message names the bound types."""


class CircularDependencyError(ResourceError):
    """Bindings depend on one another in a circle; the message names it."""


class ResourceBusyError(ResourceError):
    """An exclusive resource is held by a call that this one cannot wait for."""

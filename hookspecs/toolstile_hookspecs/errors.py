"""Everything the contract raises; `docs/reference/errors.md` draws the tree.

Messages for people name the thing, the cause and the remedy. Messages for a model say what
went wrong, why, and what to do next, such as "retry" or "requires human intervention".
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
    """A tool, section, policy or binding is written wrong; raised where it is written."""


class ConfigurationError(ToolstileError, ValueError):
    """The configuration is wrong; names the file, the key and what was expected."""


class PluginError(ToolstileError):
    """A plugin cannot be loaded or registered; names it, the cause and the remedy."""


class PromptValidationError(ToolstileError, ValueError):
    """A prompt's sections do not fit together (a tool or key twice, a missing value)."""


class ToolValidationError(ToolstileError, ValueError):
    """Arguments are refused. The model reads the text as it is, so name every fault at once."""


class ConditionError(ToolstileError):
    """A condition of `require` or `ensure` does not hold; the text is its description alone."""


class PromptEvaluationError(ToolstileError):
    """The evaluation cannot go on. Leaves `dispatch` after the call is rolled back."""


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
        """Return the arguments that make it again."""
        return type(self), (self.section_keys, self.reason)


class Interrupt(ToolstileError):
    """A handler pauses the run, for a person or a graph framework.

    Leaves `dispatch` after the call is rolled back, as do the types in `Host(interrupts=...)`.
    """


class CallClosed(ToolstileError):
    """The call has finished, timed out or been cancelled, so it can change nothing more."""


class CallRefused(ToolstileError):
    """A plugin keeps a call from running or counting; the model reads the text as it is.

    For `toolstile_snapshot`, `toolstile_execute` and a participant's `prepare`.
    """


class ToolError(ToolstileError):
    """A failed result that a handler raises; the model reads the text as it is.

    As after a failure that the handler returns, the call counts as without effect: a repeated
    call runs again.
    """


class EffectUnknownError(ToolstileError):
    """A handler cannot tell whether it had its effect; the model reads the text as it is."""


class ProcessDied(EffectUnknownError):
    """The process in which a plugin ran the handler ended without a result."""


class LedgerError(ToolstileError):
    """The ledger cannot be read or written. Its text says why and what to do."""


class StateError(ToolstileError):
    """A session, slice or reducer was used wrongly."""


class DecisionUnknownError(StateError):
    """Nobody can tell whether a call was kept: the answer of its session's store was lost."""


class ConflictError(StateError):
    """Another call committed a change to what this call has read or replaced."""


class SnapshotError(StateError):
    """A snapshot cannot be read, or is of a format or version that this session cannot take."""


class ResourceError(ToolstileError):
    """A resource cannot be given to a handler."""


class UnboundResourceError(ResourceError, LookupError):
    """Nothing is bound for the type; the message names what is."""


class CircularDependencyError(ResourceError):
    """Bindings depend on one another in a circle; the message names it."""


class ResourceBusyError(ResourceError):
    """An exclusive resource is held by a call that this one cannot wait for."""

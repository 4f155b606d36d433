"""The contract of Toolyard: the hooks, and the types they speak.

Plugins import this package and nothing else of Toolyard's.
"""

from __future__ import annotations

from toolyard_hookspecs.approval import Answer, ApprovalAnswer, ApprovalRequest, Approver
from toolyard_hookspecs.calls import Outcome, Stage, Status, ToolCall, ToolInvoked
from toolyard_hookspecs.clock import Clock, SystemClock
from toolyard_hookspecs.conditions import ensure, require
from toolyard_hookspecs.context import InflightCall, RunContext, Secret, ToolContext
from toolyard_hookspecs.decorator import FunctionTool, tool
from toolyard_hookspecs.errors import (
    CallClosed,
    CircularDependencyError,
    ConditionError,
    ConfigurationError,
    ConflictError,
    DeadlineExceededError,
    DefinitionError,
    Interrupt,
    PluginError,
    PromptEvaluationError,
    PromptValidationError,
    ResourceBusyError,
    ResourceError,
    SnapshotError,
    StateError,
    ToolValidationError,
    ToolyardError,
    UnboundResourceError,
    VisibilityExpansionRequired,
)
from toolyard_hookspecs.filesystem import FileMatch, FileStat, Filesystem
from toolyard_hookspecs.host import Catalog, Command, Dialect, ExecutorHandle, HostHandle
from toolyard_hookspecs.idempotency import IdempotencyConfig
from toolyard_hookspecs.limits import BudgetTracker, Cancellation, Deadline, Heartbeat
from toolyard_hookspecs.markers import hookimpl, hookspec
from toolyard_hookspecs.participants import Participant, Recovering, Showing
from toolyard_hookspecs.policies import (
    PolicyDecision,
    PolicyState,
    Reserving,
    RollbackAware,
    ToolPolicy,
    Verdict,
)
from toolyard_hookspecs.prompts import Prompt, PromptTemplate, RenderedPrompt, SectionPlace
from toolyard_hookspecs.resources import (
    Binding,
    Branchable,
    CallResources,
    Closeable,
    Exclusive,
    OpenResources,
    PostConstruct,
    ResourceBranch,
    ResourceResolver,
    Scope,
)
from toolyard_hookspecs.results import ToolRenderableResult, ToolResult, render_value
from toolyard_hookspecs.sections import MarkdownSection, OpenedSections, Section, Visibility
from toolyard_hookspecs.sessions import (
    Append,
    Dispatcher,
    Reducer,
    SessionProtocol,
    SessionSnapshot,
    SlicePolicy,
    SliceView,
    append_all,
    replace_latest,
)
from toolyard_hookspecs.tools import HOST_TIMEOUT, Tool, ToolExample

__all__ = [
    "HOST_TIMEOUT",
    "Answer",
    "Append",
    "ApprovalAnswer",
    "ApprovalRequest",
    "Approver",
    "Binding",
    "Branchable",
    "BudgetTracker",
    "CallClosed",
    "CallResources",
    "Cancellation",
    "Catalog",
    "CircularDependencyError",
    "Clock",
    "Closeable",
    "Command",
    "ConditionError",
    "ConfigurationError",
    "ConflictError",
    "Deadline",
    "DeadlineExceededError",
    "DefinitionError",
    "Dialect",
    "Dispatcher",
    "Exclusive",
    "ExecutorHandle",
    "FileMatch",
    "FileStat",
    "Filesystem",
    "FunctionTool",
    "Heartbeat",
    "HostHandle",
    "IdempotencyConfig",
    "InflightCall",
    "Interrupt",
    "MarkdownSection",
    "OpenResources",
    "OpenedSections",
    "Outcome",
    "Participant",
    "PluginError",
    "PolicyDecision",
    "PolicyState",
    "PostConstruct",
    "Prompt",
    "PromptEvaluationError",
    "PromptTemplate",
    "PromptValidationError",
    "Recovering",
    "Reducer",
    "RenderedPrompt",
    "Reserving",
    "ResourceBranch",
    "ResourceBusyError",
    "ResourceError",
    "ResourceResolver",
    "RollbackAware",
    "RunContext",
    "Scope",
    "Secret",
    "Section",
    "SectionPlace",
    "SessionProtocol",
    "SessionSnapshot",
    "Showing",
    "SlicePolicy",
    "SliceView",
    "SnapshotError",
    "Stage",
    "StateError",
    "Status",
    "SystemClock",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolExample",
    "ToolInvoked",
    "ToolPolicy",
    "ToolRenderableResult",
    "ToolResult",
    "ToolValidationError",
    "ToolyardError",
    "UnboundResourceError",
    "Verdict",
    "Visibility",
    "VisibilityExpansionRequired",
    "append_all",
    "ensure",
    "hookimpl",
    "hookspec",
    "render_value",
    "replace_latest",
    "require",
    "tool",
]

"""The contract of Toolstile: the hooks, and the types they speak.

Plugins import this package and nothing else of Toolstile's. `X as X` marks a public name.
"""

from toolstile_hookspecs._schema.secrets import Secret as Secret
from toolstile_hookspecs.approval import (
    Answer as Answer,
    ApprovalAnswer as ApprovalAnswer,
    ApprovalRequest as ApprovalRequest,
    Approver as Approver,
)
from toolstile_hookspecs.calls import (
    APPROVAL as APPROVAL,
    APPROVAL_REASON as APPROVAL_REASON,
    APPROVAL_TICKET as APPROVAL_TICKET,
    APPROVAL_TOKEN as APPROVAL_TOKEN,
    DIFF as DIFF,
    DRY_RUN as DRY_RUN,
    REPLAYED_EFFECT as REPLAYED_EFFECT,
    Outcome as Outcome,
    Stage as Stage,
    Status as Status,
    ToolCall as ToolCall,
    ToolInvoked as ToolInvoked,
)
from toolstile_hookspecs.codecs import (
    Codec as Codec,
    SchemaCodec as SchemaCodec,
    ValueCodec as ValueCodec,
    hide as hide,
    hide_within as hide_within,
    masked as masked,
    secrets_in as secrets_in,
    secrets_of as secrets_of,
)
from toolstile_hookspecs.conditions import ensure as ensure, require as require
from toolstile_hookspecs.content import (
    AudioContent as AudioContent,
    Content as Content,
    Contents as Contents,
    EmbeddedResource as EmbeddedResource,
    ImageContent as ImageContent,
    ResourceLink as ResourceLink,
    TextContent as TextContent,
)
from toolstile_hookspecs.context import (
    InflightCall as InflightCall,
    RunContext as RunContext,
    ToolContext as ToolContext,
)
from toolstile_hookspecs.decorator import FunctionTool as FunctionTool, tool as tool
from toolstile_hookspecs.diagnostics import (
    NOTICE as NOTICE,
    CrossingTrace as CrossingTrace,
    Diagnostic as Diagnostic,
    Severity as Severity,
    StageTrace as StageTrace,
    StatusPart as StatusPart,
    is_notice as is_notice,
)
from toolstile_hookspecs.errors import (
    CallClosed as CallClosed,
    CallRefused as CallRefused,
    CircularDependencyError as CircularDependencyError,
    ConditionError as ConditionError,
    ConfigurationError as ConfigurationError,
    ConflictError as ConflictError,
    DeadlineExceededError as DeadlineExceededError,
    DecisionUnknownError as DecisionUnknownError,
    DefinitionError as DefinitionError,
    EffectUnknownError as EffectUnknownError,
    Interrupt as Interrupt,
    LedgerError as LedgerError,
    PluginError as PluginError,
    ProcessDied as ProcessDied,
    PromptEvaluationError as PromptEvaluationError,
    PromptValidationError as PromptValidationError,
    ResourceBusyError as ResourceBusyError,
    ResourceError as ResourceError,
    SnapshotError as SnapshotError,
    StateError as StateError,
    ToolError as ToolError,
    ToolstileError as ToolstileError,
    ToolValidationError as ToolValidationError,
    UnboundResourceError as UnboundResourceError,
    VisibilityExpansionRequired as VisibilityExpansionRequired,
)
from toolstile_hookspecs.execution.approval_card import (
    ApprovalCard as ApprovalCard,
    CardAnswer as CardAnswer,
    TurnApprover as TurnApprover,
)
from toolstile_hookspecs.execution.children import child_of as child_of
from toolstile_hookspecs.execution.foreign_tools import (
    ForeignCall as ForeignCall,
    ForeignTool as ForeignTool,
)
from toolstile_hookspecs.execution.options import (
    ChildArguments as ChildArguments,
    Durability as Durability,
    ExecutorArguments as ExecutorArguments,
    PolicyStoreLocation as PolicyStoreLocation,
    effect_free as effect_free,
)
from toolstile_hookspecs.execution.principal import (
    Principal as Principal,
    RequestTurn as RequestTurn,
)
from toolstile_hookspecs.execution.prompt_parts import PromptResources as PromptResources
from toolstile_hookspecs.execution.schemas import (
    PromptSchema as PromptSchema,
    ToolSchema as ToolSchema,
)
from toolstile_hookspecs.execution.transaction_end import (
    TransactionEnded as TransactionEnded,
    TransactionFailed as TransactionFailed,
    TransactionStatus as TransactionStatus,
)
from toolstile_hookspecs.execution.undo import (
    Difference as Difference,
    UndoConflict as UndoConflict,
)
from toolstile_hookspecs.handles import (
    Catalog as Catalog,
    Command as Command,
    Dialect as Dialect,
    ExecutorHandle as ExecutorHandle,
    HostHandle as HostHandle,
    TransactionHandle as TransactionHandle,
)
from toolstile_hookspecs.idempotency import (
    IdempotencyConfig as IdempotencyConfig,
    Reconciled as Reconciled,
)
from toolstile_hookspecs.limits import (
    BudgetTracker as BudgetTracker,
    Cancellation as Cancellation,
    Clock as Clock,
    Deadline as Deadline,
    Heartbeat as Heartbeat,
    SystemClock as SystemClock,
)
from toolstile_hookspecs.markers import (
    applies_to as applies_to,
    hookimpl as hookimpl,
    hookspec as hookspec,
)
from toolstile_hookspecs.policies import (
    PersistentPolicy as PersistentPolicy,
    PolicyDecision as PolicyDecision,
    PolicyState as PolicyState,
    SupportsFailure as SupportsFailure,
    SupportsReserve as SupportsReserve,
    SupportsRollback as SupportsRollback,
    ToolPolicy as ToolPolicy,
    Verdict as Verdict,
)
from toolstile_hookspecs.prompts import (
    Prompt as Prompt,
    PromptTemplate as PromptTemplate,
    RenderedPrompt as RenderedPrompt,
    SectionPlace as SectionPlace,
)
from toolstile_hookspecs.resources import (
    Binding as Binding,
    CallResources as CallResources,
    Closeable as Closeable,
    OpenResources as OpenResources,
    PostConstruct as PostConstruct,
    ResourceResolver as ResourceResolver,
    Scope as Scope,
)
from toolstile_hookspecs.results import (
    ToolRenderableResult as ToolRenderableResult,
    ToolResult as ToolResult,
    render_value as render_value,
)
from toolstile_hookspecs.sections import (
    MarkdownSection as MarkdownSection,
    OpenedSections as OpenedSections,
    Section as Section,
    Visibility as Visibility,
)
from toolstile_hookspecs.selectors import ToolSelector as ToolSelector
from toolstile_hookspecs.services.approval_store import (
    QuestionClosedError as QuestionClosedError,
    UnknownQuestionError as UnknownQuestionError,
)
from toolstile_hookspecs.services.filesystem import (
    FileMatch as FileMatch,
    FileStat as FileStat,
    Filesystem as Filesystem,
    SupportsNotes as SupportsNotes,
)
from toolstile_hookspecs.services.replay import (
    CallRecord as CallRecord,
    HandlerState as HandlerState,
    Redoable as Redoable,
    Replay as Replay,
)
from toolstile_hookspecs.services.workspace import SupportsWatch as SupportsWatch
from toolstile_hookspecs.sessions import (
    Append as Append,
    Dispatcher as Dispatcher,
    Reducer as Reducer,
    SessionProtocol as SessionProtocol,
    SessionSnapshot as SessionSnapshot,
    SlicePolicy as SlicePolicy,
    SliceView as SliceView,
    append_all as append_all,
    replace_latest as replace_latest,
)
from toolstile_hookspecs.support.deprecation import (
    CONTRACT_VERSION as CONTRACT_VERSION,
    ContractDeprecationWarning as ContractDeprecationWarning,
)
from toolstile_hookspecs.tools import (
    HOST_TIMEOUT as HOST_TIMEOUT,
    Tool as Tool,
    ToolExample as ToolExample,
    ToolHandler as ToolHandler,
)
from toolstile_hookspecs.transactions import (
    Branchable as Branchable,
    Decider as Decider,
    Exclusive as Exclusive,
    Participant as Participant,
    ResourceBranch as ResourceBranch,
    SupportsDiff as SupportsDiff,
    SupportsJoin as SupportsJoin,
    SupportsPrepare as SupportsPrepare,
    SupportsRecovery as SupportsRecovery,
)

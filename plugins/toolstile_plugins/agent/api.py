# ruff: noqa: PLC0414 - the aliases say that the names are for others
"""The public names of agents."""

from __future__ import annotations

from toolstile_hookspecs import ToolInvoked as ToolInvoked
from toolstile_hookspecs.agents.messages import CallMade as CallMade
from toolstile_hookspecs.agents.provider import CallDelta as CallDelta, ThoughtDelta as ThoughtDelta
from toolstile_plugins.agent.agent import Agent as Agent, MainLoop as MainLoop, Piece as Piece
from toolstile_plugins.agent.budget import (
    Budget as Budget,
    BudgetExceeded as BudgetExceeded,
    Price as Price,
    TokenBudgetTracker as TokenBudgetTracker,
)
from toolstile_plugins.agent.conversation import Compaction as Compaction, DropOldest as DropOldest
from toolstile_plugins.agent.effects import Retries as Retries
from toolstile_plugins.agent.guidance.completion import (
    CompositeChecker as CompositeChecker,
    FileOutputChecker as FileOutputChecker,
    PlanChecker as PlanChecker,
    ToolsCalledChecker as ToolsCalledChecker,
)
from toolstile_plugins.agent.guidance.feedback import (
    BudgetFeedback as BudgetFeedback,
    DeadlineFeedback as DeadlineFeedback,
    NoProgressFeedback as NoProgressFeedback,
    PlanFeedback as PlanFeedback,
    RepeatedFailureFeedback as RepeatedFailureFeedback,
    StaticFeedback as StaticFeedback,
)
from toolstile_plugins.agent.guidance.prompt_guidance import (
    Guidance as Guidance,
    acollect_feedback as acollect_feedback,
    collect_feedback as collect_feedback,
)
from toolstile_plugins.agent.output import OutputError as OutputError
from toolstile_plugins.agent.result import (
    Answers as Answers,
    CompletionChecked as CompletionChecked,
    ModelReplied as ModelReplied,
    Phase as Phase,
    PromptExecuted as PromptExecuted,
    PromptRendered as PromptRendered,
    RunFailed as RunFailed,
    RunResult as RunResult,
    RunState as RunState,
    TicketAnswer as TicketAnswer,
    WaitingCall as WaitingCall,
)
from toolstile_plugins.agent.run import (
    AgentConfig as AgentConfig,
    RequestArguments as RequestArguments,
)

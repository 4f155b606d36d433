"""Agents: a loop over the host that asks a model, carries out its calls and returns its answer.

`Agent(prompt, adapter=..., host=...)` answers texts; `MainLoop` prepares a prompt for each request.
"""

from __future__ import annotations

from toolstile_plugins.agent.agent import Agent as Agent, MainLoop as MainLoop
from toolstile_plugins.agent.attempt import (
    AgentConfig as AgentConfig,
    RequestArguments as RequestArguments,
)
from toolstile_plugins.agent.budget import (
    Budget as Budget,
    BudgetExceeded as BudgetExceeded,
    TokenBudgetTracker as TokenBudgetTracker,
)
from toolstile_plugins.agent.compaction import Compaction as Compaction, DropOldest as DropOldest
from toolstile_plugins.agent.events import (
    ModelReplied as ModelReplied,
    PromptExecuted as PromptExecuted,
    PromptRendered as PromptRendered,
)
from toolstile_plugins.agent.output import OutputError as OutputError
from toolstile_plugins.agent.request import Retries as Retries
from toolstile_plugins.agent.result import (
    Answers as Answers,
    Phase as Phase,
    RunFailed as RunFailed,
    RunResult as RunResult,
    RunState as RunState,
    TicketAnswer as TicketAnswer,
    WaitingCall as WaitingCall,
)
from toolstile_plugins.agent.run import RunOptions as RunOptions

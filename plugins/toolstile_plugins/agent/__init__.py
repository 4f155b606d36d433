"""Agents: a loop over the host that asks a model, carries out its calls and returns its answer.

`Agent(prompt, adapter=..., host=...)` answers texts; `MainLoop` prepares a prompt for each request.
`toolstile ask` asks with the tools of the host. Settings, `[plugins.agent]`: see `AgentSettings`.

Names are loaded when they are first used.
"""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from toolstile_hookspecs import Command, HostHandle, hookimpl
from toolstile_plugins.agent.settings import AgentSettings as AgentSettings, asked_for
from toolstile_plugins.command_options.agent import ASK

if TYPE_CHECKING:
    from toolstile_plugins.agent.agent import Agent as Agent, MainLoop as MainLoop
    from toolstile_plugins.agent.attempt import (
        AgentConfig as AgentConfig,
        RequestArguments as RequestArguments,
    )
    from toolstile_plugins.agent.budget import (
        Budget as Budget,
        BudgetExceeded as BudgetExceeded,
        Price as Price,
        TokenBudgetTracker as TokenBudgetTracker,
    )
    from toolstile_plugins.agent.compaction import (
        Compaction as Compaction,
        DropOldest as DropOldest,
    )
    from toolstile_plugins.agent.events import (
        CompletionChecked as CompletionChecked,
        ModelReplied as ModelReplied,
        PromptExecuted as PromptExecuted,
        PromptRendered as PromptRendered,
    )
    from toolstile_plugins.agent.guidance.completion import (
        CompositeChecker as CompositeChecker,
        FileOutputChecker as FileOutputChecker,
        PlanChecker as PlanChecker,
        ToolsCalledChecker as ToolsCalledChecker,
        acheck_completion as acheck_completion,
        check_completion as check_completion,
    )
    from toolstile_plugins.agent.guidance.feedback import (
        BudgetFeedback as BudgetFeedback,
        DeadlineFeedback as DeadlineFeedback,
        NoProgressFeedback as NoProgressFeedback,
        PlanFeedback as PlanFeedback,
        RepeatedFailureFeedback as RepeatedFailureFeedback,
        StaticFeedback as StaticFeedback,
        acollect_feedback as acollect_feedback,
        collect_feedback as collect_feedback,
    )
    from toolstile_plugins.agent.guidance.prompt_guidance import Guidance as Guidance
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
    from toolstile_plugins.agent.stream import (
        AsyncRunStream as AsyncRunStream,
        RunStream as RunStream,
    )

_NAMES: Final = {
    "agent": ("Agent", "MainLoop"),
    "attempt": ("AgentConfig", "RequestArguments"),
    "budget": ("Budget", "BudgetExceeded", "Price", "TokenBudgetTracker"),
    "compaction": ("Compaction", "DropOldest"),
    "guidance.completion": (
        "CompositeChecker",
        "FileOutputChecker",
        "PlanChecker",
        "ToolsCalledChecker",
        "acheck_completion",
        "check_completion",
    ),
    "events": ("CompletionChecked", "ModelReplied", "PromptExecuted", "PromptRendered"),
    "guidance.feedback": (
        "BudgetFeedback",
        "DeadlineFeedback",
        "NoProgressFeedback",
        "PlanFeedback",
        "RepeatedFailureFeedback",
        "StaticFeedback",
        "acollect_feedback",
        "collect_feedback",
    ),
    "guidance.prompt_guidance": ("Guidance",),
    "output": ("OutputError",),
    "request": ("Retries",),
    "result": (
        "Answers",
        "Phase",
        "RunFailed",
        "RunResult",
        "RunState",
        "TicketAnswer",
        "WaitingCall",
    ),
    "run": ("RunOptions",),
    "stream": ("AsyncRunStream", "RunStream"),
}
"""By module, the names that are loaded from it."""
_HOMES: Final = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return AgentSettings


@hookimpl
def toolstile_commands() -> list[Command]:
    """Offer `toolstile ask`."""
    return [Command(ASK.command, ASK.help, run=_run, configure=ASK.configure, settings=asked_for)]


def _run(host: HostHandle, args: argparse.Namespace) -> int:
    # No other command has to wait for it.
    from toolstile_plugins.agent.ask import ask

    return ask(host, args)

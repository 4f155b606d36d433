"""The options of a host and of its executors, checked where they are given."""

from __future__ import annotations

import dataclasses
from typing import Any

from toolstile.settings import Settings
from toolstile.settings import model as given
from toolstile.state.session import Session
from toolstile_hookspecs import (
    Approver,
    Binding,
    Clock,
    Deadline,
    Heartbeat,
    PolicyStoreLocation,
    Prompt,
    RunContext,
    Secret,
)
from toolstile_hookspecs.handles import Progress
from toolstile_hookspecs.tools import HostDefault


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """The options of an executor beside session and prompt; `Host.executor` explains each."""

    approver: Approver | None = None
    deadline: Deadline | None = None
    user_id: str | None = None
    auth: Secret | None = None
    client: Any = None
    adapter: Any = None
    heartbeat: Heartbeat | None = None
    run_context: RunContext | None = None
    resources: tuple[Binding[Any], ...] = ()
    on_progress: Progress | None = None
    dry_run: bool = False
    clock: Clock | None = None
    kept_apart: PolicyStoreLocation | None = None


def refuse_wrong(
    session: object, session_id: object, prompt: object, options: ExecutorOptions
) -> None:
    """Refuse arguments of `Host.executor` that are not what they should be.

    Raises:
        ConfigurationError: Naming every one of them.
    """
    kinds = (
        ("session", session, Session, "write Session(), or leave it out"),
        ("prompt", prompt, Prompt, "write Prompt.of(...), or leave it out"),
        ("deadline", options.deadline, Deadline, "write Deadline.after(seconds)"),
        ("run_context", options.run_context, RunContext, "write RunContext(...)"),
        ("heartbeat", options.heartbeat, Heartbeat, "write Heartbeat(on_beat)"),
        ("auth", options.auth, Secret, "write Secret(...)"),
        ("dry_run", options.dry_run, bool, "write True or False"),
        (
            "kept_apart",
            options.kept_apart,
            PolicyStoreLocation,
            "write PolicyStoreLocation(folder)",
        ),
    )
    twice = "session and session_id are both given; the session has its id"
    given.refuse(
        "host.executor",
        (
            *(given.kind_fault(*kind) for kind in kinds),
            given.text_fault("session_id", session_id),
            None if session is None or session_id is None else twice,
            given.text_fault("user_id", options.user_id),
            given.approver_fault(options.approver),
            given.callable_fault("on_progress", options.on_progress),
            given.clock_fault("clock", options.clock),
        ),
    )


def refuse_wrong_of_host(  # noqa: PLR0913 - as many as a host takes
    *,
    settings: object,
    plugins: object,
    plugin_files: object,
    policies: object,
    block: object,
    discover: object,
    approver: object,
    clock: object,
    interrupts: object,
    timeout: object,
) -> None:
    """Refuse arguments of `Host` that are not what they should be.

    Raises:
        ConfigurationError: Naming every one of them.
    """
    given.refuse(
        "Host",
        (
            given.kind_fault("settings", settings, Settings, "write Settings(...)"),
            given.several_fault("plugins", plugins),
            given.several_fault("plugin_files", plugin_files),
            given.several_fault("policies", policies),
            given.names_fault("block", block),
            None if isinstance(discover, bool) else given.names_fault("discover", discover),
            given.approver_fault(approver),
            given.clock_fault("clock", clock),
            given.errors_fault("interrupts", interrupts),
            None if isinstance(timeout, HostDefault) else given.seconds_fault("timeout", timeout),
        ),
    )

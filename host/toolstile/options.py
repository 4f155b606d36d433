"""The options of an executor beside session and prompt, checked where they are given."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

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
from toolstile_hookspecs.prompts import as_bindings
from toolstile_hookspecs.support.text import nearest


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """The options of an executor beside session and prompt.

    Args:
        approver: Answers when a policy or a tool asks for a person; else the host's.
        deadline: When the evaluation must have ended.
        user_id: For whom the calls run.
        auth: The user's credentials; masked wherever they could be written.
        client: The application's own client, for handlers.
        adapter: Whatever talks to the provider, for handlers.
        heartbeat: Extends a lease during long work.
        run_context: Ids for correlation.
        resources: Bindings that win over those of plugins and sections.
        on_progress: Hears the progress that handlers report.
        dry_run: Let contained tools run, note what each call would change in its event, as
            `toolstile.diff`, and keep nothing; deny the others. Each call sees what those
            before it would have changed.
        clock: Where its calls take the time from; else the host's.
        kept_apart: Where its policies keep what outlives the session; else as the host says.
    """

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


def options_of(
    session: object, session_id: object, prompt: object, options: Mapping[str, Any]
) -> ExecutorOptions:
    """Return the options of an executor.

    Args:
        session: What was given as its session.
        session_id: What was given as the id of a new one.
        prompt: What was given as its prompt.
        options: All else that was given; `resources` in any form that makes bindings.

    Raises:
        ConfigurationError: Naming every argument that is not what it should be.
        DefinitionError: When the resources make no bindings.
    """
    if "resources" in options:
        options = {**options, "resources": tuple(as_bindings(options["resources"]))}
    given.refuse(
        "host.executor",
        (
            *_unknown(options),
            given.kind_fault("session", session, Session, "write Session(), or leave it out"),
            given.text_fault("session_id", session_id),
            None
            if session is None or session_id is None
            else "session and session_id are both given; the session has its id",
            given.kind_fault("prompt", prompt, Prompt, "write Prompt.of(...), or leave it out"),
            given.kind_fault(
                "deadline", options.get("deadline"), Deadline, "write Deadline.after(seconds)"
            ),
            given.kind_fault(
                "run_context", options.get("run_context"), RunContext, "write RunContext(...)"
            ),
            given.kind_fault(
                "heartbeat", options.get("heartbeat"), Heartbeat, "write Heartbeat(on_beat)"
            ),
            given.text_fault("user_id", options.get("user_id")),
            given.kind_fault("auth", options.get("auth"), Secret, "write Secret(...)"),
            given.approver_fault(options.get("approver")),
            given.callable_fault("on_progress", options.get("on_progress")),
            given.kind_fault("dry_run", options.get("dry_run"), bool, "write True or False"),
            given.clock_fault("clock", options.get("clock")),
            given.kind_fault(
                "kept_apart",
                options.get("kept_apart"),
                PolicyStoreLocation,
                "write PolicyStoreLocation(folder)",
            ),
        ),
    )
    return ExecutorOptions(**options)


def _unknown(options: Mapping[str, Any]) -> Iterator[str]:
    known = ["session", "session_id", "prompt"]
    known += [each.name for each in dataclasses.fields(ExecutorOptions)]
    for name in options:
        if name not in known:
            yield f"there is no option {name}; {_remedy(name, known)}"


def _remedy(name: str, known: list[str]) -> str:
    if name == "tools":
        return "write prompt=Prompt.of(...) with a section of them"
    meant = nearest(name, known)
    return f"write {meant}" if meant else "leave it out"

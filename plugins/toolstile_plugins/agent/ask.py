"""The commands `toolstile ask`, one answer of a model with the host's tools, and `check-done`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Any, Final

from toolstile_hookspecs import (
    ConfigurationError,
    Heartbeat,
    HostHandle,
    StateError,
    ToolInvoked,
    hookimpl,
)
from toolstile_hookspecs.agents.messages import StopReason
from toolstile_hookspecs.agents.provider import Delta, ProviderAdapter, ThoughtDelta
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.agent.agent import Agent
from toolstile_plugins.agent.guidance.prompt_guidance import Guidance
from toolstile_plugins.agent.providers import adapter_named
from toolstile_plugins.agent.result import RunFailed, RunResult
from toolstile_plugins.agent.run import AgentConfig, RequestArguments
from toolstile_plugins.agent.settings import AgentSettings

NAME: Final = "agent-ask"
_NO_MODEL: Final = (
    "No model is named. Give --model PROVIDER:NAME, or name one as model in [plugins.agent]; then "
    "retry."
)
_NO_TEXT: Final = "The request is empty. Write a question or a task, then retry."
_NOT_STORED: Final = (
    "the conversation is not stored, and ends with this command. To keep it, name a file as path "
    "in [plugins.sessions], or a database as url in [plugins.database]."
)
_STOPPED: Final = "the running calls are rolled back, and no request follows."
_PENDING: Final = "a call waits for the answer of a person, who was asked elsewhere: "


def ask(host: HostHandle, args: argparse.Namespace) -> int:
    """Ask the model, show its answer, and return the exit status."""
    settings: AgentSettings = host.settings("agent")
    text = sys.stdin.read() if args.text == "-" else args.text
    if not text.strip():
        raise ConfigurationError(_NO_TEXT)
    screen = Screen(is_quiet=args.out is not None)
    if args.session is not None and _session_store(host) is None:
        screen.say("warning", _NOT_STORED)
    config = AgentConfig(max_turns=settings.max_turns, settings=settings.settings)
    with closing(adapter_of(settings)) as adapter, screen.watching(host):
        agent = Agent[str](host.prompt, adapter=adapter, host=host, config=config)
        given: RequestArguments = {"session_id": args.session, "listen": screen.listen}
        given["heartbeat"] = Heartbeat(screen.end_line)  # beats before and after each reply
        try:
            result = agent.execute(text, **given)[0]
        except RunFailed as error:
            result = error.result or RunResult(error.stop_reason, error=str(error))
    if args.out is None:
        screen.end(result)
    else:
        args.out.write(
            {
                "text": result.text,
                "output": result.output,
                **({} if result.error is None else {"error": result.error}),
                **({"note": result.note} if result.note else {}),
                "usage": asdict(result.usage),
                "turns": result.turns,
                "stop_reason": result.stop_reason.value,
                "session": result.session_id,
                "calls": [{"id": each.call_id, **each.envelope()} for each in screen.events],
            }
        )
    return 0 if result.success else 1


def check_done(host: HostHandle, args: argparse.Namespace) -> int:
    """Ask the checkers of the configuration and of the sections; return the exit status."""
    if args.session is not None:  # an empty session may pass all checks
        store = _session_store(host)
        known = {info.id for info in store.sessions()} if store is not None else set[str]()
        if args.session not in known:
            raise StateError(
                f"No session {printable(args.session)!r} is stored here; list the stored sessions "
                "with `toolstile sessions list`."
            )
    with host.executor(session_id=args.session) as tools:
        verdict = Guidance(tools, host).check_completion(text=args.text)
    if args.out is not None:
        args.out.write({"complete": verdict.complete, "feedback": verdict.feedback})
    elif not verdict.complete:
        sys.stdout.write(f"{printable(verdict.feedback or '')}\n")
    return 0 if verdict.complete else 1


def _session_store(host: HostHandle) -> SessionStore | None:
    with host.executor() as tools:
        return tools.resources.get(SessionStore, None)  # type: ignore[type-abstract]  # a protocol


def adapter_of(settings: AgentSettings) -> ProviderAdapter:
    """Return the adapter of the configured model."""
    if settings.model is None:
        raise ConfigurationError(_NO_MODEL)
    if settings.base_url is None:
        return adapter_named(settings.model)
    options = {"base_url": settings.base_url}
    if settings.model.startswith("openai") and not os.environ.get("OPENAI_API_KEY"):
        # A model on this machine needs no key, but OpenAI's client requires one.
        options["api_key"] = "none"
    return adapter_named(settings.model, **options)


class Screen:
    """The terminal: shows the text as it arrives, and a line for each call.

    In a pipe, standard output has the answer alone. With `--json` the screen is quiet.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._streams = not is_quiet and sys.stdout.isatty()
        self._in_line = self._in_thought = False
        self.events: list[ToolInvoked] = []

    @property
    def listen(self) -> Any:
        """Receives the text as it arrives; None without a terminal."""
        return self._hear if self._streams else None

    def end_line(self) -> None:
        """End a line that text has begun."""
        if self._in_line:
            self._write("\n", sys.stderr if self._in_thought else sys.stdout)
        self._in_thought = False

    @contextmanager
    def watching(self, host: HostHandle) -> Generator[None]:
        """Show the calls of a host within the block."""
        host.register(self, NAME)
        try:
            yield
        except KeyboardInterrupt as stopped:
            self.end_line()
            stopped.add_note(_STOPPED)
            raise
        finally:
            host.unregister(NAME)

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        """Show a call that has ended; nested calls are a part of it."""
        if event.parent_id is not None:
            return
        self.events.append(event)
        if not self._is_quiet:
            self.end_line()
            line = event.tool_name if event.success else f"{event.tool_name}: {event.text}"
            self.say(event.status.value.replace("_", " "), line)

    def say(self, status: str, text: str) -> None:
        """Write a line to standard error."""
        sys.stderr.write(f"toolstile: {status}: {printable(text)}\n")
        sys.stderr.flush()

    def end(self, result: RunResult[str]) -> None:
        """Show the answer, or the reason that it is missing."""
        self.end_line()
        if result.success and not self._streams:
            self._write(result.text if result.text.endswith("\n") else f"{result.text}\n")
        elif result.stop_reason is StopReason.PENDING:
            names = ", ".join(each.call.name for each in result.waiting)
            self.say("pending", f"{_PENDING}{names}. {result.note}".rstrip(" ."))
        elif not result.success:
            self.say("error", result.error or result.stop_reason.value)

    def _hear(self, delta: Delta) -> None:
        if isinstance(delta, ThoughtDelta) and not self._in_thought:
            self.end_line()
            self._in_thought = True
            self._write("toolstile: thinks: ", sys.stderr)
        elif isinstance(delta, str) and self._in_thought:
            self.end_line()
        if isinstance(delta, ThoughtDelta):
            self._write(delta.text, sys.stderr)
        elif isinstance(delta, str):
            self._write(delta)

    def _write(self, text: str, stream: Any = None) -> None:
        stream = stream or sys.stdout
        stream.write(printable(text, keep="\n\t"))
        stream.flush()
        if text:
            self._in_line = not text.endswith("\n")

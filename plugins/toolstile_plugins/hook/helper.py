"""The helper: one process per workspace that decides on the calls of its coding agents.

A hook starts it, and it ends when it is idle. It may be killed at any time: the next event starts
another, and the end of a call that it does not know changes nothing.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import socket
import struct
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import (
    NOTICE,
    ApprovalAnswer,
    ApprovalRequest,
    ConfigurationError,
    DecisionUnknownError,
    ExecutorHandle,
    ForeignCall,
    HostHandle,
    Outcome,
    Prompt,
    SessionProtocol,
    Status,
    Tool,
    ToolCall,
    ToolContext,
)
from toolstile_hookspecs.services.approval_store import OPEN, Question, QuestionState
from toolstile_hookspecs.support.process import new_id
from toolstile_plugins.agent.guidance.prompt_guidance import Guidance
from toolstile_plugins.hook.agents import (
    AGENTS,
    ARGUMENTS,
    COMMANDS,
    NOTHING,
    Agent,
    Decision,
    Event,
    id_of,
    stand_in,
)
from toolstile_plugins.hook.client import END, OWN, PASSED, folder_of, private
from toolstile_plugins.hook.install import switches_off
from toolstile_plugins.hook.open_calls import OpenCalls, ToolFailed
from toolstile_plugins.hook.person import note_session
from toolstile_plugins.hook.protection import Protection, resolved
from toolstile_plugins.hook.sandboxed import fault_of, sandboxed
from toolstile_plugins.hook.settings import HookSettings
from toolstile_plugins.hook.survey import note_call
from toolstile_plugins.hook.watch import FILES, TURN, WatchedFiles, turn_of
from toolstile_plugins.inbox import Inbox
from toolstile_plugins.inbox.inbox import told_later
from toolstile_plugins.inbox.resumption import Due, claimed
from toolstile_plugins.rules.shell.policy import MOVED
from toolstile_plugins.undo import UndoStore

log = logging.getLogger("toolstile.hook")

_LARGEST: Final = 64 * 1024 * 1024
_TICK: Final = 1.0
_NO_END: Final = "the agent has reported no end of the call"
_BACK: Final = "An agent's call changed %s, so the former content was put back. The other is in %s."
_BY_CLIENT: Final = (
    "A hook starts its helper itself, without options and variables. Configure the helper in the "
    "toolstile.toml of the workspace."
)
_SETTINGS: Final = (
    "These settings do not count, because they changed while a call ran or switch the hook off. "
    "Change them while the agent rests; take the hook out with `toolstile hook uninstall`."
)
_BROKEN: Final = (
    "Toolstile could not decide on this call, so it did not run. Continue without it, and tell the "
    "user. This requires human intervention."
)


class Helper:
    """Decides on the events of all agents of a workspace, with an executor per session."""

    def __init__(self, host: HostHandle, workspace: Path) -> None:
        self._host = host
        self._settings: HookSettings = host.settings("hook") or HookSettings()
        self._calls = OpenCalls()
        self._ending: set[asyncio.Future[Decision]] = set()
        self._asked: dict[str, str] = {}
        """The questions for the agents' own terminals, by the ids of the calls."""
        self._sessions: dict[str, SessionProtocol] = {}
        self._guidance: dict[str, Guidance] = {}
        self._executors: dict[tuple[str, bool, str], ExecutorHandle] = {}
        self._opened = ExitStack()
        self._protection = Protection(host, workspace, self._settings.protected)
        self._workspace = workspace
        self._files: WatchedFiles | None = None
        self._agents: dict[str, int] = {}
        """The processes of the agents, by session."""
        self.used = time.monotonic()
        self._configuration = self._protection.stamp()
        self._folder: Path | None = None

    async def serve(self, folder: Path) -> None:
        """Answer events until the helper is idle."""
        here, self._folder = Path.cwd(), folder
        os.chdir(folder)  # the path of a socket may have about 100 bytes
        with suppress(FileNotFoundError):
            os.unlink("socket")  # noqa: PTH108 - relative
        server = await asyncio.start_unix_server(self._connected, "socket", limit=_LARGEST)
        os.chmod("socket", 0o600)  # noqa: PTH101 - relative
        os.chdir(here)
        self._host.register(self._protection, "hook_protection")
        store = UndoStore(self._host.settings("undo"))
        reach = partial(reached, watches=self._settings.bash == "watch")
        self._protection.load(folder)
        self._put_back()
        self._files = WatchedFiles(self._workspace, folder / "files", store, reach)
        self._host.register(self._files, "hook_files")
        try:
            while self._is_used() and not self._is_outdated():
                await asyncio.sleep(_TICK)
                with suppress(OSError):
                    self._protection.hold()
                dead = [place for place in self._calls.places() if not self._lives(place[0])]
                await self._calls.close(dead, DecisionUnknownError(_NO_END))
                if dead:
                    self._put_back()
        finally:
            server.close()
            await self._calls.close(self._calls.places(), DecisionUnknownError(_NO_END))
            self._opened.close()
            self._files.close()

    def _lives(self, session: str) -> bool:
        """Return whether the agent of a session may still report the end of a call."""
        try:
            os.kill(self._agents.get(session) or os.getpid(), 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _is_used(self) -> bool:
        idle = time.monotonic() - self.used
        return bool(self._calls.places()) or idle < self._settings.idle

    def _is_outdated(self) -> bool:
        """Tell whether the configuration was changed, and no call runs that began before."""
        return not self._calls.places() and self._protection.stamp() != self._configuration

    async def once(self, head: str, data: bytes) -> str:
        """Return the answer to one event, and end its call."""
        self._host.register(self._protection, "hook_protection")
        with self._opened:
            answer = await self.answer(head, data)
            await self._calls.close(self._calls.places())
            return answer

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.used = time.monotonic()
        if self._is_outdated():
            # Without an answer, the client tries again, and starts a helper with the new rules.
            writer.close()
            return
        client = _process_of(writer)
        assert self._files is not None  # noqa: S101 - while it serves
        self._files.clients.add(client)
        try:
            head, event = await reader.readline(), await reader.read(-1)
            answer = await self.answer(head.decode(errors="surrogateescape"), event, client)
            writer.write(answer.encode() + END)
            await writer.drain()
        except Exception:
            # Without an end mark, the client tries again, and refuses the call then.
            log.exception("An event of an agent was not answered.", extra=NOTICE)
        finally:
            self._files.clients.discard(client)
            writer.close()

    async def answer(self, head: str, data: bytes, client: int | None = None) -> str:
        """Return the answer to an event in the agent's form."""
        name, *variables = head.rstrip("\n").split("\0")
        agent = AGENTS[name]
        event = agent.read(json.loads(data), dict(zip(PASSED, variables, strict=True)))
        event = replace(event, client=client)
        self._agents[event.session] = event.process
        if self._folder is not None:
            note_session(self._folder, event.session, event.process, ends=event.kind == "gone")
            if event.kind == "before" and event.given_id:
                note_call(self._folder, event)
        try:
            decision = await self._decide(agent, event)
        except Exception as error:  # noqa: BLE001 - an agent runs a tool if its hook raises
            told = "%s of %s cannot be decided: %r"
            log.error(told, event.name, name, error, extra=NOTICE)  # noqa: TRY400 - in one line
            is_call = event.kind == "before"
            decision = Decision(verdict="deny", reason=_BROKEN) if is_call else NOTHING
        return agent.write(event, decision)

    async def _decide(self, agent: Agent, event: Event) -> Decision:
        if event.kind == "after":
            ending = asyncio.ensure_future(self._after(event))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            return await ending
        if self._ending:
            # If its hook was killed, the agent makes a call while its last one is still put back.
            await asyncio.wait({*self._ending})
        if event.kind == "before":
            # Another server may be named like ours, with more behind it.
            if event.tool.startswith(agent.own) and "__" not in event.tool[len(agent.own) :]:
                return NOTHING
            if self._is_sandboxed(event) and (why := fault_of(self._host)):
                return Decision(verdict="deny", reason=why)
            return await self._before(agent, event)
        if event.kind == "settings":
            # While a call runs, the agent itself may have changed them.
            refused = bool(self._calls.places()) or switches_off(agent, Path(event.file))
            return Decision(verdict="block", reason=_SETTINGS) if refused else NOTHING
        await self._calls.close(self._calls.left_at(event), DecisionUnknownError(_NO_END))
        self._put_back(at_terminal=event.asks)
        return await self._end_of_turn(event) if event.kind == "stop" else NOTHING

    async def _before(self, agent: Agent, event: Event) -> Decision:
        # Gemini CLI has no ids, and a later call with the same arguments is another call.
        id_ = "/".join(event.place) if event.given_id else new_id()
        meta: dict[str, Any] = {TURN: event.turn} if event.turn else {}
        meta[MOVED] = resolved(event.folder, "") != self._workspace
        call = ToolCall(event.tool, event.arguments, id=id_, provider_id=event.given_id, meta=meta)
        tools = self._executor(agent, event)
        waits = _question_of(tools, call)
        if isinstance(waits, str):
            return self._waits(event, f"{event.tool} waits for a person's approval. {waits}")

        async def dispatch(call: ToolCall, run: ForeignCall) -> Outcome:
            if waits is not None:
                return await _resume(tools, waits, call, run)
            return await tools.adispatch(call, using=run)

        if not self._calls.places():
            self._protection.keep(self._folder)
        self._protection.events[call.id] = event
        try:
            begun = await asyncio.wait_for(
                self._calls.begin(event.place, call, dispatch), self._settings.wait
            )
        except TimeoutError:
            reason = f"{event.tool} was not decided in time, so it did not run. Retry it once."
            return Decision(verdict="deny", reason=reason)
        finally:
            self._protection.events.pop(call.id, None)
            self._put_back()
        asked = self._asked.pop(call.id, None)
        granted = call.id in self._protection.granted
        self._protection.granted.discard(call.id)
        if isinstance(begun, Outcome):
            inbox = tools.resources.get(Inbox, None) if self._folder is None else None
            if inbox and (question := inbox.store.get(begun.approval_ticket or "")):
                inbox.end(question, QuestionState.WITHDRAWN)  # because a test does not ask
            return self._ended(event, begun)
        changed = self._changed(agent, event, begun, id_)
        if asked is None and changed is None and not granted:
            return NOTHING
        if asked is None:
            return Decision(verdict="allow", arguments=changed)
        return Decision(verdict="ask", reason=asked, arguments=changed)

    def _changed(
        self, agent: Agent, event: Event, begun: dict[str, Any], id_: str
    ) -> dict[str, Any] | None:
        """Return the arguments that the agent must use; None for its own."""
        if self._is_sandboxed(event):
            turn = turn_of(event.turn) if event.turn else 0
            note: dict[str, Any] = {"id": id_, "tool": event.tool, "provider_id": event.given_id}
            note |= {"session_id": event.session, "turn": turn}
            begun = sandboxed(begun, self._workspace, event.folder, note)
        begun = agent.noting(event.tool, begun)
        if begun == event.arguments:
            return None
        if not event.given_id:  # the event of its end has the changed arguments
            self._calls.move(event.place, replace(event, id=id_of(event.tool, begun)).place)
        return begun

    def _is_sandboxed(self, event: Event) -> bool:
        return self._settings.bash == "sandbox" and event.tool in COMMANDS

    def _ended(self, event: Event, outcome: Outcome) -> Decision:
        if outcome.status is Status.PENDING:
            return self._waits(event, outcome.text)
        done = f"{event.tool} was done before and did not run again: " if outcome.success else ""
        return Decision(verdict="deny", reason=f"{done}{outcome.text}")

    def _waits(self, event: Event, text: str) -> Decision:
        return Decision(verdict="defer" if event.defers else "deny", reason=text)

    async def _after(self, event: Event) -> Decision:
        error = None if event.error is None else ToolFailed(event.error)
        if self._files is not None:
            ended = partial(self._files.ended, failed=error is not None)
            await asyncio.to_thread(ended, self._calls.id_at(event.place), event.client)
        outcome = await self._calls.end(
            event.place, event.response, error=error, is_cancelled=event.interrupted
        )
        if back := self._put_back(at_terminal=event.asks):
            told = (
                f"{event.tool} changed {', '.join(back)}, which governs this agent, so the change"
            )
            return Decision(verdict="block", reason=f"{told} was put back. Continue without it.")
        if outcome is None:
            return NOTHING
        files = str(outcome.event.attributes.get(FILES, ""))
        if event.interrupted:
            return Decision(context=files)
        if outcome.is_error and not isinstance(outcome.event.error, ToolFailed):
            return Decision(verdict="block", reason=f"{outcome.text} {files}".rstrip())
        guided = await self._guidance[event.session].awith_feedback([outcome])
        feedback = "\n".join(said.render() for said in getattr(guided[0], "feedback", ()))
        # A plugin may have replaced the result.
        replaced = outcome.success and outcome.result.value != event.response
        context = "\n".join(filter(None, (files, feedback)))
        return Decision(context=context, output=outcome.result.value if replaced else None)

    async def _end_of_turn(self, event: Event) -> Decision:
        """Let the checkers of the configuration keep the main agent from its end, once in a row."""
        guidance = self._guidance.get(event.session)
        if guidance is None or event.again:
            return NOTHING
        checked = await guidance.acheck_completion(text=event.text)
        if checked.complete:
            return NOTHING
        return Decision(verdict="block", reason=checked.feedback or "")

    def _put_back(self, *, at_terminal: bool = False) -> list[str]:
        """Put back governing files when no call runs any more."""
        if self._calls.places() or self._folder is None:
            return []
        back = self._protection.put_back(self._folder, at_terminal=at_terminal)
        if back:
            log.warning(_BACK, ", ".join(back), self._folder, extra=NOTICE)
        return back

    def _executor(self, agent: Agent, event: Event) -> ExecutorHandle:
        """Return the executor for a call; an unknown tool asks a person in it."""
        name = "" if event.tool in agent.categories else event.tool
        key = event.session, event.asks, name
        if key not in self._executors:
            tools = [*agent.tools()]
            if name:
                tools.append(stand_in(name, agent.title, "side_effect", requires_confirmation=True))
            session = self._sessions.get(event.session)
            # The tools of plugins are none of the agent's, and some have the same names.
            made = self._host.executor(
                prompt=Prompt.of("toolstile", "hook", []),
                session=session,
                session_id=event.session if session is None else None,
                tools=tools,
                approver=self._ask_agent if event.asks else None,
            )
            opened = self._executors[key] = self._opened.enter_context(made)
            self._sessions[event.session] = opened.session
            self._guidance.setdefault(event.session, Guidance(opened, self._host))
        return self._executors[key]

    def _ask_agent(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Let the agent ask the person at its terminal: a refused call gets no end."""
        self._asked[request.call.id] = " ".join(request.reasons)
        return replace(ApprovalAnswer.approve(), by="the agent's terminal")


def _question_of(tools: ExecutorHandle, call: ToolCall) -> str | Due | None:
    """Return the answer to the question of a call; if it still waits, a text for the model.

    A call that is made again has the same id, or the same tool and arguments in its session.
    """
    inbox = tools.resources.get(Inbox, None)
    if inbox is None:
        return None
    open_ = inbox.store.questions(OPEN, session_id=tools.session.id)
    for question in open_:
        if not question.owner and _is_same(inbox, question, call):
            if question.state_at(inbox.clock.now()) is QuestionState.WAITING:
                return told_later(question)
            return next(claimed(inbox, [question]), None)
    return None


def _is_same(inbox: Inbox, question: Question, call: ToolCall) -> bool:
    if question.call_id == call.id:
        return True
    made = inbox.seal.call_of(question).call
    return made.name == call.name and json.loads(str(made.arguments)) == call.arguments


async def _resume(tools: ExecutorHandle, due: Due, call: ToolCall, run: ForeignCall) -> Outcome:
    """Dispatch a call with the answer to its question, and close the question."""
    inbox = tools.resources.get(Inbox)
    call = replace(call, id=due.sealed.id)
    try:
        return await tools.aresume(call, due.sealed.token, due.answer, using=run)
    finally:
        inbox.store.end(due.question.ticket, due.end)


def reached(tool: Tool[Any, Any], context: ToolContext, *, watches: bool) -> list[str] | None:
    """Return the paths that a call of an agent's tool changes; None for a command to watch."""
    name = tool.wire_name or tool.name
    forms = ARGUMENTS.get(name, {})
    if watches and ("command" in forms or name == "apply_patch"):
        return None
    given: Any = context.tool_call and context.tool_call.arguments
    given = json.loads(given) if isinstance(given, str) else given
    named = [str(given[name]) for name in forms if forms[name].get("format") == "path"]
    if tool.category != "write" or not named:
        raise LookupError(tool.name)
    return named


def _process_of(writer: asyncio.StreamWriter) -> int | None:
    """Return the process of a client; None on systems that do not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    end = writer.get_extra_info("socket")
    return int(struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


def serve(host: HostHandle, workspace: Path) -> int:
    """Serve the hooks of a workspace; 0 if another process does."""
    if sys.argv[1:] != ["hook", "serve"] or any(name.startswith(OWN) for name in os.environ):
        raise ConfigurationError(_BY_CLIENT)
    folder = folder_of(str(workspace))
    private(folder)
    with Path(folder, "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        lock.truncate(0)
        with suppress(FileNotFoundError):
            os.truncate(Path(folder, "log"), 0)  # of the helpers before
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        asyncio.run(Helper(host, workspace).serve(Path(folder)))
    return 0

"""The executor: it dispatches calls in one session, with one prompt and one set of resources."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack, cast
from weakref import WeakMethod, WeakSet

from toolstile.batches import batch_of, each_where_awaited, in_place, lives_of
from toolstile.child import make_child, narrowed
from toolstile.drivers.job import Step, WaitFor
from toolstile.drivers.limit import ENDLESS
from toolstile.options import ExecutorOptions
from toolstile.pipeline.approval import read_answer
from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.call_control import CallControlImpl
from toolstile.pipeline.environment import ExecutorHost, Resumption
from toolstile.pipeline.hook_calls import observe
from toolstile.pipeline.plan import (
    DispatchOptions,
    DispatchTable,
    PromptPlans,
    ToolPlan,
    changing_sections,
    shown_of,
)
from toolstile.pipeline.stages import life_of
from toolstile.pipeline.transaction_root import TransactionRoot
from toolstile.pipeline.undoing import OfPerson, undone
from toolstile.policies.persistence import PolicyStore
from toolstile.prompt_overrides import set_up
from toolstile.resources.bindings import ResourceRegistry
from toolstile.resources.container import Container, LendingContainer
from toolstile.resources.exclusive import CURRENT, OneShotGate
from toolstile.resources.reserving import counting_apart
from toolstile.runtime import runtime_of
from toolstile.settings import checked_seconds
from toolstile.state.request_slice import add_turns, turns_of
from toolstile_hookspecs import (
    Approver,
    ForeignCall,
    OpenedSections,
    Outcome,
    PersistentPolicy,
    PluginError,
    Principal,
    Prompt,
    RenderedPrompt,
    Secret,
    Section,
    SessionProtocol,
    StateError,
    Tool,
    ToolCall,
    ToolContext,
    ToolstileError,
    TransactionEnded,
    TransactionFailed,
    TransactionStatus,
    TurnApprover,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.approval import GivenAnswer
from toolstile_hookspecs.calls import DRY_RUN, NO_CHANGES, NO_META
from toolstile_hookspecs.execution.options import (
    BatchArguments,
    ChildArguments,
    Progress,
    ResumeArguments,
)
from toolstile_hookspecs.execution.principal import MAIN_AGENT, RequestTexts, one_principal
from toolstile_hookspecs.execution.undo import UNDO_TOOL
from toolstile_hookspecs.support.process import OF_PARENT

if TYPE_CHECKING:
    from toolstile.policies.approval_tokens import TokenSigner


_DRY: Final[Mapping[str, Any]] = MappingProxyType({DRY_RUN: True})
_HOST_CLOSED: Final = (
    "This executor's host is closed. Open the host, and make a new one: with Host() as host, "
    "host.executor() as tools: ..."
)
_CLOSED: Final = (
    "This executor is closed. Dispatch within its `with` block, or make a new one: with "
    "host.executor() as tools: ..."
)
_AROUND: Final = "The transaction around it has ended."
_NO_CARDS: Final = (
    "No approver here takes the card of a transaction. Give the host or the executor one with a "
    "method `turn`, or leave `approve` out."
)


class Executor:
    """Dispatches calls in one session; made by `Host.executor`.

    Use it as a context manager: leaving closes the resources it has built.

    Args:
        host: The host it belongs to.
        options: Everything else.
    """

    agent: str = MAIN_AGENT

    def __init__(self, host: ExecutorHost, options: ExecutorOptions) -> None:  # noqa: PLR0915 - one line each
        configuration = host.configuration
        self.engine = host.engine
        self.clock = options.clock or host.clock
        self.monotonic = self.clock.monotonic
        self.catalog = host.catalog
        self.home = options.session or host.session_of(options.session_id)
        self.session: Any = self.home
        self.session_id = self.home.id
        self.journal = self.counting = self.home.journal
        self.runtime = runtime_of(self.home)
        self.approver: Approver | None = options.approver or host.approver
        self.approval_timeout = configuration.approval_timeout
        takes_cards = isinstance(self.approver, TurnApprover)
        self.asks_by_turn = configuration.approve_by == "turn" and takes_cards
        self.max_arguments, self.max_text = configuration.max_arguments, configuration.max_text
        self.strict_depends = configuration.strict_depends
        self.deadline = options.deadline
        asks = one_principal(options.principal, options.user_id, options.auth)
        self.principal: Principal | None = asks["principal"]
        self.auth: Secret | None = asks["auth"]
        self.event_fields = self._event_fields(asks)
        self.on_progress: Progress | None = options.on_progress
        self.dry_run = options.dry_run
        self.attributes = _DRY if options.dry_run else NO_META
        self.within: TransactionRoot | None = None
        self.transactions: WeakSet[Transaction] = WeakSet()
        self.children: WeakSet[Executor] = WeakSet()
        diff, hear = configuration.approve_diff, options.on_answer
        self._manner = DispatchOptions(configuration.timeout, diff, options.dry_run, hear=hear)
        self._host = host
        prompt, own = options.prompt, (options.tags, options.without_tags)
        if options.tools or any(own):
            prompt = prompt or host.original_prompt
        if prompt is not None and options.tools:
            prompt = prompt.bind(sections=[self.engine.plans.section_of(options.tools)])
        self._own_prompt = None if prompt is None else host.offered(prompt, *own)
        self._plans: PromptPlans | None = None
        # The sections that can become, or cease to be, part of the prompt.
        self._changing: list[Section] = []
        self._shown: Hashable = ()
        self._kept_apart = options.kept_apart or host.kept_apart
        self.retired: str | None = None
        # Kept by their ids and held: an id is given again once its section is gone.
        self._set_up: dict[int, Section] = {}
        self._beginning = threading.Lock()
        self._process = os.getpid()
        self.resources: Container = self._registry(options).open()
        background = self.engine.background
        self.resources.loop_of = lambda: background.loop
        if self.journal is not None:
            self.journal.before_files(self.resources.recover_present)
        self.context_fields = self._context_fields(options)
        with suppress(PluginError):  # its calls say what is wrong
            self._set_up_once(self.prompt.everywhere())
        self.keeper = self._keep()
        if options.request:
            self.request(options.request)

    @property
    def prompt(self) -> Prompt:
        """The prompt whose tools can be called."""
        whole = self._own_prompt or self._host.prompt
        return narrowed(self, whole) if self._manner.only else whole

    @property
    def seal(self) -> TokenSigner:
        """The signer of the tokens of calls that wait for approval."""
        return self._host.seal

    def request(self, said: RequestTexts) -> None:
        """Add what the user says to the request of the session, for calls from now on.

        Args:
            said: A text, or several. Of a text, the executor's principal has said it now.

        Raises:
            ConfigurationError: When it is something else.
        """
        turns = turns_of(said, self.principal, self.clock)
        if self.dry_run:
            rehearsal = self._rehearse()
            rehearsal.request = (*rehearsal.request, *turns)
        else:
            add_turns(self.home._store, turns)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nobody else writes it

    def dispatch(self, call: ToolCall, *, using: ForeignCall | None = None) -> Outcome:
        """Dispatch a call and wait for it; on an event loop use `adispatch`.

        Args:
            call: The call.
            using: Runs a `ForeignTool` that has no callable of its own.

        Returns:
            The outcome, whatever became of the call.

        Raises:
            PromptEvaluationError: When the deadline has passed, or the handler ends it.
            VisibilityExpansionRequired: When the model asked to open sections.
            Interrupt: When the handler pauses the run.

        Example:
            >>> from toolstile import Host, ToolCall, tool
            >>> @tool
            ... def add(a: int, b: int) -> int:
            ...     \"\"\"Add two integers.\"\"\"
            ...     return a + b
            >>> with Host(discover=False, tools=[add]) as host, host.executor() as tools:
            ...     tools.dispatch(ToolCall("add", {"a": 1, "b": 2})).text
            '3'
        """
        return self.engine.sync.drive(life_of(ActiveCall(self, call, using=using)))

    def adispatch(
        self, call: ToolCall, *, using: ForeignCall | None = None
    ) -> Coroutine[Any, Any, Outcome]:
        """Dispatch a call; see `dispatch`."""
        active = ActiveCall(self, call, on_loop=True, using=using)
        return self.engine.asynchronous.drive(life_of(active))

    def dispatch_all(
        self, calls: Iterable[ToolCall], **more: Unpack[BatchArguments]
    ) -> list[Outcome | BaseException]:
        """Dispatch calls in parallel, isolated from one another.

        They commit in call order, and what comes out does not depend on their timing.

        Returns:
            The outcomes in call order, or in their place the exceptions that `dispatch` raises.

        Raises:
            TypeError: When they are no `ToolCall`s; none is dispatched then.
        """
        active = batch_of(self, calls, more, on_loop=False)
        return in_place(active, self.engine.sync.drive_all(*lives_of(active)))

    async def adispatch_all(
        self, calls: Iterable[ToolCall], **more: Unpack[BatchArguments]
    ) -> list[Outcome | BaseException]:
        """Dispatch calls in parallel; see `dispatch_all`."""
        active = batch_of(self, calls, more, on_loop=True)
        ended = await self.engine.asynchronous.drive_all(*lives_of(active))
        return in_place(active, ended)

    def adispatch_each(
        self, calls: Iterable[ToolCall], *, using: Sequence[ForeignCall | None] = ()
    ) -> list[Coroutine[Any, Any, Outcome]]:
        """Return the calls of one batch, each to be carried out where it is awaited; await all."""
        active = batch_of(self, calls, {"using": using}, on_loop=True)
        return each_where_awaited(active, self.engine.asynchronous)

    def resume(
        self, call: ToolCall, token: str, answer: GivenAnswer, **more: Unpack[ResumeArguments]
    ) -> Outcome:
        """Dispatch a call again that was pending, with the answer that a person has given.

        All stages are passed again. For other params, or another diff, the approver is asked again.

        Args:
            call: The call as it was.
            token: The `approval_token` of its outcome; it holds once, and for a time.
            answer: The person's answer.
            more: A foreign callable, and the change set; see `ResumeArguments`.

        Returns:
            The outcome; with a token that does not hold it is denied, and says why.

        Raises:
            TypeError: When it is not an answer; the token holds as before. Otherwise as
                `dispatch` raises.

        Example:
            >>> from toolstile import ApprovalAnswer, Host, ToolCall, tool
            >>> @tool(requires_confirmation=True)
            ... def erase(name: str) -> str:
            ...     \"\"\"Erase something for good.\"\"\"
            ...     return f"Erased {name}."
            >>> later = lambda request: ApprovalAnswer.pending()
            >>> with Host(discover=False, tools=[erase], approver=later) as host:
            ...     with host.executor() as tools:
            ...         asked = tools.dispatch(ToolCall("erase", {"name": "a.txt"}))
            ...         tools.resume(asked.call, asked.approval_token, True).text
            'Erased a.txt.'
        """
        resumption = Resumption(token, read_answer(answer), more.get("changes"))
        active = ActiveCall(self, call, resumption=resumption, using=more.get("using"))
        return self.engine.sync.drive(life_of(active))

    def aresume(
        self, call: ToolCall, token: str, answer: GivenAnswer, **more: Unpack[ResumeArguments]
    ) -> Coroutine[Any, Any, Outcome]:
        """Dispatch a call again that was pending; see `resume`."""
        resumption = Resumption(token, read_answer(answer), more.get("changes"))
        using = more.get("using")
        active = ActiveCall(self, call, on_loop=True, resumption=resumption, using=using)
        return self.engine.asynchronous.drive(life_of(active))

    def undo(self, *calls: str, others: Literal["conflict", "keep"] = "conflict") -> Outcome:
        """Undo calls by their ids, or the last one; undoing the undo brings them back.

        Rules that deny it hold, and a question is answered with yes, because the caller wants it.
        With `others="keep"`, values that others have changed since stay.

        Raises:
            UndoConflict: Others have changed values since; names each, and changes nothing.
            StateError: The configuration has no table `[plugins.undo]`.
        """
        return undone(self.engine.sync.drive(life_of(self._undoing(calls, others, on_loop=False))))

    async def aundo(self, *calls: str, others: Literal["conflict", "keep"] = "conflict") -> Outcome:
        """Undo calls by their ids; see `undo`."""
        life = life_of(self._undoing(calls, others, on_loop=True))
        return undone(await self.engine.asynchronous.drive(life))

    def _undoing(self, calls: tuple[str, ...], others: str, *, on_loop: bool) -> ActiveCall:
        made = ToolCall(UNDO_TOOL, {"calls": [*calls], "others": others})
        return ActiveCall(cast("Any", OfPerson(self)), made, on_loop=on_loop)

    def rehearsed(self) -> str:
        """Return the changes that all calls of a dry run together would make."""
        within = self.within
        return NO_CHANGES if within is None else self.engine.sync.drive(within.changes())

    def close(self) -> None:
        """Refuse calls, end a dry run, and close the resources that were built, last first.

        A fork of the process leaves them to its parent.
        """
        if self._process != os.getpid():
            return
        self.retire(_CLOSED)
        try:
            # It stays: a call that has begun before it would be kept.
            if self.within is not None and self.agent == MAIN_AGENT:
                self.engine.sync.drive(self.within.give_up(_CLOSED))
        finally:
            self.resources.close()

    def __repr__(self) -> str:
        """Return the session, the prompt, and whether it takes calls."""
        state = "open" if self.retired is None else "closed"
        prompt, asks = self.prompt, "" if self.principal is None else f", {self.principal.id!r}"
        return f"<Executor: {state}, session {self.session_id!r}, {prompt.ns}:{prompt.key}{asks}>"

    def __enter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        """Return itself; async resources are closed on the loop that runs now."""
        loop = asyncio.get_running_loop()
        self.resources.loop_of = lambda: loop
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aexit__(self, *error: object) -> None:
        """Close the resources without blocking the loop."""
        await asyncio.to_thread(self.close)

    def transaction(
        self, title: str, *, timeout: float | None = None, approve: bool = False
    ) -> Transaction:
        """Begin a transaction: one decision keeps the changes of all its calls, or of none.

        Until its end, neither the disk nor the session nor another executor sees any of it; its
        own calls see what earlier ones have changed. Its tools are contained, or have `undo`.

        Args:
            title: The title, for people.
            timeout: Seconds after which it is rolled back, None for never.
            approve: Whether a person is shown its calls and their diff on one card before the end;
                questions about single calls then wait for this card.

        Returns:
            The transaction: a context manager, sync or async, that dispatches as an executor does.

        Raises:
            StateError: The executor or its host is closed, or the approver takes no cards.
            ConfigurationError: The timeout is not a positive number.

        Example:
            >>> from toolstile import Host, ToolCall, tool
            >>> @tool(contained=True)
            ... def book(context, city: str) -> str:
            ...     \"\"\"Book a night.\"\"\"
            ...     context.session[str].append(city)
            ...     return f"Booked {city}."
            >>> with Host(discover=False, tools=[book]) as host, host.executor() as tools:
            ...     with tools.transaction("a trip") as work:
            ...         _ = work.dispatch(ToolCall("book", {"city": "Bern"}))
            ...         _ = work.dispatch(ToolCall("book", {"city": "Rome"}))
            ...         before = tools.session[str].all()
            ...     before, tools.session[str].all()
            ((), ('Bern', 'Rome'))
        """
        if self.retired is not None:
            raise StateError(self.retired)
        if approve and not isinstance(self.approver, TurnApprover):
            raise StateError(_NO_CARDS)
        if self.dry_run:
            self._rehearse()
        # First, because a transaction that failed to begin would end as if it were this executor.
        limit = checked_seconds("timeout", timeout)
        root = TransactionRoot(self, title, timeout=limit, approves=approve)
        made = Transaction(self, root)
        self.transactions.add(made)
        return made

    def child(self, name: str, **given: Unpack[ChildArguments]) -> Executor:
        """Return an executor for an agent that this one's agent starts, with less authority.

        It may do what this executor and the arguments both allow. Principal, approver, quotas and
        resources stay the same; `ToolContext.agent` is `main/NAME`. It closes at the end of its
        `with` block, and with this executor at the latest.
        """
        made: Executor = make_child(self, Executor, {**given, "name": name})
        return made

    def family(self) -> list[Executor]:
        """Return this executor, its transactions and children, and theirs."""
        within = [*self.transactions, *self.children]
        return [self, *(each for other in within for each in other.family())]

    new_control = CallControlImpl

    def dispatch_nested(self, call: ToolCall, parent: ActiveCall) -> Outcome:
        """Dispatch a call that a sync handler makes."""
        try:
            return self.engine.sync.drive(life_of(ActiveCall(self, call, parent=parent)))
        except BaseException as error:
            parent.left_child = error
            raise

    async def adispatch_nested(self, call: ToolCall, parent: ActiveCall) -> Outcome:
        """Dispatch a call that an async handler makes."""
        active = ActiveCall(self, call, parent=parent, on_loop=True)
        try:
            return await self.engine.asynchronous.drive(life_of(active))
        except BaseException as error:
            parent.left_child = error
            raise

    def table(self) -> DispatchTable:
        """Return the table that calls are dispatched by, made anew when plugins have changed."""
        plans = self._plans
        if (
            plans is None
            or plans.table.generation != self._host.plugins.view.generation
            or (self._changing and self._shown_now() != self._shown)
        ):
            plans = self._plans = self._plan_anew()
        return plans.table

    def plan_of(self, tool: Tool[Any, Any]) -> ToolPlan:
        """Return the plan of a tool that a lookup hook gave, which may be nobody's."""
        self.table()  # the hook may have changed the plugins
        plans = self._plans or self._plan_anew()
        return plans.plan_of(tool)

    def expand(self, request: VisibilityExpansionRequired) -> RenderedPrompt:
        """Open the sections that the model asked for; return the prompt with them and their tools.

        Args:
            request: The exception that `dispatch` raised.
        """
        opened = OpenedSections.of(self.home) | set(request.section_keys)
        self.home[OpenedSections].replace(OpenedSections(opened))
        return self.prompt.render(self.session, self.resources)

    def retire(self, why: str = _HOST_CLOSED) -> None:
        """Refuse calls from now on, and say why; have what running ones run elsewhere ended."""
        self.refuse(why)
        self.runtime.tell_abandoned(self)
        for each in [*self.transactions, *self.children]:
            each.retire(why)

    def refuse(self, why: str) -> None:
        """Refuse calls from now on, and say why; running ones go on, as those of a parent do."""
        for each in self.family():
            each.retired, each._plans = why, None  # noqa: SLF001 - of this class

    def _plan_anew(self) -> PromptPlans:
        if self.retired is not None:
            raise StateError(self.retired)
        self._set_up_once(self.prompt.everywhere())
        if self.dry_run:
            self._rehearse()
        self.keeper = self._keep()
        prompt = self.prompt
        self._changing = changing_sections(prompt)
        self._shown = self._shown_now()
        return self.engine.plans.of(self._host, prompt, self.home, self._manner, self._shown)

    def _rehearse(self) -> TransactionRoot:
        with self._beginning:
            self.within = self.within or TransactionRoot(self, "dry run", keeps=False)
            return self.within

    def _shown_now(self) -> Hashable:
        return shown_of(self._changing, self.home, self.catalog)

    def _keep(self) -> PolicyStore | None:
        """Load the stored records of policies; return their store, if any policy has one."""
        places: tuple[Any, ...] = (self.prompt, self._host, *self.prompt.everywhere())
        policies = (*self._manner.rules, *(each for place in places for each in place.policies))
        kept = [policy for policy in policies if isinstance(policy, PersistentPolicy)]
        if not kept:
            return None
        keeper = PolicyStore(kept, self._kept_apart)
        keeper.load(self.home, self.runtime.kept)
        return None if self.dry_run else keeper

    def _set_up_once(self, sections: Iterable[Section]) -> None:
        present = {id(section): section for section in sections}
        for known, section in present.items():
            if known not in self._set_up:
                set_up(section, self.home, self.catalog)
                self._set_up[known] = section
        self._set_up = present

    def _registry(self, options: ExecutorOptions) -> ResourceRegistry:
        """Return all bindings; the later ones, nearer to the application, win."""
        sections = self.prompt.everywhere()
        layers = (
            self._host.plugins.view.bindings,
            [binding for section in sections for binding in section.resources],
            self.prompt.resources.for_executor(),
            self._host.resources,
            options.resources,
        )
        found = ResourceRegistry().merge(*(ResourceRegistry.of(*layer) for layer in layers))
        # Dry runs and replays take no places.
        apart = self._kept_apart or self.dry_run
        return counting_apart(found, anew=getattr(apart, "anew", False)) if apart else found

    @contextmanager
    def lend(self, values: Mapping[type[Any], object], **fields: Any) -> Generator[None]:
        """Give calls other resources and context fields while a block runs, as of one request.

        Args:
            values: The resources by type; they are not closed.
            **fields: Fields of `ToolContext`, such as `adapter` and `heartbeat`.
        """
        before = self.context_fields, self.resources
        self.context_fields = {**self.context_fields, **fields}
        self.resources = LendingContainer(self.resources, values)
        try:
            yield
        finally:
            self.context_fields, self.resources = before

    def _event_fields(self, asks: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that the events of all its calls have in common."""
        public = self.principal and self.principal.public()
        known = {**asks, "session_id": self.session_id, "principal": public}
        return {name: value for name, value in known.items() if value is not None}

    def _context_fields(self, options: ExecutorOptions) -> dict[str, Any]:
        context = ToolContext(
            session=self.session,
            prompt=self.prompt,
            adapter=options.adapter,
            heartbeat=options.heartbeat,
            run_context=options.run_context,
            principal=self.principal,
            auth=self.auth,
            client=options.client,
            clock=self.clock,
            inflight=self.runtime.inflight,
        )
        # The class has the defaults of most fields, so that a call's context need not.
        fields = vars(context).items()
        return {key: value for key, value in fields if getattr(ToolContext, key, ...) is not value}


# --- Transactions


class Transaction(Executor):
    """Calls that one decision keeps, or none of them; made by `Executor.transaction`.

    Leaving its block keeps them; an exception, or `rollback`, leaves nothing of them.

    Attributes:
        id: Its id, which the events of its calls name.
        title: The title, for people.
        ended: The event of its end; None before.
    """

    def __init__(self, executor: Executor, root: TransactionRoot) -> None:
        # The same session, principal and resources; no resource is opened for it.
        vars(self).update(vars(executor))
        self.title, self._above = root.title, executor
        self.ended: TransactionEnded | None = None
        self.transactions, self.children = WeakSet(), WeakSet()
        self._plans = None
        shows = root.approves or self._manner.approve_diff
        self._manner = replace(self._manner, keeps_together=True, approve_diff=shows)
        self._root = self.within = root
        self.id, self.deadline = root.call_made.id, root.deadline
        self.context_fields = {**self.context_fields, "transaction": root.context}
        self.event_fields = {**self.event_fields, "transaction": self.id}
        self.decided, self._ends, self._is_given_up = OneShotGate(), list[tuple[int]](), False
        self._stop_timer: Callable[[], None] = lambda: None
        if (own := root.call_made.deadline) is not None:
            # It must not keep a forgotten transaction alive.
            end, seconds = WeakMethod(self._end_aside), min(own.remaining(), threading.TIMEOUT_MAX)
            timer = threading.Timer(seconds, lambda: (late := end()) and late(own.reason))
            timer.daemon, self._stop_timer = True, timer.cancel
            timer.start()

    @property
    def session(self) -> SessionProtocol:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The session as the calls of the transaction have changed it so far."""
        return self._root.context.session

    def changes(self) -> str:
        """Return the changes that the calls have made together so far, without secrets."""
        return self.engine.sync.drive(self._root.changes())

    def view(self) -> ToolContext:
        """Return a context with a copy of the session, and the files, as its calls see them now.

        A read of the copy cannot cause a conflict.
        """
        return replace(self._root.context, session=self._root.branch.fork())

    def expand(self, request: VisibilityExpansionRequired) -> RenderedPrompt:
        """Open sections, which stay open at a rollback; see `Executor.expand`."""
        self._above.expand(request)
        self._root.branch.follow(OpenedSections)
        seen = self.view()
        return self.prompt.render(seen.session, seen.resources)

    def request(self, said: RequestTexts) -> None:
        """Add to the request of the session, for later calls; the words stay at a rollback."""
        self._above.request(said)
        self._root.request = (*self._root.request, *turns_of(said, self.principal, self.clock))

    def commit(self) -> None:
        """Keep everything; after `rollback` it does nothing.

        Raises:
            TransactionFailed: Nothing was kept, because of a conflict, a rule or a participant, or
                it is unknown which changes were kept. Says which of them, and why.
        """
        self._raise(self.engine.sync.drive(self.end(on_loop=False)))

    async def acommit(self) -> None:
        """Keep everything; see `commit`."""
        self._raise(await self.engine.asynchronous.drive(self.end(on_loop=True)))

    def rollback(self, reason: str = "It was rolled back.") -> None:
        """Put everything back; after the end it does nothing."""
        self._is_given_up = True
        self.engine.sync.drive(self.end(reason, on_loop=False))

    async def arollback(self, reason: str = "It was rolled back.") -> None:
        """Put everything back; see `rollback`."""
        self._is_given_up = True
        await self.engine.asynchronous.drive(self.end(reason, on_loop=True))

    def close(self) -> None:
        """Roll it back, if it has not ended; the resources are its executor's."""
        self.retire(_CLOSED)

    def retire(self, why: str = _HOST_CLOSED) -> None:
        """Refuse calls from now on, and put everything back."""
        self.runtime.tell_abandoned(self)
        self.engine.sync.drive(self.end(why, on_loop=False))

    def __enter__(self) -> Self:
        # A call in the block that would wait for a lock of the transaction is refused at once.
        self._root.around = CURRENT.get()
        CURRENT.set(self._root)
        return self

    def __exit__(self, *error: object) -> None:
        self.engine.sync.drive(self._leave(error[1], on_loop=False))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        await self.engine.asynchronous.drive(self._leave(error[1], on_loop=True))

    def _leave(self, error: Any, *, on_loop: bool) -> Generator[Step, Any, None]:
        CURRENT.set(self._root.around)
        reason = None if error is None else f"Its block raised {type(error).__name__}."
        late = getattr(self._root.call_made.deadline, "reason", None)
        is_late = isinstance(error, ToolstileError) and late in {str(error), str(error.__cause__)}
        reason = late if is_late else reason
        self._is_given_up |= not (error is None or is_late)
        raised = yield from self.end(reason, on_loop=on_loop)
        if error is None or is_late:
            self._raise(raised or error)

    def __del__(self) -> None:
        if self.ended is None and self._process == os.getpid():
            # Not here: the collector runs in any thread, and a rollback may wait.
            args = ("It was forgotten before its end.",)
            threading.Thread(target=self._end_aside, args=args, daemon=True).start()

    def __repr__(self) -> str:
        """Return the title, and how it ended."""
        state = "open" if self.ended is None else self.ended.status
        return f"<Transaction {self.title!r}: {state}>"

    def _end_aside(self, reason: str) -> None:
        self.engine.sync.drive(self.end(reason, on_loop=False))

    def end(self, reason: str | None = None, *, on_loop: bool) -> Generator[Step, Any, Any]:
        """Keep everything, or put it back for a reason; return the exception that prevented it."""
        if self._process != os.getpid():
            raise StateError(OF_PARENT)
        thread = (threading.get_ident(),)
        self._ends.append(thread)
        if (first := self._ends[0]) is not thread:
            # Not for "", because the commit around it waits for the answer of a person.
            if reason and not self.decided.granted:
                self.refuse(reason)
                self._root.taken_back.cancel()
            # A signal handler, or another task, would keep this very thread from ending it.
            if not self.decided.granted and (on_loop or first != thread):
                yield WaitFor(self.decided, ENDLESS)
            return None
        root, error, why = self._root, None, ""
        try:
            for each in list(self.transactions):
                yield from each.end(_AROUND if reason else "", on_loop=on_loop)
            if reason is None:
                with suppress(GeneratorExit):
                    yield from root.finish(self, on_loop=on_loop)
                status, why, error = root.told
                # The end of a dry run is no failure.
                self._is_given_up |= error is None
            else:
                root.on_loop = on_loop
                status, why = TransactionStatus.ROLLED_BACK, reason or _AROUND
                try:
                    yield from root.give_up(why)
                except BaseException as interruption:  # noqa: BLE001 - raised when the end is told
                    error = interruption
            self.ended = TransactionEnded(
                id=self.id,
                title=self.title,
                status=status,
                calls=tuple(each.call.call_made.id for each in root.parts),
                session_id=self.session_id,
                timestamp=root.timestamp,
                duration=self.monotonic() - root.started,
                reason=why,
                parent_id=getattr(self._above, "id", None),
                reruns=root.reruns,
                principal=self.principal and self.principal.public(),
            )
            self._publish(self.ended)
        finally:
            self._stop_timer()
            over = f"{root.name} has ended. Dispatch by its executor, or begin another."
            self.refuse(why if why.startswith(root.name) else over)
            self.decided.open()
        if reason is not None and error is not None:
            raise error
        return error

    def _publish(self, ended: TransactionEnded) -> None:
        """Tell the plugins of the end, and of the ends of the savepoints that depend on it."""
        above = self._above.within
        if ended.status is TransactionStatus.COMMITTED and above is not None:
            above.inner += [*self._root.inner, ended]
            return
        hooks = self._host.plugins.implementations("toolstile_transaction")
        for each in (*self._root.inner, ended):
            told = replace(each, status=ended.status, reason=ended.reason)
            observe(self._root, hooks, "toolstile_transaction", told)

    def _raise(self, error: BaseException | None) -> None:
        """Raise if it was not kept, unless the application has put it back itself."""
        if error is not None and not isinstance(error, Exception):
            raise error
        if (ended := self.ended) is None:
            raise StateError(f"{self._root.name} is ending here already. Return first.")
        if ended.status is not TransactionStatus.COMMITTED and not self._is_given_up:
            if self._root.name not in (told := ended.reason):
                told = f"{self._root.name} was not kept: {told}"
            raise TransactionFailed(told, ended) from error

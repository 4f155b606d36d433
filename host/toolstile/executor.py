"""The executor: it dispatches calls in one session, with one prompt and one set of resources."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from toolstile.drivers.async_driver import AsyncDriver
from toolstile.drivers.job import Step
from toolstile.options import ExecutorOptions
from toolstile.pipeline.approval import read_answer
from toolstile.pipeline.batch import BatchOrder
from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.call_control import CallControlImpl
from toolstile.pipeline.environment import Environment, ExecutorHost, Resumption
from toolstile.pipeline.plan import (
    DispatchOptions,
    DispatchTable,
    PromptPlans,
    ToolPlan,
    changing_sections,
    shown_of,
)
from toolstile.pipeline.review import DryRun
from toolstile.pipeline.stages import life_of
from toolstile.policies.persistence import PolicyStore
from toolstile.prompt_overrides import set_up
from toolstile.resources.bindings import ResourceRegistry
from toolstile.resources.reserving import counting_apart
from toolstile.runtime import runtime_of
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
    StateError,
    Tool,
    ToolCall,
    ToolContext,
    ToolstileError,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.approval import GivenAnswer
from toolstile_hookspecs.calls import DRY_RUN, NO_CHANGES, NO_META
from toolstile_hookspecs.execution.options import Progress, ResumeArguments
from toolstile_hookspecs.execution.principal import RequestTexts, one_principal

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


class Executor:
    """Dispatches calls in one session; made by `Host.executor`.

    Use it as a context manager: leaving closes the resources it has built.

    Args:
        host: The host it belongs to.
        options: Everything else.
    """

    def __init__(self, host: ExecutorHost, options: ExecutorOptions) -> None:
        configuration = host.configuration
        self.engine = host.engine
        self.clock = options.clock or host.clock
        self.monotonic = self.clock.monotonic
        self.catalog = host.catalog
        self.session = options.session or host.session_of(options.session_id)
        self.session_id = self.session.id
        self.journal = self.session.journal
        self.runtime = runtime_of(self.session)
        self.approver: Approver | None = options.approver or host.approver
        self.approval_timeout = configuration.approval_timeout
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
        self.rehearsal: DryRun | None = None
        approve_diff, hear = configuration.approve_diff, options.on_answer
        self._manner = DispatchOptions(configuration.timeout, approve_diff, options.dry_run, hear)
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
        self.resources = self._registry(options).open()
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
        return self._own_prompt or self._host.prompt

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
            add_turns(self.session._store, turns)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nobody else writes it

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
        self, calls: Iterable[ToolCall], *, using: Sequence[ForeignCall | None] = ()
    ) -> list[Outcome | BaseException]:
        """Dispatch calls in parallel, isolated from one another.

        They commit in call order, and what comes out does not depend on their timing.

        Returns:
            The outcomes in call order, or in their place the exceptions that `dispatch` raises.

        Raises:
            TypeError: When they are no `ToolCall`s; none is dispatched then.
            ValueError: When `using` has not one callable, or None, for each of them.
        """
        active = batch_of(self, calls, using, on_loop=False)
        return in_place(active, self.engine.sync.drive_all(*lives_of(active)))

    async def adispatch_all(
        self, calls: Iterable[ToolCall], *, using: Sequence[ForeignCall | None] = ()
    ) -> list[Outcome | BaseException]:
        """Dispatch calls in parallel; see `dispatch_all`."""
        active = batch_of(self, calls, using, on_loop=True)
        if not active:
            return []
        ended = await self.engine.asynchronous.drive_all(*lives_of(active))
        return in_place(active, ended)

    def adispatch_each(
        self, calls: Iterable[ToolCall], *, using: Sequence[ForeignCall | None] = ()
    ) -> list[Coroutine[Any, Any, Outcome]]:
        """Return the calls of one batch, each to be carried out where it is awaited; await all."""
        active = batch_of(self, calls, using, on_loop=True)
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

    def rehearsed(self) -> str:
        """Return the changes that all calls of a dry run together would make."""
        rehearsal = self.rehearsal
        return NO_CHANGES if rehearsal is None else self.engine.sync.drive(rehearsal.changes())

    def close(self) -> None:
        """Refuse calls, end a dry run, and close the resources that were built, last first.

        A fork of the process leaves them to its parent.
        """
        if self._process != os.getpid():
            return
        self.retire(_CLOSED)
        try:
            # It stays: a call that has begun before it would be kept.
            if self.rehearsal is not None:
                self.engine.sync.drive(self.rehearsal.give_up())
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
        opened = OpenedSections.of(self.session) | set(request.section_keys)
        self.session[OpenedSections].replace(OpenedSections(opened))
        return self.prompt.render(self.session, self.resources)

    def retire(self, why: str = _HOST_CLOSED) -> None:
        """Refuse calls from now on, and say why; have what running ones run elsewhere ended."""
        self.refuse(why)
        self.runtime.tell_abandoned(self)

    def refuse(self, why: str) -> None:
        """Refuse calls from now on, and say why; running ones go on, as those of a parent do."""
        self.retired = why
        self._plans = None

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
        return self.engine.plans.of(self._host, prompt, self.session, self._manner, self._shown)

    def _rehearse(self) -> DryRun:
        with self._beginning:
            rehearsal = self.rehearsal = self.rehearsal or DryRun(self)
            return rehearsal

    def _shown_now(self) -> Hashable:
        return shown_of(self._changing, self.session, self.catalog)

    def _keep(self) -> PolicyStore | None:
        """Load the stored records of policies; return their store, if any policy has one."""
        places: tuple[Any, ...] = (self.prompt, self._host, *self.prompt.everywhere())
        policies = (policy for place in places for policy in place.policies)
        kept = [policy for policy in policies if isinstance(policy, PersistentPolicy)]
        if not kept:
            return None
        keeper = PolicyStore(kept, self._kept_apart)
        keeper.load(self.session, self.runtime.kept)
        return None if self.dry_run else keeper

    def _set_up_once(self, sections: Iterable[Section]) -> None:
        present = {id(section): section for section in sections}
        for known, section in present.items():
            if known not in self._set_up:
                set_up(section, self.session, self.catalog)
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
        before, self.context_fields = self.context_fields, {**self.context_fields, **fields}
        try:
            with self.resources.lent(values):
                yield
        finally:
            self.context_fields = before

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


# --- Batches


def batch_of(
    executor: Environment,
    calls: Iterable[ToolCall],
    using: Sequence[ForeignCall | None],
    *,
    on_loop: bool,
) -> list[ActiveCall]:
    """Return the calls of a batch, and what runs each where that is given.

    Raises:
        ValueError: When what runs them is not one callable, or None, for each.
    """
    made = list(calls)
    if using and len(using) != len(made):
        raise ValueError(
            f"`using` has {len(using)} entries for {len(made)} calls; give one callable, or None, "
            "for each call, in their order"
        )
    order = BatchOrder(len(made))
    return [
        ActiveCall(executor, call, batch=order, index=index, on_loop=on_loop, using=given)
        for index, (call, given) in enumerate(zip(made, using or [None] * len(made), strict=True))
    ]


def lives_of(
    calls: list[ActiveCall],
) -> tuple[list[Generator[Step, Any, Outcome]], Callable[[int], None]]:
    """Return the pipelines of a batch, and the function that ends one which never began."""

    def end(index: int) -> None:
        if not calls[index].ended:
            calls[index].end()

    return [life_of(call) for call in calls], end


def each_where_awaited(
    calls: list[ActiveCall], driver: AsyncDriver
) -> list[Coroutine[Any, Any, Outcome]]:
    """Return a batch as coroutines, each of which carries its call out in the task it runs in."""
    lives, end = lives_of(calls)

    async def carry_out(index: int) -> Outcome:
        try:
            return await driver.drive(lives[index])
        finally:
            end(index)

    return [carry_out(index) for index in range(len(calls))]


def in_place(
    calls: list[ActiveCall], ended: list[Outcome | BaseException]
) -> list[Outcome | BaseException]:
    """Return the ends of a batch; an exception that is one's own stands in its place."""
    for call, end in zip(calls, ended, strict=True):
        if isinstance(end, ToolstileError):
            end.call = call.call_made
        elif isinstance(end, BaseException) and not isinstance(end, Exception):
            raise end
    return ended

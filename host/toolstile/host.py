"""The host: plugins and configuration made ready, and executors that dispatch calls."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import WeakSet

from toolstile.lifespan import Lifespans
from toolstile.options import ExecutorOptions, HostOptions
from toolstile.plugins.offered_tools import PlainTools, ToolOffers, fitted, unknown_dependencies
from toolstile.plugins.registry import Plugins, approver_named, dialect_named
from toolstile.policies.rule_set import (
    faults_of,
    faults_of_sections,
    make_policies,
    ruled_by_tables,
    tools_within,
)
from toolstile.policies.rules import named, refuse_duplicates
from toolstile.settings import Settings, checked_seconds
from toolstile.settings.sources import overridden
from toolstile.state.session import Session
from toolstile.stored_sessions import Sessions, opened
from toolstile.value_calls import ValueCalls
from toolstile_hookspecs import (
    HOST_TIMEOUT,
    Approver,
    Binding,
    Catalog,
    Clock,
    ConfigurationError,
    DefinitionError,
    Dialect,
    PolicyStoreLocation,
    Prompt,
    StateError,
    SystemClock,
    ToolPolicy,
)
from toolstile_hookspecs.execution.options import ExecutorArguments, PlainTool, Purpose
from toolstile_hookspecs.execution.prompt_parts import PromptResources
from toolstile_hookspecs.stops import SCOPES, Stop
from toolstile_hookspecs.support.caches import forget
from toolstile_hookspecs.support.event_loop import off_loop
from toolstile_hookspecs.support.process import OF_PARENT, left_in_forks
from toolstile_hookspecs.tools import HostDefault

if TYPE_CHECKING:
    from toolstile.executor import Executor
    from toolstile.policies.approval_tokens import TokenSigner
    from toolstile.resources.container import Container
    from toolstile.runtime import Engine
    from toolstile.stops import Gate


_NOT_OPEN = "This host is not open; write: with Host() as host, host.executor() as tools: ..."
_reports = logging.getLogger("toolstile.plugins.reports")


class Host:
    """Finds plugins, reads the configuration, and makes executors.

    Args:
        config: The configuration file; found upward from the working directory if None.
        settings: Settings made in Python, in place of any file.
        plugins: Objects and modules to register besides the installed plugins.
        plugin_files: Single Python files to register.
        block: Names of plugins to leave out.
        discover: Whether to load the plugins that are installed; or the names of those to load.
        tools: Tools, and plain functions that become tools, offered beside the plugins' tools.
        policies: Policies over all tools.
        resources: Resources that win over the plugins' and sections', by type or as bindings.
        approver: Answers when a policy or a tool asks for a person.
        clock: Where time comes from.
        timeout: Seconds for tools that do not say, None for never; else as configured.
        interrupts: Exceptions of other frameworks that leave `dispatch` as they are.
        purpose: How much of the host opens: `look` starts nothing of the plugins, `call` all that
            calls need, `serve` ports for others, too.

    Raises:
        ConfigurationError: When the configuration, or an argument, is wrong.
        DefinitionError: When the resources make no bindings.
        PluginError: When a plugin given here is wrong, or one named is not installed.

    Example:
        >>> with Host(discover=False) as host:
        ...     list(host.catalog.names())
        []
    """

    _is_of_parent = False

    def __init__(  # noqa: PLR0913 - each is named and has a default
        self,
        *,
        config: Path | str | None = None,
        settings: Settings | None = None,
        plugins: Iterable[object] = (),
        plugin_files: Iterable[Path | str] = (),
        block: Collection[str] = (),
        discover: bool | Collection[str] = True,
        tools: Iterable[PlainTool] = (),
        policies: Iterable[ToolPolicy] = (),
        resources: Mapping[type[Any], Any] | Iterable[Binding[Any]] = (),
        approver: Approver | None = None,
        clock: Clock | None = None,
        timeout: float | HostDefault | None = HOST_TIMEOUT,
        interrupts: Iterable[type[BaseException]] = (),
        purpose: Purpose = "serve",
    ) -> None:
        options = self._options = HostOptions.checked(locals())
        self.configuration = options.configuration()
        self.clock = options.clock or SystemClock()
        self.purpose: Purpose = options.purpose
        self.resources = options.resources
        self._engine: Engine | None = None
        self._seal: TokenSigner | None = None
        self._gate: Gate | None = None
        # Held while the parts that all executors share are made, and while the host opens.
        self._making, self._opening = threading.Lock(), threading.RLock()
        bound = [binding.kind for binding in options.resources]
        self.plugins = Plugins(settings=self.configuration, block=options.block, bound=bound)
        files = options.plugin_files
        if options.discover:
            names = options.discover
            self.plugins.discover(None if isinstance(names, bool) else names)
        else:
            files = (*self.configuration.plugin_files, *files)
        for path in files:
            self.plugins.register_file(path)
        for plugin in options.plugins:
            self.plugins.register(plugin)
        if options.tools:
            self.plugins.register(PlainTools(options.tools), "tools")
        try:
            self.policies = self._make_policies(self.configuration)
        except ConfigurationError as error:
            # A plugin that failed may be why a kind of policy is not known.
            raise ConfigurationError("\n".join((str(error), *self.unmet()))) from None
        self.stray_names: set[str] = set()
        self._overrides = _load_overrides(self.configuration)
        self._prompt: tuple[int, Prompt] | None = None
        self._offers = ToolOffers()
        self._running = ExitStack()
        self.lifespans = Lifespans()
        self._executors: WeakSet[Executor] = WeakSet()
        self._sessions = Sessions(self.configuration)
        self._calls = ValueCalls(self, lambda: self.executor(session_id=self._sessions.own_id))
        self.is_open = False
        self.kept_apart: PolicyStoreLocation | None = None

    @property
    def engine(self) -> Engine:
        """The parts that all executors share: threads, the background loop, the drivers."""
        if (engine := self._engine) is None:
            from toolstile.runtime import Engine  # listing tools needs no event loop

            with self._making:
                engine = self._engine = self._engine or Engine(
                    self._options.interrupts, self.lifespans
                )
        return engine

    @property
    def gate(self) -> Gate:
        """The stops, and the marks of the decisions that `stop` waits for."""
        with self._making:
            if self._gate is None:
                from toolstile.stops import gate_of  # listing tools decides nothing

                settings, is_open, sessions = self.configuration, self.is_open, self._sessions
                if not is_open:
                    sessions = opened(self._bindings, self._running, settings)
                decides = is_open and self.purpose != "look"
                self._gate = gate_of(sessions.store, settings, decides=decides)
            return self._gate

    @property
    def seal(self) -> TokenSigner:
        """The signer of the tokens of calls that wait for approval."""
        with self._making:
            if self._seal is None:
                from toolstile.policies.approval_tokens import seal_for  # few calls wait

                self._seal = seal_for(self.configuration, self.clock, self._sessions)
            return self._seal

    def stop(
        self, reason: str, *, by: str = "host", seconds: float | None = None, **scope: Any
    ) -> None:
        """Stop calls in all processes with the same database of decisions, or configuration.

        When this returns, nothing of these calls is committed any more: running handlers are
        abandoned as at a timeout, and new calls are refused. A stop outlives its process.

        Args:
            reason: The reason, which models read.
            by: The person who stops them.
            seconds: Seconds after which the stop ends by itself; None if only `go` ends it.
            **scope: `tool`, `principal`, `session` or `server`, see `Stop`; none for all calls.

        Raises:
            StateError: A decision does not end within five seconds. Everything else is stopped.
            ConfigurationError: The reason is missing, or the seconds are not positive.
        """
        if not reason.strip() or len(scope) > 1 or not SCOPES.issuperset(scope):
            told = f"A stop has a reason, which models read, and at most one of {sorted(SCOPES)}."
            raise ConfigurationError(told)
        now = datetime.now(UTC)
        length = checked_seconds("seconds", seconds)
        until = None if length is None else now + timedelta(seconds=length)
        kind, name = next(iter(scope.items()), ("all", ""))
        made = Stop(" ".join(reason.split()), by, now, until, kind, name)  # type: ignore[arg-type]
        self.gate.change(lambda stops: (*stops, made))

    @property
    def is_alone(self) -> bool:
        """True if its stops concern this process alone; see `HostHandle.is_alone`."""
        return self.gate.is_alone

    def go(self, *stops: Stop) -> None:
        """End these stops; by default all."""
        self.gate.change(lambda held: tuple(each for each in held if stops and each not in stops))

    def stops(self) -> tuple[Stop, ...]:
        """Return the stops that are in force, the oldest first."""
        return self.gate.stops()

    def decides(self, words: Sequence[str]) -> bool:
        """Tell whether the command with these words needs a person; see `Command.decides`."""
        name, *rest = words or ("",)
        own = (each for each in self.plugins.commands() if each.name == name)
        return name == "go" or any(each.decides(rest) for each in own)

    def takes(self, token: str) -> bool:
        """Return False if the token of a pending call was sealed with a key that is gone."""
        if self.is_open:
            return self.seal.takes(token)
        from toolstile.policies.approval_tokens import seal_for  # only `toolstile doctor` asks

        with ExitStack() as asked:
            sessions = opened(self._bindings, asked, self.configuration)
            return seal_for(self.configuration, self.clock, sessions).takes(token)

    def register(self, plugin: object, name: str | None = None) -> None:
        """Register a plugin from Python; with an open host, enter its lifespan.

        Raises:
            PluginError: When it is wrong or cannot be started; nothing of it stays.
        """
        report = self.plugins.register(plugin, name)
        if not self.is_open:
            return
        try:
            self.lifespans.enter(self, self._running, only=report.name)
        except BaseException:
            self.plugins.unregister(report.name)
            raise

    def unregister(self, name: str) -> None:
        """Remove a plugin with all it offers; its lifespan is left after the last call under way.

        Raises:
            PluginError: When there is none of that name.
        """
        self.plugins.unregister(name)
        self.lifespans.leave(name)

    def configure(self, values: Mapping[str, Any]) -> None:
        """Let values, by dotted key, win over the configuration, before the host is opened.

        Raises:
            ConfigurationError: When a key or a value is wrong; nothing changes then.
            StateError: When the host is open.
        """
        if self.is_open:
            raise StateError("This host is open; configure it before it is opened.")
        before, configuration = self.configuration, overridden(self.configuration, values)
        overrides = _load_overrides(configuration)
        self.plugins.configure(configuration)
        try:
            self.policies = self._make_policies(configuration)
        except ConfigurationError:
            self.plugins.configure(before)
            raise
        self.configuration, self._overrides = configuration, overrides

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool and return its value; open the host first, if it is not open.

        A host that was opened by a call closes with the process, or by `close`. All these calls
        run in one session, and may come from several threads; if sessions are stored, it is the
        one named `host`. `executor` gives sessions, prompts and principals of your own.

        Args:
            tool: The name of the tool.
            **arguments: Its arguments.

        Raises:
            CallFailed: When the call did not succeed. Its text is the one for a model, its
                `outcome` the outcome.
            StateError: On a running event loop, where `acall` is needed; on a closed host.

        Example:
            >>> def add(a: int, b: int) -> int:
            ...     \"\"\"Add two integers.\"\"\"
            ...     return a + b
            >>> Host(discover=False, tools=[add]).call("add", a=1, b=2)
            3
        """
        return self._calls.call(tool, arguments)

    async def acall(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool on the event loop and return its value; see `call`."""
        return await self._calls.acall(tool, arguments)

    def executor(self, **arguments: Unpack[ExecutorArguments]) -> Executor:
        """Return the executor that dispatches calls, in a new session unless one is given.

        Args:
            **arguments: The session, the prompt, who asks, and so on; `ExecutorArguments` describes
                each of them.

        Raises:
            StateError: When the host is not open.
            ConfigurationError: An argument is unknown or wrong; names it.
            DefinitionError: When a tool or the resources are wrong, or tools depend in a circle.
        """
        options = ExecutorOptions.checked({**arguments})
        if not self.is_open:
            raise StateError(OF_PARENT if self._is_of_parent else _NOT_OPEN)
        if options.prompt is None and not options.tools:
            # Because the host checked the policies of the configuration when it opened.
            _refuse(self.wrong_rules(self.policies[len(self.configuration.policies) :]))
        from toolstile.executor import Executor  # brings the whole pipeline

        self.engine.gate = self.gate
        executor = Executor(self, options)
        self._executors.add(executor)
        return executor

    def session(self, text: str, *, kinds: Iterable[type[Any]] = ()) -> Session:
        """Return a session that was saved as JSON, in memory, with its id.

        Args:
            text: The JSON of a session or of its snapshot.
            kinds: The types of its slices besides the types that sections of plugins register.

        Raises:
            SnapshotError: When the text is malformed, of another version, or names an unknown type.
            PluginError: When a section cannot be set up.
        """
        from toolstile.prompt_overrides import set_up  # few hosts read one

        known = Session()
        for section in self.prompt.everywhere():
            set_up(section, known, self.catalog)
        return self._sessions.read(text, [*kinds, *known.kinds()])

    def session_of(self, session_id: str | None = None) -> Session:
        """Return the stored session of an id; where none is stored, or without an id, a new one.

        Raises:
            StateError: When the store of sessions cannot be read.
        """
        return self._sessions.get(session_id)

    @property
    def catalog(self) -> Catalog:
        """The tools of all plugins."""
        return self.plugins.catalog

    @property
    def prompt(self) -> Prompt:
        """The prompt made of the sections of all plugins."""
        generation = self.plugins.view.generation
        if self._prompt is None or self._prompt[0] != generation:
            self._prompt = (generation, self.offered(self.original_prompt))
        return self._prompt[1]

    @property
    def original_prompt(self) -> Prompt:
        """The same prompt with the texts of the code, whatever is overridden."""
        return Prompt.of("toolstile", "default", tuple(self.plugins.view.sections))

    @property
    def approver(self) -> Approver | None:
        """The approver: the one given, else the configured one."""
        given, name = self._options.approver, self.configuration.approver
        if given is not None or name is None:
            return given
        return approver_named(name, self.plugins)

    def offered(
        self, prompt: Prompt, tags: Collection[str] = (), without_tags: Collection[str] = ()
    ) -> Prompt:
        """Return a prompt with the overridden texts and the tools on offer; see `ToolOffers.of`."""
        if self._overrides is not None:
            prompt = self._overrides(prompt)
        configured = self._offers.configured(prompt, self.configuration, self.plugins.absent_tools)
        return fitted(self._offers.of(configured, tags, without_tags))

    def settings(self, plugin: str) -> Any:
        """Return a plugin's validated settings, or None if it declares no settings."""
        return self.plugins.settings_of(plugin)

    def state(self, plugin: str) -> Any:
        """Return the object that a plugin's lifespan has yielded, or None."""
        return self.plugins.states.get(plugin)

    def dialects(self) -> Mapping[str, Dialect]:
        """Return the dialects of all plugins by name."""
        return self.plugins.dialects()

    def dialect(self, name: str) -> Dialect:
        """Return a provider's dialect.

        Raises:
            ConfigurationError: When there is none of that name; lists those there are.
        """
        return dialect_named(name, self.plugins)

    def open(self) -> Self:
        """Open the host: enter the lifespans of the plugins.

        Raises:
            PluginError: Naming the plugin that cannot be started, the cause and the remedy;
                those started before are stopped again.
            ConfigurationError: The configuration names a missing plugin, tool or approver.
        """
        if self._is_of_parent:
            raise StateError(OF_PARENT)
        with self._opening:
            if not self.is_open:
                self._open()
        return self

    def _open(self) -> None:
        _refuse(self.unmet())
        for report in self.plugins.reports:
            if report.fault and report.status != "blocked" and report.source != "python":
                _reports.warning("%s", report)
        self.lifespans.enter(self, self._running)
        try:
            if self.purpose != "look":
                # Without the tools that come late, a rule may seem to name none.
                faults = self.wrong_rules()
                # An absent plugin has its own report, so its fault takes nothing else down.
                if not any(report.fault for report in self.plugins.reports):
                    tools = tools_within(self.original_prompt, self.catalog)
                    faults += unknown_dependencies(tools, self.plugins.absent_tools())
                _refuse(faults)
            self._sessions = opened(self._bindings, self._running, self.configuration)
        except BaseException:
            self.close()
            raise
        self.is_open, self._gate = True, None
        self._calls.is_ended = False
        left_in_forks.add(self)

    @property
    def _bindings(self) -> tuple[Binding[Any], ...]:
        return (*self.plugins.view.bindings, *self.resources)

    def unmet(self) -> list[str]:
        """Return the requirements of the configuration that are not met, a line each."""
        has_table = self.configuration.table_name
        unmet = self.plugins.tools_without_process()
        unmet += [
            str(each)
            for each in self.plugins.reports
            if each.is_unmet or (each.status == "failed" and has_table(each.name) is not None)
        ]
        try:
            _ = self.approver
        except ConfigurationError as error:
            unmet.append(str(error))
        return unmet

    def wrong_rules(self, policies: Sequence[ToolPolicy] | None = None) -> list[str]:
        """Return the unknown names in policies; in all but the application's own if None."""
        prompt, absent = self.prompt, self.plugins.absent_tools()
        tools = tools_within(prompt, self.catalog)
        if policies is not None:
            return faults_of(policies, tools, absent)
        own = self.policies[: len(self.configuration.policies)]
        own = (*own, *ruled_by_tables(self.configuration, self.plugins))
        # Because a model may read this after the host opened, it does not name the file.
        source = "" if self.is_open else f"{self.configuration.source_of('')}: "
        return faults_of(own, tools, absent, source) + faults_of_sections(prompt, tools, absent)

    def close(self) -> None:
        """Leave the plugins' lifespans, in reverse order; a fork leaves them to its parent."""
        if self._is_of_parent:
            return
        self.is_open = False
        left_in_forks.discard(self)
        self._calls.close()
        for executor in list(self._executors):
            # First, because a plugin's lifespan may wait for the calls that it runs.
            executor.runtime.tell_abandoned(executor)
        try:
            self._sessions.leave()
            self._running.close()
            self.lifespans.wait()
        finally:
            self.plugins.hold({})
            for executor in list(self._executors):
                executor.retire()
            self._executors.clear()
            # A call that is not abandoned may still decide.
            if self._gate is not None and not self.lifespans.calls:
                self._gate.close()
            self._gate = None
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def __repr__(self) -> str:
        """Return whether it is open, and how many tools and plugins it has."""
        loaded = sum(report.status == "loaded" for report in self.plugins.reports)
        state = "open" if self.is_open else "not open"
        tools, file = len(self.catalog.names()), self.configuration.path or "no configuration file"
        return f"<Host: {state}, {tools} tools, {loaded} plugins, {file}>"

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await off_loop(self.open)

    async def __aexit__(self, *error: object) -> None:
        await off_loop(self.close)

    forget = staticmethod(forget)

    def leave_to_parent(self) -> None:
        """Refuse everything from now on, because this process is a fork of the host's process."""
        self._is_of_parent = True
        self.is_open = False
        for executor in self._executors:
            executor.refuse(OF_PARENT)

    def _make_policies(self, configuration: Settings) -> tuple[ToolPolicy, ...]:
        policies = [
            *make_policies(configuration, self.plugins.view.policies),
            *named(self._options.policies, place="host"),
        ]
        try:
            refuse_duplicates(policies)
        except DefinitionError as error:
            raise ConfigurationError(str(error)) from None
        return tuple(policies)


def _refuse(faults: Iterable[str]) -> None:
    if told := "\n".join(faults):
        raise ConfigurationError(told)


def _load_overrides(configuration: Settings) -> Callable[[Prompt], Prompt] | None:
    if (path := configuration.prompt_overrides) is None:
        return None
    from toolstile.prompt_overrides import load_overrides, override  # most hosts override nothing

    return partial(override, overrides=load_overrides(path))


def _open(bindings: tuple[Binding[Any], ...]) -> Container:
    """Open the bindings of a prompt, with the resources of the host."""
    from toolstile.resources.bindings import ResourceRegistry  # few applications enter a prompt's

    return ResourceRegistry.of(*bindings).open()


PromptResources.open_with = staticmethod(_open)

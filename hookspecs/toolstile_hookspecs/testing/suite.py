"""The base of the suites: checks of fixtures, the test bench, tools that do nothing."""

# pyright: reportReturnType=false

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, NoReturn, Protocol, TypeVar, get_args

import pytest

from toolstile_hookspecs._tools.field_checks import call_fault
from toolstile_hookspecs.approval import ApprovalAnswer, ApprovalRequest
from toolstile_hookspecs.calls import Outcome, ToolCall, ToolInvoked
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.errors import DefinitionError
from toolstile_hookspecs.handles import Dialect, ExecutorHandle, HostHandle
from toolstile_hookspecs.results import ToolResult
from toolstile_hookspecs.services.ledger import LedgerStore, with_renamed_methods
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.tools import Category, Consequence, Tool

R = TypeVar("R")

_FIXTURE: Final = type(pytest.fixture(lambda: None))


class Contract:
    """A suite that checks the fixtures of a subclass, and names a wrong one with the remedy.

    Each keyword of a suite's class statement is the name of a fixture. Its value is the protocol of
    the object that the fixture returns, None if the host checks the object, or, for a function,
    the names of its arguments.
    """

    _fixtures: ClassVar[Mapping[str, type[Any] | tuple[str, ...] | None]] = {}

    def __init_subclass__(cls, **fixtures: type[Any] | tuple[str, ...] | None) -> None:
        super().__init_subclass__()
        cls._fixtures = {**cls._fixtures, **fixtures}
        for name in cls._fixtures:
            if name in vars(cls) and not isinstance(vars(cls)[name], _FIXTURE):
                refuse(cls, name, f"is not a fixture. Write @pytest.fixture above def {name}(self)")

    @pytest.fixture(autouse=True)
    def _fixtures_fit(self, request: pytest.FixtureRequest) -> None:
        """Refuse fixtures that are half written."""
        # All are made in their order, because fixtures of the suite may need those of the subclass.
        for name in request.fixturenames:
            if name == request.fixturename:
                continue
            given = request.getfixturevalue(name)
            if name in self._fixtures:
                wanted = self._fixtures[name]
                if isinstance(wanted, tuple):
                    self._look_at_function(name, given, wanted)
                else:
                    self._look_at(name, given, wanted)

    def _look_at(self, name: str, given: Any, protocol: type[Any] | None) -> None:
        if given is None:
            self._fail(name, "gives None. A `return` may be missing")
        if protocol is None:
            return
        if inspect.isclass(given):
            self._fail(name, f"gives the class {given.__name__}. Let it return an instance")
        if protocol is LedgerStore:
            with_renamed_methods(given)
        wanted = {*getattr(protocol, "__annotations__", ()), *vars(protocol)}
        missing = sorted(each for each in wanted if each[0] != "_" and not hasattr(given, each))
        if missing:
            what, all_of_it = type(given).__name__, ", no ".join(missing)
            self._fail(name, f"gives a {what}, which has no {all_of_it}. See {protocol.__name__}")

    def _look_at_function(self, name: str, given: Any, arguments: tuple[str, ...]) -> None:
        taken = ", ".join(arguments)
        remedy = f"Let it return a function{f' of ({taken})' if taken else ''}"
        if not callable(given):
            self._fail(name, f"gives {given!r}. {remedy}")
        if (fault := call_fault(given, *arguments)) is not None:
            self._fail(name, f"gives a function that cannot be called: {fault}. {remedy}")

    def _fail(self, name: str, fault: str) -> NoReturn:
        pytest.fail(f"The fixture `{name}` of {type(self).__name__} {fault}.", pytrace=False)

    def _must_give(self, name: str, what: str) -> NoReturn:
        kind = type(self).__name__
        raise pytest.UsageError(f"Override the fixture `{name}` in {kind} with one that {what}.")


class PluginContract(Contract, options=None, break_it=()):
    """A suite of plugins; `options` are the options of `toolstile_tools`.

    The suite calls `break_it` to make the plugin fail inside. Leave the fixture out if nothing can.
    """

    @pytest.fixture
    def plugin(self) -> object:
        """Return the plugin: a module, an object, or the name of an installed one."""
        self._must_give("plugin", "gives your plugin")

    @pytest.fixture
    def options(self) -> Mapping[str, Any]:
        """Return the options of `toolstile_tools`."""
        return {}

    @pytest.fixture
    def break_it(self) -> Callable[[], None]:
        """Return a function that makes the plugin fail inside."""
        pytest.skip("Nothing makes this plugin fail inside.")


class StoreContract(Contract):
    """A suite of stores; the fixture `store` of a subclass returns an empty store.

    `again` returns a second store over the same content, as another process would open it, or
    the same store if there can be no second one.

    Example:
        >>> import pytest
        >>> from toolstile_hookspecs.testing import SessionStoreContract
        >>> class TestMine(SessionStoreContract):
        ...     @pytest.fixture
        ...     def store(self, tmp_path):
        ...         return MyStore(tmp_path)
    """

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store."""
        self._must_give("store", "gives an empty store")

    @pytest.fixture
    def again(self, store: Any) -> Any:
        """Return a second store over the same content."""
        return store


def at_once(work: Callable[[int], R], threads: int = 4) -> list[R]:
    """Return the results of a function that threads call at once, each with its number."""
    gate = threading.Barrier(threads)

    def run(number: int) -> R:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


def at(seconds: float) -> datetime:
    """Return the moment some seconds after the first of January 2026."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def refuse(contract: type[Contract], name: str, fault: str) -> NoReturn:
    """Raise the `DefinitionError` for a wrong attribute of a subclass."""
    raise DefinitionError(f"{contract.__name__}: `{name}` {fault}.")


@dataclass
class Thing:
    """The mutable params of the stub tools; a policy must not change them."""

    name: str = ""
    count: int = 0
    path: str = "a.txt"
    tags: tuple[str, ...] = ()


def _stand_in(name: str, **options: Any) -> Tool[Any, Any]:
    def handler(params: Thing, *, context: ToolContext) -> ToolResult[str]:  # noqa: ARG001 - its form
        return ToolResult.ok("Done.")

    given: dict[str, Any] = {"description": "Do nothing.", "contained": True, **options}
    return Tool[Thing, str](name=name, handler=handler, **given)


STAND_INS: Final[tuple[Tool[Any, Any], ...]] = (
    *(_stand_in(f"{each}_thing", category=each) for each in get_args(Category)),
    *(_stand_in(f"{each}_thing", consequence=each) for each in get_args(Consequence)),
)
"""`read_thing`, `write_thing`, `delete_thing`, `side_effect_thing`, and `low_thing`,
`medium_thing`, `high_thing` of these consequences; each takes a `Thing`."""

_STRANGE: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"name": "", "count": 0, "path": "", "tags": []},
    {"name": "\N{SNOWMAN}\0'\"\\;--", "count": -1, "path": "../../etc/passwd"},
    {"name": "x" * 10_000, "count": 10**18, "tags": ["x"] * 1_000},
)

STRANGE_CALLS: Final = tuple((tool.name, arguments) for tool in STAND_INS for arguments in _STRANGE)
"""Calls of every stand-in that no policy expects."""


# --- The test bench


class BenchHost(HostHandle, Protocol):
    """A host with all its dialects."""

    def dialects(self) -> Mapping[str, Dialect]:
        """Return the dialects of all plugins by name."""


class Bench(Protocol):
    """Calls tools in one session of one host."""

    @property
    def host(self) -> BenchHost:
        """The host."""

    @property
    def executor(self) -> ExecutorHandle:
        """The executor of its calls."""

    @property
    def session(self) -> SessionProtocol:
        """The session that the calls run in."""

    @property
    def events(self) -> Sequence[ToolInvoked]:
        """The events of all calls so far."""

    def settings_of(self, plugin: object) -> Any:
        """Return the validated settings of a plugin that was given."""

    def call(self, name: str, /, **arguments: Any) -> Outcome:
        """Call a tool, and wait for the outcome."""

    def dispatch(self, call: ToolCall) -> Outcome:
        """Dispatch a call, and wait for the outcome."""


AnyTool = Tool[Any, Any]

MakeBench = Callable[..., Bench]
"""The fixture `toolstile_tools`, which takes plugins and options; see the guide to testing."""

OpenBench = Callable[..., Bench]
"""The function that opens a bench with the subject of the suite and further plugins."""

both_drivers = pytest.mark.parametrize("toolstile_driver", ["sync", "async"])


def state_of(bench: Bench) -> str:
    """Return the state of a bench's session as JSON, to be compared."""
    return bench.session.snapshot().to_json()


def approve(request: ApprovalRequest) -> ApprovalAnswer:  # noqa: ARG001 - any request
    """Answer as a person who agrees to anything."""
    return ApprovalAnswer.approve()


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the host's log messages about plugins and policies that failed."""
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    texts = [each.getMessage() for each in errors if each.name.startswith("toolstile")]
    return [text for text in texts if text.startswith(("Plugin ", "Policy "))]

"""The base of the suites: it checks what a subclass provides before using it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, NoReturn, TypeVar

import pytest

from toolstile_hookspecs._tools.field_checks import call_fault
from toolstile_hookspecs.errors import DefinitionError

R = TypeVar("R")

_FIXTURE: Final = type(pytest.fixture(lambda: None))


class Contract:
    """A suite; what a subclass gives wrongly is told with its name, and what to write."""

    _gives: ClassVar[Mapping[str, type[Any] | None]] = {}
    """The fixtures that give objects, each with the protocol of these; None where the host says
    what is wrong with one."""
    _takes: ClassVar[Mapping[str, Collection[str]]] = {}
    """The fixtures that give functions, each with the names of what these take."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in (*cls._gives, *cls._takes):
            if name in vars(cls) and not isinstance(vars(cls)[name], _FIXTURE):
                refuse(cls, name, f"is not a fixture. Write @pytest.fixture above def {name}(self)")

    @pytest.fixture(autouse=True)
    def _what_is_given_fits(self, request: pytest.FixtureRequest) -> None:
        """Tell of fixtures that are half written."""
        # All are made here, in their order: those that a subclass uses by itself come first, as
        # what it gives may need them.
        for name in request.fixturenames:
            if name == request.fixturename:
                continue
            given = request.getfixturevalue(name)
            if name in self._gives:
                self._look_at(name, given, self._gives[name])
            elif name in self._takes:
                self._look_at_function(name, given)

    def _look_at(self, name: str, given: Any, protocol: type[Any] | None) -> None:
        if given is None:
            self._fail(name, "gives None. A `return` may be missing")
        if protocol is None:
            return
        if inspect.isclass(given):
            self._fail(name, f"gives the class {given.__name__}. Let it return an instance")
        wanted = {*getattr(protocol, "__annotations__", ()), *vars(protocol)}
        missing = sorted(each for each in wanted if each[0] != "_" and not hasattr(given, each))
        if missing:
            what, all_of_it = type(given).__name__, ", no ".join(missing)
            self._fail(name, f"gives a {what}, which has no {all_of_it}. See {protocol.__name__}")

    def _look_at_function(self, name: str, given: Any) -> None:
        taken = ", ".join(self._takes[name])
        remedy = f"Let it return a function{f' of ({taken})' if taken else ''}"
        if not callable(given):
            self._fail(name, f"gives {given!r}. {remedy}")
        if (fault := call_fault(given, *self._takes[name])) is not None:
            self._fail(name, f"gives a function that cannot be called: {fault}. {remedy}")

    def _fail(self, name: str, fault: str) -> NoReturn:
        pytest.fail(f"The fixture `{name}` of {type(self).__name__} {fault}.", pytrace=False)

    def _must_give(self, name: str, what: str) -> NoReturn:
        kind = type(self).__name__
        raise pytest.UsageError(f"Override the fixture `{name}` in {kind} with one that {what}.")


class PluginContract(Contract):
    """A suite of plugins; `options` is what `toolstile_tools` takes besides the plugin.

    `break_it` is called to make the plugin fail inside; where nothing can, leave it.
    """

    @pytest.fixture
    def plugin(self) -> object:
        """Return the plugin: a module, an object, or the name of an installed one."""
        self._must_give("plugin", "gives your plugin")

    @pytest.fixture
    def options(self) -> Mapping[str, Any]:
        """Return what `toolstile_tools` takes besides."""
        return {}

    @pytest.fixture
    def break_it(self) -> Callable[[], None]:
        """Return what makes the plugin fail inside."""
        pytest.skip("Nothing makes this plugin fail inside.")


class StoreContract(Contract):
    """A suite of stores; a subclass says with `store` how an empty one is made.

    `again` gives a second store over the same content, as another process would open it; where
    there can be none, it gives the same one.
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
    """Return the results of a function that threads call at one moment, each with its number."""
    gate = threading.Barrier(threads)

    def run(number: int) -> R:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


def at(seconds: float) -> datetime:
    """Return a moment, so many seconds after the first of 2026."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def refuse(contract: type[Contract], name: str, fault: str) -> NoReturn:
    """Say that an attribute of a subclass is not what it has to be.

    Raises:
        DefinitionError: Always.
    """
    raise DefinitionError(f"{contract.__name__}: `{name}` {fault}.")

"""The conformance suite of an observer, to subclass."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from numbers import Number
from typing import Any, ClassVar

import pytest

from toolstile_hookspecs.testing.outcomes import (
    SECRET,
    EveryOutcome,
    dispatched,
    every_call,
    wait_for_a_person,
)
from toolstile_hookspecs.testing.stubs import (
    Bench,
    MakeBench,
    OpenBench,
    both_drivers,
    complaints,
    state_of,
)
from toolstile_hookspecs.testing.suite import PluginContract


class ObserverContract(PluginContract):
    """Tests of an observer; a subclass says with `plugin` what it is.

    It hears of calls that come to every end there is. `options` is what `toolstile_tools` takes
    besides the plugin. `heard` gives a function of a bench that tells how many calls the observer
    has heard of so far; `written` one that returns everything that it has written, as text;
    `break_it` one that makes it fail inside, as where what it writes to is gone. Of these, leave
    what does not apply.

    Example:
        >>> class TestMetrics(ObserverContract):
        ...     @pytest.fixture
        ...     def plugin(self):
        ...         return Metrics()
        ...
        ...     @pytest.fixture
        ...     def heard(self, plugin):
        ...         return lambda bench: plugin.calls.total()
    """

    _gives: ClassVar[Mapping[str, type[Any] | None]] = {"plugin": None, "options": None}
    _takes: ClassVar[Mapping[str, Collection[str]]] = {
        "heard": ("bench",),
        "written": ("bench",),
        "break_it": (),
    }

    @pytest.fixture
    def heard(self) -> Callable[[Bench], float]:
        """Return what tells how many calls were heard of."""
        pytest.skip("This observer does not tell how many calls it has heard of.")

    @pytest.fixture
    def written(self) -> Callable[[Bench], str]:
        """Return what returns everything that was written."""
        pytest.skip("This observer writes nothing that can be read.")

    @pytest.fixture
    def open_with(
        self, toolstile_tools: MakeBench, options: Mapping[str, Any]
    ) -> Iterator[OpenBench]:
        """Return what opens a bench with plugins, whose calls come to every end."""
        ends = EveryOutcome()

        def opened(*plugins: object) -> Bench:
            given = {"approver": wait_for_a_person, **(options if plugins else {})}
            return toolstile_tools(*plugins, ends, **given)

        yield opened
        ends.over.set()

    # --- what it does ---

    @both_drivers
    def test_it_takes_every_outcome(
        self, open_with: OpenBench, plugin: object, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench = open_with(plugin)
        for status, call in every_call():
            caplog.clear()
            came_to, _ = dispatched(bench, call)
            assert came_to == status
            assert not complaints(caplog), f"{status}: {complaints(caplog)[0]}"

    @both_drivers
    def test_it_hears_of_every_call_once(
        self, open_with: OpenBench, plugin: object, heard: Callable[[Bench], float]
    ) -> None:
        bench = open_with(plugin)
        for status, call in every_call():
            before, events = heard(bench), len(bench.events)
            is_number = isinstance(before, Number)
            assert is_number, f"`heard` gives {before!r}. Return a number"
            dispatched(bench, call)
            assert heard(bench) - before == len(bench.events) - events, f"{status}: {call.name}"

    @both_drivers
    def test_it_changes_no_outcome(self, open_with: OpenBench, plugin: object) -> None:
        alone, observed = open_with(), open_with(plugin)
        for _, call in every_call():
            assert dispatched(observed, call) == dispatched(alone, call)
        assert _slices(observed) == _slices(alone), "It changes the session"

    def test_a_failure_inside_changes_no_outcome(
        self, open_with: OpenBench, plugin: object, break_it: Callable[[], None]
    ) -> None:
        alone, observed = open_with(), open_with(plugin)
        break_it()
        for _, call in every_call():
            assert dispatched(observed, call) == dispatched(alone, call)

    def test_nothing_secret_is_written(
        self, open_with: OpenBench, plugin: object, written: Callable[[Bench], str]
    ) -> None:
        bench = open_with(plugin)
        for _, call in every_call():
            dispatched(bench, call)
        text: object = written(bench)
        assert isinstance(text, str), f"`written` gives {type(text).__name__}. Return text"
        assert text, "It has written nothing"
        _assert_masked(text, "what it writes")

    @both_drivers
    def test_nothing_secret_is_logged_or_printed(
        self,
        open_with: OpenBench,
        plugin: object,
        caplog: pytest.LogCaptureFixture,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        caplog.set_level(logging.DEBUG)
        bench = open_with(plugin)
        for _, call in every_call():
            dispatched(bench, call)
        _assert_masked(caplog.text, "what is logged")
        _assert_masked("\n".join(capsys.readouterr()), "what is printed")


def _slices(bench: Bench) -> Any:
    return json.loads(state_of(bench))["slices"]


def _assert_masked(text: str, where: str) -> None:
    found = text.find(SECRET)
    around = text[max(found - 200, 0) : found + 100]
    assert found < 0, f"A secret is in clear in {where}: {around}"

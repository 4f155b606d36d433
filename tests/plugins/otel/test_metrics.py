"""The duration of each call, as the conventions measure it."""

from __future__ import annotations

from typing import Any

from toolstile_hookspecs import tool


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def test_the_histogram_is_as_the_conventions_say(traced: Any) -> None:
    traced.open(add)
    traced.call("add", a=1, b=2)

    (metric,) = traced.metrics()
    assert metric.name == "gen_ai.execute_tool.duration"
    assert metric.unit == "s"
    assert metric.description == "The duration of a single tool execution."
    (point,) = metric.data.data_points
    assert point.explicit_bounds == (
        *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28),
        *(2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    )
    assert dict(point.attributes) == {"gen_ai.tool.name": "add", "gen_ai.tool.type": "function"}


def test_it_is_as_long_as_the_span(traced: Any) -> None:
    traced.open(add)
    traced.call("add", a=1, b=2)
    (point,) = traced.points()
    assert point.count == 1
    assert point.sum == (traced.span.end_time - traced.span.start_time) / 1_000_000_000


def test_errors_are_counted_by_their_class(traced: Any) -> None:
    traced.open(add)
    for arguments in ({"a": 1, "b": 2}, {"a": 1}, {}):
        traced.call("add", **arguments)
    counts = {point.attributes.get("error.type"): point.count for point in traced.points()}
    assert counts == {None: 1, "invalid": 2}


def test_names_that_no_tool_has_are_one_series(traced: Any) -> None:
    traced.open(add)
    for name in ("ad", "adder", "sum"):
        traced.call(name)
    (point,) = traced.points()
    assert point.count == 3
    assert dict(point.attributes) == {
        "gen_ai.tool.name": "_OTHER",
        "gen_ai.tool.type": "function",
        "error.type": "unknown_tool",
    }

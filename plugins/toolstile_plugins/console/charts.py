"""Charts over the last day, drawn as SVG out of the sums in the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from toolstile_hookspecs import HostHandle, Status
from toolstile_hookspecs.support.text import duration
from toolstile_plugins.console.call_index import CallIndex
from toolstile_plugins.console.pages import Pages
from toolstile_plugins.console.sums import (
    ANSWERED,
    OUTCOME,
    REFUSAL,
    SPAN,
    STAGE,
    WAIT,
    WENT_ON,
    Sum,
)

DAY: Final = 24 * 3600
WIDTH: Final = 10
HEIGHT: Final = 100
_LEAST: Final = 1.5
"""The height of the lowest bar, so that one failed call among thousands is seen."""
_ROOM: Final = 20
"""The height that lowest bars may need above the others."""
_COLOURS: Final = ("bad", "person", "run", "keep", "check")
_OUTCOMES: Final = {Status.SUCCEEDED: "good", Status.DENIED: "warn", Status.PENDING: "warn"}
_STAGES: Final = {"checks": "check", "handler": "run", "keeping": "keep"}
_WAITS: Final = {ANSWERED: "person", WENT_ON: "check"}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a column, in the units of the drawing."""

    colour: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """Half an hour: its bars, and its figures in words."""

    x: int
    told: str
    bars: list[Bar]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: columns, and a row of a table for each colour."""

    title: str
    most: str  # the value of the highest column
    columns: list[Column]
    rows: list[tuple[str, str, str]]  # colour, name and figure of the whole day


class Measure(NamedTuple):
    """A figure of sums, and the figure in words."""

    of: Callable[[Iterable[Sum]], float]
    text: Callable[[float], str]


def _number(sums: Iterable[Sum]) -> float:
    return sum(each.number for each in sums)


def _seconds(sums: Iterable[Sum]) -> float:
    return sum(each.seconds for each in sums)


def _mean(sums: Iterable[Sum]) -> float:
    found = [*sums]
    return _seconds(found) / _number(found)


NUMBER: Final = Measure(_number, "{:,.0f}".format)
SECONDS: Final = Measure(_seconds, duration)
MEAN: Final = Measure(_mean, duration)


def charts_of(sums: Iterable[Sum], now: datetime) -> list[Chart]:
    """Return the charts of the day before a moment."""
    last = int(now.timestamp()) // SPAN * SPAN
    times = range(last - DAY + SPAN, last + SPAN, SPAN)
    found: dict[str, dict[str, dict[int, Sum]]] = {}
    for each in sums:
        if each.at in times:
            found.setdefault(each.kind, {}).setdefault(each.name, {})[each.at] = each
    outcomes, refusals = found.get(OUTCOME, {}), found.get(REFUSAL, {})
    statuses = {each.value: _OUTCOMES.get(each, "bad") for each in Status}
    rules = sorted(refusals, key=lambda rule: (-_number(refusals[rule].values()), rule))
    coloured = dict(zip_longest(rules, _COLOURS[: len(rules)], fillvalue=_COLOURS[-1]))
    return [
        _chart("Calls by outcome", statuses, outcomes, times, NUMBER),
        _chart("Time by stage, without people", _STAGES, found.get(STAGE, {}), times, SECONDS),
        _chart("Waits for people, on average", _WAITS, found.get(WAIT, {}), times, MEAN),
        _chart("Refusals by rule", coloured, refusals, times, NUMBER),
    ]


def _chart(
    title: str,
    colours: Mapping[str, str],
    found: Mapping[str, Mapping[int, Sum]],
    times: range,
    measure: Measure,
) -> Chart:
    series = {name: found[name] for name in colours if name in found}
    columns = [
        {name: measure.of([sums[at]]) for name, sums in series.items() if at in sums}
        for at in times
    ]
    most = max(sum(column.values()) for column in columns)
    drawn: list[Column] = []
    for place, (at, column) in enumerate(zip(times, columns, strict=True)):
        bars: list[Bar] = []
        y = float(HEIGHT)
        for name, value in column.items():
            if value:
                y -= (height := max(_LEAST, (HEIGHT - _ROOM) * value / most))
                bars.append(Bar(colours[name], round(y, 2), round(height, 2)))
        told = ", ".join(f"{measure.text(each)} {_words(name)}" for name, each in column.items())
        if bars:
            time = datetime.fromtimestamp(at, UTC)
            drawn.append(Column(place * WIDTH, f"{time:%H:%M}: {told}", bars))
    rows = [
        (colours[name], _words(name), measure.text(measure.of(sums.values())))
        for name, sums in series.items()
    ]
    return Chart(title, measure.text(most), drawn, rows)


def _words(name: str) -> str:
    return name.replace("_", " ")


class Charts:
    """Shows the charts of the last day."""

    def __init__(self, host: HostHandle, index: CallIndex, pages: Pages) -> None:
        self._host = host
        self._index = index
        self._pages = pages

    def routes(self) -> list[BaseRoute]:
        return [Route("/charts", self._show)]

    def _show(self, request: Request) -> Response:
        now = self._host.clock.now().astimezone(UTC)
        sums = self._index.sums(int(now.timestamp()) - DAY)
        charts = [chart for chart in charts_of(sums, now) if chart.rows]
        values = {
            "charts": charts,
            "now": now,
            "width": DAY // SPAN * WIDTH,
            "height": HEIGHT,
            "is_kept": bool(self._index.places),
        }
        return self._pages.show(request, "charts.html", values, [asdict(each) for each in charts])

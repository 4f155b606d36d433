"""Charts over the last day, drawn as SVG out of the sums in the index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from toolstile_hookspecs import HostHandle
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
_COLOURS: Final = {
    "succeeded": "good",
    "denied": "warn",
    "pending": "warn",
    "checks": "check",
    "handler": "run",
    "keeping": "keep",
    ANSWERED: "person",
    WENT_ON: "check",
}
"""The colours of names, from the lowest bar up. Other bars are above, the largest first."""
_RULES: Final = ("bad", "person", "run", "keep", "check")
"""The colours of rules; all rules after the fifth have its colour."""


class Chart(NamedTuple):
    """A chart: columns of half an hour, and a row of a table for each colour."""

    title: str
    most: str  # the value of the highest column
    columns: list[tuple[int, str, list[tuple[str, float, float]]]]
    """The place, the figures in words, and the colour, place and height of each bar."""
    rows: list[tuple[str, str, str]]  # the colour, the name, and the figure of the whole day


def charts_of(sums: Iterable[Sum], now: datetime) -> list[Chart]:
    """Return the charts of the day before a moment, without the empty ones."""
    last = int(now.timestamp()) // SPAN * SPAN
    times = range(last - DAY + SPAN, last + SPAN, SPAN)
    found: dict[str, dict[str, dict[int, Sum]]] = {}
    for each in sums:
        if each.at in times:
            found.setdefault(each.kind, {}).setdefault(each.name, {})[each.at] = each
    return [
        _chart(kind, found[kind], times)
        for kind in (OUTCOME, STAGE, WAIT, REFUSAL)
        if kind in found
    ]


def _value(kind: str, sums: Collection[Sum]) -> float:
    number, seconds = sum(each.number for each in sums), sum(each.seconds for each in sums)
    return seconds if kind == STAGE else seconds / number if kind == WAIT else number


def _chart(kind: str, found: Mapping[str, Mapping[int, Sum]], times: range) -> Chart:
    days = {name: _value(kind, sums.values()) for name, sums in found.items()}
    known = [*_COLOURS]
    names = sorted(days, key=lambda name: ([*known, name].index(name), -days[name], name))
    others = _RULES if kind == REFUSAL else _RULES[:1]
    colours = [_COLOURS.get(name, others[min(i, len(others) - 1)]) for i, name in enumerate(names)]
    text: Callable[[float], str] = duration if kind in {STAGE, WAIT} else "{:,.0f}".format
    series = [found[name] for name in names]
    columns = [[_value(kind, [sums[at]]) if at in sums else 0.0 for sums in series] for at in times]
    most = max(map(sum, columns))
    drawn: list[tuple[int, str, list[tuple[str, float, float]]]] = []
    for place, column in enumerate(columns):
        bars: list[tuple[str, float, float]] = []
        told: list[str] = []
        y = float(HEIGHT)
        for name, colour, value in zip(names, colours, column, strict=True):
            if value:
                y -= (height := max(_LEAST, (HEIGHT - _ROOM) * value / most))
                bars.append((colour, round(y, 2), round(height, 2)))
                told.append(f"{text(value)} {name.replace('_', ' ')}")
        if bars:
            time = datetime.fromtimestamp(times[place], UTC)
            drawn.append((place * WIDTH, f"{time:%H:%M}: {', '.join(told)}", bars))
    shown = zip(colours, names, strict=True)
    rows = [(colour, name.replace("_", " "), text(days[name])) for colour, name in shown]
    return Chart(kind, text(most), drawn, rows)


def charts(host: HostHandle, index: CallIndex, pages: Pages) -> Route:
    """Return the route of the page with the charts of the last day."""

    def show(request: Request) -> Response:
        now = host.clock.now().astimezone(UTC)
        found = charts_of(index.sums(int(now.timestamp()) - DAY), now)
        values = {"charts": found, "now": now, "width": DAY // SPAN * WIDTH, "height": HEIGHT}
        values["is_kept"] = bool(index.places)
        return pages.show(request, "charts.html", values, [each._asdict() for each in found])

    return Route("/charts", show)

"""The section Rules: the rules over each tool, and a backtest of the rules on recorded calls."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from threading import Lock, Thread
from typing import Any, ClassVar, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from toolstile_hookspecs import ConfigurationError, HostHandle, ToolstileError
from toolstile_plugins.console.access import Fields
from toolstile_plugins.console.call_index import CallIndex
from toolstile_plugins.console.pages import Pages, version_of
from toolstile_plugins.policies.checks import rules_over
from toolstile_plugins.rules.commands import CONFIRMATION, Report, backtest

log = logging.getLogger("toolstile.console")

NEWEST: Final = 10_000
"""The calls of a backtest."""


@dataclass(eq=False)
class Rules:
    """Shows the rules over each tool, and runs one backtest at a time on a thread."""

    title: ClassVar[str] = "Rules"
    path: ClassVar[str] = "rules"

    _host: HostHandle
    _index: CallIndex
    _pages: Pages
    _lock: Lock = field(default_factory=Lock)
    _running: Report | None = None
    _fault: str = ""  # of the last backtest

    @property
    def _saved(self) -> Path | None:
        """The file of the last result, beside the first record."""
        found = (place.with_name(f"{place.name}.backtest.json") for place in self._index.places)
        return next(found, None)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/rules", self._list),
            self._pages.form("/rules/backtest", self._start, once=True),
        ]

    def version(self) -> str:
        return version_of(self._wire())

    def _list(self, request: Request) -> Response:
        wire = self._wire()
        tools, tested = wire["tools"], {**wire, "tools": None}
        values = {
            **wire,
            "newest": NEWEST,
            "is_recorded": bool(self._index.places),
            "versions": {"tools": version_of(tools), "backtest": version_of(tested)},
        }
        return self._pages.show(request, "rules.html", values, wire)

    def _wire(self) -> dict[str, Any]:
        running, fault = self._running, self._fault
        try:
            saved = None if self._saved is None else Report.load(self._saved)
        except ConfigurationError as error:
            saved, fault = None, str(error)
        # A tool of the prompt has the corrections of the configuration.
        offered = (tool for section in self._host.prompt.everywhere() for tool in section.tools)
        tools = {tool.name: tool for tool in (*self._host.catalog, *offered)}
        asks = {name for name, tool in tools.items() if tool.requires_confirmation}
        return {
            "tools": [
                {
                    "tool": name,
                    "rules": rules_over(self._host, tools[name]) + [CONFIRMATION] * (name in asks),
                }
                for name in sorted(tools)
            ],
            "running": None if running is None else running.calls,
            "fault": fault,
            "backtest": None if saved is None else saved.model_dump(mode="json"),
        }

    def _start(self, request: Request, _: Fields) -> Response:
        if self._saved is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "No calls are recorded here.")
        with self._lock:
            if running := self._running:
                fault = f"A backtest is running, with {running.calls:,} calls so far. Wait for it."
                raise HTTPException(HTTPStatus.CONFLICT, fault)
            self._running = report = Report(at=self._host.clock.now())
        # It ends with the process, because its result can be had again.
        Thread(target=self._test, args=(report, self._saved), daemon=True).start()
        return self._pages.done(request, self.path, self._list)

    def _test(self, report: Report, path: Path) -> None:
        fault = "The backtest was ended."  # as by `SystemExit` in a rule
        try:
            backtest(self._host, self._index.paths(), report, newest=NEWEST)
            report.save(path)
            fault = ""
        except ToolstileError as error:
            fault = str(error)
        except Exception as error:
            log.exception("The backtest has failed.")
            fault = f"The backtest has failed ({type(error).__name__}); the log has the details."
        finally:
            self._fault, self._running = fault, None

"""The option of commands that make calls: where their spans go."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

ENVIRONMENT: Final = "env"
"""The setting by which spans go where the variables say."""
TRACE: Final = "plugins.otel.trace"
_ASKING: Final = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""Variables that say where telemetry goes, and so that it is wanted."""


def _add_trace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        metavar="console|otlp|FILE",
        help="export OpenTelemetry spans to standard error, over OTLP, or to a file as JSON Lines "
        "(default: the OTEL_* variables)",
    )


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    return {} if args.trace is None else {TRACE: args.trace}


def _is_asked_for() -> bool:
    """Tell whether the environment says where telemetry goes."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return any(os.environ.get(name, "").strip() for name in _ASKING)


def commands(command: type[Command]) -> list[Command]:
    """Return the commands with the option, and those that export no spans."""
    defaults = {TRACE: ENVIRONMENT} if _is_asked_for() else {}
    dispatching = [
        command(
            name=name,
            extends=True,
            optional=True,
            configure=_add_trace,
            settings=_chosen,
            defaults=defaults,
        )
        for name in ("run", "call", "mcp", "ask")
    ]
    # They run beside a host, which alone writes its file of spans.
    untraced = ("tools", "prompt", "plugins", "console", "ledger", "policy", "replay")
    return [
        *dispatching,
        *(
            command(name=name, extends=True, optional=True, settings=lambda _: {TRACE: None})
            for name in untraced
        ),
    ]

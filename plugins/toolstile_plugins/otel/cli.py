"""The option `--trace` of commands that make calls: the export of their spans."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

ENVIRONMENT: Final = "env"
"""The setting for an export by the environment variables."""
TRACE: Final = "plugins.otel.trace"
_ASKING: Final = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""Variables that configure an export, and so ask for it."""


def _add_trace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        metavar="console|otlp|FILE",
        help="export OpenTelemetry spans to standard error, over OTLP, or to a file as JSON Lines "
        "(default: the OTEL_* variables)",
    )


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    return {} if args.trace is None else {TRACE: args.trace}


def commands(command: type[Command]) -> list[Command]:
    """Return the commands with the option, and the commands that export no spans."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    is_asked_for = any(os.environ.get(name, "").strip() for name in _ASKING)
    defaults = {TRACE: ENVIRONMENT} if is_asked_for and not is_disabled else {}
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

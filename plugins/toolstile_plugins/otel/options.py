"""The option `--trace`, and what the environment asks for where it is not given."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any, Final

from toolstile_hookspecs import Command
from toolstile_plugins.otel.settings import ENVIRONMENT

KEY: Final = "plugins.otel.trace"
ASKING: Final = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""Variables that say where telemetry goes, and so that it is wanted."""


def trace_options() -> list[Command]:
    """Return the option, for the commands that dispatch calls."""
    defaults = {KEY: ENVIRONMENT} if asked_for(os.environ) else {}
    return [
        Command(
            name,
            extends=True,
            optional=True,
            configure=_add_trace,
            settings=_chosen,
            defaults=defaults,
        )
        for name in ("run", "call", "mcp")
    ]


def asked_for(environment: Mapping[str, str]) -> bool:
    """Tell whether the environment says where telemetry goes."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return any(environment.get(name, "").strip() for name in ASKING)


def _add_trace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        metavar="console|otlp|FILE",
        help="export OpenTelemetry spans: to standard error, over OTLP, or to a file as JSON "
        "Lines; without it as the OTEL_* variables say",
    )


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    return {} if args.trace is None else {KEY: args.trace}

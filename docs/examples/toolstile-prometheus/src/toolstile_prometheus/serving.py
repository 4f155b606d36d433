"""Serves the metrics over HTTP, and tells where."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server


@contextmanager
def served(registry: CollectorRegistry, address: str, port: int) -> Generator[str]:
    """Serve a registry within the block; gives the address and port.

    Raises:
        OSError: When the port cannot be had; names it, and what to do.
    """
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise OSError(
            f"Metrics cannot be served on {address}, port {port}: {error.strerror or error}. Set "
            "another port in [plugins.prometheus], or 0 for one that is free."
        ) from error
    try:
        host = f"[{address}]" if ":" in address else address
        yield f"{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def written(file: Path, target: str) -> Generator[None]:
    """Keep the address in a file within the block, as Prometheus reads files of targets."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(json.dumps([{"targets": [target]}]), encoding="utf-8")
    draft.replace(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)

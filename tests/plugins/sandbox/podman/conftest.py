"""Shells whose commands run in containers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.sandbox.podman.engine import RUNTIME, add_busybox, add_python, made_image


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from made_image(tmp_path_factory.mktemp("image"), add_busybox)


@pytest.fixture(scope="session")
def python_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from made_image(tmp_path_factory.mktemp("image"), add_busybox, add_python)


@pytest.fixture
def options() -> dict[str, Any]:
    """Options that the engine of this machine needs."""
    return RUNTIME


@pytest.fixture
def open_container(open_shell: Callable[..., Any], image: str) -> Callable[..., Any]:
    """Open a shell over a directory, whose commands run in containers."""

    def open_(options: dict[str, Any] | None = None, **given: Any) -> Any:
        options = {"image": image, **RUNTIME, **(options or {})}
        return open_shell(backend="podman", options=options, **given)

    return open_


@pytest.fixture
def shell(open_container: Callable[..., Any]) -> Any:
    return open_container()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that is no engine: it writes down how it is called, and starts nothing."""
    path = tmp_path / "engine"
    path.write_text(
        "#!/bin/sh\n"
        'for word; do echo "$word"; done >> "$0.calls"\n'
        'echo "$CONTAINER_HOST" > "$0.host"\n'
        'while [ $# -gt 0 ]; do [ "$1" = --env-file ] && cp -p "$2" "$0.variables"; shift; done\n'
        'echo "Error: it starts nothing" >&2; exit 125\n'
    )
    path.chmod(0o755)
    return path

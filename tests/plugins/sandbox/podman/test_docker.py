"""Docker runs commands as Podman does, where its service runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.plugins.sandbox.podman.engine import RUNTIME, add_busybox, made_image, podman

from toolstile_plugins.sandbox import SandboxSettings
from toolstile_plugins.sandbox.backend import backend_of

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    for name in made_image(tmp_path_factory.mktemp("image"), add_busybox, program="docker"):
        yield {"program": "docker", "image": name, **RUNTIME}


@pytest.fixture
def shell(open_shell: Callable[..., Any], options: dict[str, Any]) -> Iterator[Any]:
    yield open_shell(backend="podman", options=options, memory=64 << 20, processes=20)
    found = podman("ps", "--all", "--quiet", "--filter", "label=toolstile", program="docker")
    assert found.stdout == ""


def test_a_command_runs_and_its_changes_are_kept(shell):
    result = shell("echo $WORD > a; cat a; id -u; exit 3", env={"WORD": "a b"})
    assert (result.exit_code, result.stdout) == (3, "a b\n0\n")
    assert shell.files() == ["a"]
    assert shell(["nosuch"]).exit_code == 127


def test_it_is_killed_when_its_time_is_over_or_its_limits_are_met(shell):
    result = shell("echo first; sleep 100 & sleep 100", timeout_seconds=2)
    assert (result.exit_code, result.stdout) == (124, "first\n")
    assert "memory" in shell(["tail", "-c", "300m", "/dev/zero"]).render()
    assert "can't fork" in shell("bomb() { bomb | bomb & bomb; }; bomb", timeout_seconds=5).stderr


def test_an_image_that_is_missing_is_told_by_call_and_doctor(open_shell, options):
    options = {**options, "image": "localhost/nosuch:1"}
    assert "docker pull" in open_shell(backend="podman", options=options).outcome("true").text
    (found,) = backend_of(SandboxSettings(backend="podman", options=options)).findings()
    assert "docker pull" in str(found.remedy)

"""The releases of their frameworks with which the adapters work, and what the others are told."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from importlib_metadata import requires, version

from toolstile_hookspecs.support.text import extra_remedy

ROOT = Path(__file__).parents[3]
ADAPTERS = {
    "claude_agent": ("claude-agent", "claude_agent_sdk"),
    "langchain": ("langchain", "langchain_core"),
    "llm": ("llm", "llm"),
    "openai_agents": ("openai-agents", "agents"),
    "pydantic_ai": ("pydantic-ai", "pydantic_ai"),
}
"""The extra of each adapter, and the package that it imports."""
TESTS_NEED = {"langchain": ["langgraph-checkpoint-sqlite"]}
OF_ITS_TIME = {
    "langchain": ["langgraph<1.0.3", "langgraph-checkpoint<3.1", "langgraph-prebuilt<1.0.3"],
}
"""Releases that stood beside the oldest of a framework, where newer ones do not work with it."""
WITH_ANOTHER = """
import sys, types
sys.modules[{package!r}] = {module}
try:
    import toolstile_plugins.adapters.{adapter}
except ImportError as error:
    print(error)
"""


def needed(extra: str) -> list[str]:
    """Return the requirements of an extra."""
    stated = [each.partition("; extra == ") for each in requires("toolstile") or ()]
    return [what for what, _, of in stated if of.strip("\"'") == extra]


def ran(*command: str | Path, cwd: Path = ROOT) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("module", ["None", "types.ModuleType('another')"])
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_another_release_is_told_in_one_sentence(adapter: str, module: str) -> None:
    extra, package = ADAPTERS[adapter]
    script = WITH_ANOTHER.format(adapter=adapter, package=package, module=module)
    (told,) = ran(sys.executable, "-c", script).splitlines()
    first = needed(extra)[0]
    name = re.split(r"[<>=]", first)[0]
    assert told.startswith(f"The adapter works with {first}")
    assert f"here is {name} {version(name)}" in told
    assert told.endswith(f". {extra_remedy(extra)}.")


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_next_major_of_a_framework_is_not_installed(adapter: str) -> None:
    extra, _ = ADAPTERS[adapter]
    assert [each for each in needed(extra) if "<" not in each] == []


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("release", ["oldest", "newest"])
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_works_with_a_release(adapter: str, release: str, tmp_path: Path) -> None:
    extra, _ = ADAPTERS[adapter]
    bounds = [re.search(r"([\w.-]+).*>=([\w.]+)", each) for each in needed(extra)]
    pinned = [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]
    held = [*pinned, *OF_ITS_TIME.get(adapter, [])] if release == "oldest" else []
    python = tmp_path / "bin" / "python"
    made = [f"{ROOT}[{extra}]", *held, *TESTS_NEED.get(adapter, []), "pytest>=8.4"]
    if uv := shutil.which("uv"):
        ran(uv, "venv", "--quiet", "--python", sys.executable, tmp_path)
        ran(uv, "pip", "install", "--quiet", "--upgrade", "--python", python, *made)
    else:
        ran(sys.executable, "-m", "venv", tmp_path)
        ran(python, "-m", "pip", "install", "--quiet", "--upgrade", *made)
    told = ran(
        *(python, "-m", "pytest", "--noconftest", "-q", "-p", "no:cacheprovider"),
        *("-o", "filterwarnings=default"),  # an old release may warn of a new one beside it
        f"tests/plugins/adapters/test_{adapter}.py",
    )
    assert re.search(r"\d+ passed", told)

"""An agent writes a package, tests it and commits it, and a person looks at each diff."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.sandbox.second_agent import second_agent
from tests.plugins.sandbox.wheelhouse import build_wheels

from toolstile import Host
from toolstile.testing import ScriptedModel
from toolstile_cli.main import main
from toolstile_hookspecs import ApprovalAnswer, ApprovalRequest
from toolstile_plugins.agent import Agent

pytestmark = [pytest.mark.slow, pytest.mark.long]

PYTHON = str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
CONFIGURATION = """\
approve_diff = true

[plugins.vfs]
root = "project"

[[plugins.vfs.mounts]]
source = "wheels"
target = "wheels"

[plugins.workspace_digest]

[plugins.sandbox]
readable = [{readable}]
scratch = "scratch"
max_seconds = 300

[plugins.sandbox.environment]
GIT_AUTHOR_NAME = "Ada"
GIT_AUTHOR_EMAIL = "ada@example.org"
GIT_COMMITTER_NAME = "Ada"
GIT_COMMITTER_EMAIL = "ada@example.org"

[plugins.record]
file = "calls.jsonl"

[tools.shell_execute]
requires_confirmation = true

[tools.edit_file]
requires_confirmation = true

[tools.write_file]
requires_confirmation = true
"""
FILES = {
    ".gitignore": ".venv/\n__pycache__/\n.pytest_cache/\nwheels/\n",
    "CHANGES.md": "# Changes\n",
    "pyproject.toml": (
        '[project]\nname = "bakery"\nversion = "1"\n'
        '[tool.pytest.ini_options]\npythonpath = ["src"]\n'
    ),
    "src/bakery.py": "def dozens(rolls: int) -> int:\n    return rolls // 10\n",
    "tests/test_bakery.py": (
        "from bakery import dozens\n\n\ndef test_a_dozen():\n    assert dozens(24) == 2\n\n\n"
        "def test_thirty():\n    assert dozens(30) == 2\n"
    ),
}
CHECK = (
    "echo '- A dozen is twelve.' >> CHANGES.md; .venv/bin/python -m pytest -q --no-header;"
    "echo done > checked.txt; grep -q Few CHANGES.md || sleep 5"
)
"""A change, and the tests; the first run lasts until the second agent has committed."""
FROM_THE_SECOND = {
    "tests/test_bakery.py": FILES["tests/test_bakery.py"]
    + ("\n\ndef test_few():\n    assert dozens(3) == 0\n"),
    "CHANGES.md": "# Changes\n\n- Few rolls are tested.\n",
}


class Person:
    """Looks at each diff; denies those that touch the tests once they are there."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def __call__(self, request: ApprovalRequest) -> ApprovalAnswer:
        diff = request.diff or ""
        self.seen.append((request.tool.name, diff))
        if "-    assert" in diff:
            return ApprovalAnswer.deny("Fix the code, not the test.")
        return ApprovalAnswer.approve()


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("project", "wheels", "scratch"):
        (tmp_path / name).mkdir()
    readable = json.dumps(sys.base_prefix) if not sys.base_prefix.startswith("/usr") else ""
    (tmp_path / "toolstile.toml").write_text(CONFIGURATION.format(readable=readable))
    return tmp_path / "project"


def shell(*words: str, seconds: float = 30) -> tuple[str, dict[str, Any]]:
    return "shell_execute", {"command": list(words), "timeout_seconds": seconds}


@pytest.mark.operator_text("a command lists files of the packages that it installs")
def test_a_package_is_written_tested_fixed_and_committed(project, capsys):
    build_wheels(project.parent / "wheels")
    tests = shell(".venv/bin/python", "-m", "pytest", "-q", "--no-header", seconds=120)
    git = ("git", "-c", "init.defaultBranch=main")
    model = ScriptedModel(
        [shell(*git, "init", "-q")],
        [("write_file", {"path": path, "content": text}) for path, text in FILES.items()],
        [shell(PYTHON, "-m", "venv", ".venv", seconds=120)],
        [
            shell(
                *(".venv/bin/pip", "install", "-q", "--no-index", "-f", "wheels"),
                "pytest",
                seconds=300,
            )
        ],
        [tests],
        [("read_file", {"path": "tests/test_bakery.py"}), ("read_file", {"path": "src/bakery.py"})],
        [
            (
                "edit_file",
                {
                    "path": "tests/test_bakery.py",
                    "old_text": "    assert dozens(24) == 2",
                    "new_text": "    assert True",
                },
            )
        ],
        [("edit_file", {"path": "src/bakery.py", "old_text": "10", "new_text": "12"})],
        [shell("sh", "-c", CHECK, seconds=120)],
        [shell("sh", "-c", "git add -A && git commit -q -m 'Count dozens' && git status --short")],
        [shell("git", "log", "--stat", "--format=%an: %s")],
        "The tests pass, and it is committed.",
    )
    person = Person()
    scratch = project.parent / "scratch"
    with (
        Host(approver=person) as host,
        second_agent(host, scratch, "checked.txt", FROM_THE_SECOND),
    ):
        result, _ = Agent(host.prompt, adapter=model, host=host).execute("Write a bakery.")
    assert result.text == "The tests pass, and it is committed."
    assert "Stale: `.gitignore`" in model.requests[-1].system

    answers = [
        answer
        for message in model.requests[-1].messages
        for answer in getattr(message, "answers", ())
    ]
    texts = [answer.text for answer in answers]
    assert "1 failed, 1 passed" in texts[8]
    assert "Fix the code, not the test." in texts[11]
    assert "3 passed" in texts[13]
    assert "Ada: Count dozens" in texts[15]
    assert " 6 files changed" in texts[15]
    assert ".venv" not in texts[15]
    assert (project / "CHANGES.md").read_text() == (
        "# Changes\n\n- Few rolls are tested.\n- A dozen is twelve.\n"
    )
    assert "assert dozens(24) == 2" in (project / "tests/test_bakery.py").read_text()
    assert "// 12" in (project / "src/bakery.py").read_text()

    shown = "".join(diff for _, diff in person.seen)
    for told in (
        "+++ b/.git/HEAD",
        "+++ b/src/bakery.py",
        "files in caches (SHA-256 ",
        "-    return rolls // 10\n  +    return rolls // 12",
        "+- A dozen is twelve.",
        "files in .git/ (SHA-256 ",
    ):
        assert told in shown, told

    # A policy looks at the files, which were not there then.
    project.rename(project.with_name("done"))
    project.mkdir()
    capsys.readouterr()
    assert main(["replay", "calls.jsonl"]) == 0, capsys.readouterr()
    assert main(["record", "verify", "calls.jsonl"]) == 0

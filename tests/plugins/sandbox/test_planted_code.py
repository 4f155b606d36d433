"""Commands that plant code for a person's own programs, which are then run as the person would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.vfs.test_protected_paths import LISTED

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import ApprovalRequest, Outcome, Status, ToolCall, ToolContext, tool

WHO = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "


@tool(timeout=None)
def shell(script: str, *, context: ToolContext) -> str:
    """Run a command within another call."""
    return context.call("shell_execute", {"command": ["sh", "-ec", WHO + script]}).text


class House:
    """A person's repository, in which a model runs commands."""

    def __init__(self, root: Path, executor: Executor, asked: list[ApprovalRequest]) -> None:
        self.root = root
        self.home = root.parent / "home"
        self.asked = asked
        self.executor = executor

    def run(self, script: str, way: str = "command") -> Outcome:
        if way == "nested":
            return self.executor.dispatch(ToolCall("shell", {"script": script}))
        words = ["sh", "-ec", WHO + script]
        if way == "script":
            code = f"shell_execute(command={words!r})"
            return self.executor.dispatch(ToolCall("run_python", {"code": code}))
        return self.executor.dispatch(ToolCall("shell_execute", json.dumps({"command": words})))

    def asks(self, script: str, way: str = "command") -> bool:
        """Tell whether a person, who denies it, is asked about a command."""
        before = len(self.asked)
        outcome = self.run(script, way)
        if asked := len(self.asked) > before:
            assert outcome.status is Status.DENIED
        else:
            assert outcome.success, outcome.text
        return asked

    def as_person(self, words: Sequence[str]) -> str:
        """Run a program as the person would, outside of the sandbox."""
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "TERM": "dumb"}
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60}
        done = subprocess.run(
            words, cwd=self.root, env=env, stdin=subprocess.DEVNULL, check=False, **options
        )
        return str(done.stdout + done.stderr)


def git(root: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a remote and a submodule."""
    folder = tmp_path_factory.mktemp("template")
    source, root = folder / "source", folder / "root"
    source.mkdir()
    git(source, "init", "-q", "-b", "main")
    (source / "a.txt").write_text("a")
    git(source, "add", ".")
    git(source, "commit", "-q", "-m", "1")
    git(source, "branch", "topic")
    git(folder, "clone", "-q", str(source), str(root))
    git(root, "submodule", "add", "-q", str(source), "sub")
    git(root, "config", "core.hooksPath", "team/hooks")
    (root / "team" / "hooks").mkdir(parents=True)
    (root / "team" / "hooks" / "keep").write_text("")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "sub")
    return root


@pytest.fixture
def house(
    tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., House]]:
    root = tmp_path / "workspace"
    shutil.copytree(template, root, symlinks=True)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    asked: list[ApprovalRequest] = []
    with ExitStack() as stack:

        def opened(mode: str = "", *, answer: bool = False) -> House:
            def person(request: ApprovalRequest) -> bool:
                asked.append(request)
                return answer

            sandbox = {"scratch": str(tmp_path / "scratch")}
            plugins: dict[str, Any] = {"vfs": {"root": str(root)}, "sandbox": sandbox, "code": {}}
            given: dict[str, Any] = {"plugins": plugins}
            if mode:
                plugins["approval"] = {"mode": mode}
                given["approver"] = "approval"
            host = Host(
                settings=Settings(**given), tools=[shell], approver=None if mode else person
            )
            host = stack.enter_context(host)
            return House(root, stack.enter_context(host.executor()), asked)

        yield opened


@pytest.mark.slow
def test_the_daily_work_with_git_asks_nothing(house: Callable[..., House]) -> None:
    at = house()
    for script in (
        "echo b > b.txt; git add -A",
        "git commit -qm 'b'",
        "git switch -qc new; git switch -q topic; git checkout -q main",
        "git branch -qD topic; git branch hooks/config; git tag v1",
        "echo c > c.txt; git add c.txt; git stash -q; git stash pop -q; git commit -qm c",
        "git merge -q origin/topic; git rebase -q origin/main; git reset -q --soft HEAD",
        "git gc -q; git init -q; git status > /dev/null",
        "cd sub; git switch -q topic; echo d > d.txt; git add -A; git commit -qm d",
        "cp .git/config /tmp/config; cat /tmp/config > .git/config",
        "echo '* text=auto' > .gitattributes; mkdir -p src/hooks; echo > src/hooks/useIt.ts",
        "mkdir -p .venv/bin; echo > .venv/bin/python; echo > Makefile; echo > conftest.py",
    ):
        assert not at.asks(script), at.asked[-1].reasons


PLANTED = (
    "echo evil > .git/hooks/pre-commit",
    "mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
    "rm .git/hooks/pre-push.sample",
    "mkdir h; echo evil > h/pre-commit; rm -r .git/hooks; mv h .git/hooks",
    "rm -r .git/hooks; ln -s ../team .git/hooks",
    "ln -s ../../a.txt .git/hooks/post-commit",
    "git config core.fsmonitor ./evil",
    "git config core.hooksPath evil; mkdir evil; echo evil > evil/pre-commit",
    "git config branch.main.remote 'ext::sh -c evil'",
    "git config include.path ../evil",
    "git remote add evil /x",
    "printf '[core]fsmonitor=./evil\\n' >> .git/config",
    "rm .git/config; ln -s ../a.txt .git/config",
    "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ./evil",
    "echo '* filter=evil' > .git/info/attributes",
    "echo 1 > .git/info/grafts",
    "echo ../evil > .git/commondir",
    "echo evil > team/hooks/pre-commit",
    "rm -r team/hooks; ln -s ../sub team/hooks",
    "mv team t2; ln -s sub team",
    "git -C sub config core.fsmonitor ./evil",
    "echo evil > .git/modules/sub/hooks/post-checkout",
    "mv .git/modules/sub s; echo gitdir: ../s > sub/.git",
    "git init -q deep/er/nested",
    "git init -q --bare deep/er/bare",
    "mkdir -p q/objects q/refs; echo ref: refs/heads/main > q/HEAD",
    "mkdir q; echo ref: refs/heads/main > q/HEAD; echo ../.git > q/commondir",
    "git init -q --separate-git-dir=elsewhere nested",
    "git worktree add -q tree",
    "mv .git x.git",
    "mv .git elsewhere; echo gitdir: elsewhere > .git",
    "mv .git elsewhere; ln -s elsewhere .git",
    "rm -rf .git",
    "rm -rf .git; git init -q",
    "mkdir .GIT; echo evil > .GIT/config",
    "echo '*.c filter=evil' > sub/.gitattributes",
    "ln -s a.txt .envrc",
    "ln -s sub .vscode",
    "ln -s sub .github",
    "git add -A; git commit -qm x --allow-empty; echo evil > .git/hooks/post-merge",
)


@pytest.mark.slow
def test_each_way_to_plant_code_is_asked_about(house: Callable[..., House]) -> None:
    at = house()
    quiet = [script for script in PLANTED if not at.asks(script)]
    assert quiet == []
    assert at.as_person(["git", "status", "--porcelain"]) == ""


@pytest.mark.slow
@pytest.mark.long
def test_every_entry_of_the_list_is_asked_about(house: Callable[..., House]) -> None:
    at = house()
    shutil.rmtree(at.root)
    at.root.mkdir()
    quiet = [path for path in LISTED if not at.asks(f"mkdir -p $(dirname {path}); echo > {path}")]
    assert quiet == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["command", "script", "nested"])
@pytest.mark.parametrize("mode", ["all", "read", "none", "auto", ""])
def test_only_a_persons_answer_keeps_it(house: Callable[..., House], mode: str, way: str) -> None:
    at = house(mode, answer=True)
    outcome = at.run("echo evil > .envrc; echo more > new.txt", way)
    is_kept = not mode
    assert outcome.success is is_kept, outcome.text
    assert (at.root / ".envrc").exists() is (at.root / "new.txt").exists() is is_kept
    assert "envrc" not in outcome.text or is_kept
    # What needs no person is decided as ever.
    assert at.run("echo more > other.txt", way).success
    assert [len(at.asked), (at.root / "other.txt").exists()] == [int(is_kept), True]


@pytest.mark.slow
def test_within_a_diff_that_is_approved_the_protected_path_comes_first(
    house: Callable[..., House],
) -> None:
    at = house(answer=True)
    script = "for n in 1 2 3; do seq 9999 > $n.txt; done; echo evil > .vscode/tasks.json"
    assert at.run(f"mkdir .vscode; {script}").success
    (request,) = at.asked
    assert ".vscode/tasks.json (editors and debuggers)" in request.reasons[0]
    assert request.diff is not None
    assert request.diff.startswith("decide on:\n  .vscode/tasks.json\nthe workspace:\n  --- /dev/n")
    assert request.diff.index("+evil") < request.diff.index("1.txt (")


# --- As the person would


def person_runs(at: House, program: str) -> str:
    """Run a program of the person that could run planted code, which says so."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if program == "git":
        at.as_person(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "x"])
        return at.as_person(["git", "status"])
    if program == "sh":
        # As the hook of direnv does once the person has allowed the folder before.
        return at.as_person(["sh", "-c", "[ ! -e .envrc ] || . ./.envrc"])
    if program == "vim":
        (at.home / ".vimrc").write_text("set exrc\n")
        return at.as_person(["vim", "-N", "-T", "dumb", "--not-a-term", "-c", "qa!"])
    (at.home / ".gdbinit").write_text("set auto-load safe-path /\n")
    return at.as_person(["gdb", "-batch", "-ex", "quit"])


SAYS = "touch ../ran"
PLANTS = {
    "git": (
        f"printf '#!/bin/sh\\n{SAYS}\\n' > evil; chmod +x evil; cp evil team/hooks/pre-commit; "
        "git config core.fsmonitor ./evil"
    ),
    "sh": f"echo '{SAYS}' > .envrc",
    "vim": f"echo 'call system(\"{SAYS}\")' > .exrc; cp .exrc .vimrc",
    "gdb": f"echo 'shell {SAYS}' > .gdbinit",
}


@pytest.mark.slow
@pytest.mark.parametrize("answer", [False, True], ids=["denied", "approved"])
@pytest.mark.parametrize("program", list(PLANTS))
def test_a_persons_programs_run_nothing_that_the_person_has_not_approved(
    house: Callable[..., House], program: str, answer: bool
) -> None:
    at = house(answer=answer)
    assert at.run(PLANTS[program]).success is answer
    said = person_runs(at, program)
    assert (at.root.parent / "ran").exists() is answer, said
    assert len(at.asked) == 1

"""Changes of an agent's own tools: put back after a failure, undone after a success."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.hook.agent_desk import AgentDesk, Failed, told

from toolstile import Status, ToolCall, ToolContext, ToolError, hookimpl
from toolstile_hookspecs.errors import DecisionUnknownError
from toolstile_hookspecs.execution.undo import UndoConflict
from toolstile_plugins.hook import contents
from toolstile_plugins.hook.processes import left_by, now
from toolstile_plugins.undo import UndoSettings

ALL = """
    echo new > changed.txt; rm gone.txt; git mv moved.txt sub/other.txt; chmod 755 script.sh
    ln -sf script.sh link; mkdir -p made/inner made/empty; echo deep > made/inner/deep.txt
    rm -r folder; mv swapped.txt t; mkdir swapped.txt; mv t swapped.txt/t; chmod 700 closed
"""
"""A command with each kind of change."""

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
pytestmark = [needs_git, needs_proc]


@pytest.fixture
def make_desk(tmp_path: Path) -> Iterator[Callable[..., AgentDesk]]:
    with ExitStack() as stack:

        def make(**options: Any) -> AgentDesk:
            desk = AgentDesk(tmp_path, **options)
            stack.callback(desk.close)
            return desk

        yield make


@pytest.fixture
def desk(make_desk: Callable[..., AgentDesk]) -> AgentDesk:
    """A desk whose workspace has each kind of path, in a repository."""
    desk = make_desk()
    furnish(desk.root)
    desk.sh("git add . && git commit -qm first")
    return desk


def furnish(root: Path) -> None:
    for name in ("changed.txt", "gone.txt", "moved.txt", "script.sh", "swapped.txt"):
        (root / name).write_text(f"{name}\n")
    (root / "gone.txt").chmod(0o640)
    (root / "link").symlink_to("changed.txt")
    (root / "sub").mkdir()
    (root / "folder/inner").mkdir(parents=True)
    (root / "folder/inner/deep.txt").write_text("deep\n")
    (root / "closed").mkdir(mode=0o755)


class TestCommand:
    def test_each_kind_of_change_of_a_failed_one_goes_back(self, desk: AgentDesk) -> None:
        before = desk.tree()

        outcome = desk.bash(f"{ALL}; exit 3")

        assert outcome.status is Status.FAILED
        assert desk.tree() == before
        assert "went back to the state before the call" in told(outcome)
        assert "Files that git ignores, and .git, stay as they are." in told(outcome)

    def test_a_successful_one_is_undone_and_comes_again(self, desk: AgentDesk) -> None:
        before = desk.tree()
        outcome = desk.bash(ALL)
        after = desk.tree()
        assert outcome.success
        assert after != before

        undo = desk.tools.undo(outcome.call.id)

        assert desk.tree() == before
        assert desk.tools.undo(undo.call.id).success
        assert desk.tree() == after

    def test_one_that_changes_nothing_has_no_report_and_no_note(self, desk: AgentDesk) -> None:
        kept = desk.bash("cat changed.txt; touch changed.txt")
        failed = desk.bash("false")

        assert told(kept) == told(failed) == ""
        assert not list(desk.undo.glob("*"))

    def test_edits_since_are_a_conflict_that_names_both_versions(self, desk: AgentDesk) -> None:
        outcome = desk.bash("echo agent > changed.txt; echo agent > gone.txt")
        (desk.root / "changed.txt").write_text("person\n")

        with pytest.raises(UndoConflict) as raised:
            desk.tools.undo(outcome.call.id)

        (difference,) = raised.value.differences
        assert difference.name == "changed.txt"
        assert "SHA-256" in difference.left != difference.now
        assert desk.tools.undo(outcome.call.id, others="keep").success
        assert (desk.root / "changed.txt").read_text() == "person\n"
        assert (desk.root / "gone.txt").read_text() == "gone.txt\n"

    def test_an_edit_of_a_person_meanwhile_is_kept_and_named(self, desk: AgentDesk) -> None:
        def edit() -> None:
            (desk.root / "moved.txt").write_text("person\n")

        outcome = desk.bash("echo agent > changed.txt; exit 1", edit)

        assert (desk.root / "moved.txt").read_text() == "moved.txt\n"
        assert "changed.txt, moved.txt went back" in told(outcome)
        (id_,) = {word.rstrip(".;") for word in told(outcome).split()} & {
            note.id for note in desk.files.undo.notes()
        }
        assert desk.tools.undo(id_).success
        assert (desk.root / "moved.txt").read_text() == "person\n"

    def test_the_last_call_is_not_the_one_that_was_put_back(self, desk: AgentDesk) -> None:
        kept = desk.bash("echo agent > changed.txt")
        desk.bash("echo agent > gone.txt; exit 1")
        from toolstile_plugins.undo.calls import Undone

        assert Undone(desk.files.undo.notes()).standing()[0].id == kept.call.id

    def test_ignored_files_and_git_itself_stay(self, desk: AgentDesk) -> None:
        (desk.root / ".gitignore").write_text("*.log\nbuild/\n")
        (desk.root / "a.log").write_text("old\n")

        outcome = desk.bash(
            "echo x > a.log; mkdir build; echo o > build/o; echo x > changed.txt; "
            "git add changed.txt; exit 1"
        )

        assert (desk.root / "a.log").read_text() == "x\n"
        assert (desk.root / "build/o").exists()
        assert (desk.root / "changed.txt").read_text() == "changed.txt\n"
        assert "Files that git ignores, and .git, stay as they are." in told(outcome)
        staged = ["git", "diff", "--cached", "--name-only"]
        done = subprocess.run(staged, cwd=desk.root, capture_output=True, check=True)
        assert done.stdout == b"changed.txt\n"

    @pytest.mark.parametrize(
        "command",
        [
            "git merge other",
            "git checkout -q other; exit 1",
            "git rebase other",
            "git commit -qam x; echo y > gone.txt; false",
        ],
    )
    def test_files_that_belong_to_a_state_of_git_stay(self, desk: AgentDesk, command: str) -> None:
        desk.sh("git checkout -qb other; echo other > changed.txt; git commit -qam other")
        desk.sh("git checkout -q -; echo mine > changed.txt; git commit -qam mine")
        desk.bash("true")
        (desk.root / "gone.txt").write_text("more\n")

        outcome = desk.bash(command if "commit" in command else f"git stash -q; {command}")

        assert not outcome.success
        assert "git has moved its HEAD or stopped within a merge" in told(outcome)
        assert desk.tools.undo(outcome.call.id).success
        assert (desk.root / "changed.txt").read_text() == "mine\n"

    @pytest.mark.parametrize("rules", ["", "*.txt\n"])
    def test_a_new_rule_of_git_loses_no_file(self, desk: AgentDesk, rules: str) -> None:
        (desk.root / ".gitignore").write_text("*.log\nbuild/\n")
        (desk.root / "build").mkdir()
        for name in ("a.log", "build/o", "new.txt"):
            (desk.root / name).write_text("old\n")
        before = desk.tree()

        desk.bash(f"printf '{rules}' > .gitignore; echo x > changed.txt; rm new.txt; exit 1")

        assert desk.tree() == before

    def test_without_git(self, make_desk: Callable[..., AgentDesk]) -> None:
        desk = make_desk(git=False)
        furnish(desk.root)
        before = desk.tree()

        desk.bash("rm -r folder link; echo x > changed.txt; mkdir new; exit 1")

        assert desk.tree() == before

    def test_in_a_directory_that_git_ignores(self, make_desk: Callable[..., AgentDesk]) -> None:
        desk = make_desk(git=False)
        subprocess.run(["git", "init", "-q", desk.root.parent], check=True)
        (desk.root.parent / ".gitignore").write_text("work/\n")
        (desk.root / "a.txt").write_text("one\n")

        desk.bash("echo two > a.txt; exit 1")

        assert (desk.root / "a.txt").read_text() == "one\n"

    def test_a_new_directory_with_ignored_files_stays(self, desk: AgentDesk) -> None:
        (desk.root / ".gitignore").write_text("*.pyc\n")

        desk.bash("mkdir package; touch package/a.py package/a.pyc; exit 1")

        assert [each.name for each in (desk.root / "package").iterdir()] == ["a.pyc"]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may list any directory")
    def test_a_closed_directory_is_opened_again(self, desk: AgentDesk) -> None:
        before = desk.tree()

        desk.bash("echo x > folder/inner/deep.txt; chmod 0 folder; exit 1")

        assert (desk.root / "folder").stat().st_mode & 0o777 == 0o755
        assert desk.tree().keys() == before.keys()

    def test_a_change_that_leaves_size_and_times(self, desk: AgentDesk) -> None:
        desk.bash("true")

        desk.bash(
            "touch -r changed.txt t; echo hanged.txtc > changed.txt; touch -r t changed.txt; false"
        )

        assert (desk.root / "changed.txt").read_text() == "changed.txt\n"

    def test_a_file_too_large_to_keep_is_named(
        self, desk: AgentDesk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        large = desk.root / "large.bin"
        large.write_bytes(b"0" * 2_000)
        monkeypatch.setattr(
            desk.files.contents,
            "_limits",
            UndoSettings(file="1 kB", path=desk.undo),  # type: ignore[arg-type]
        )

        outcome = desk.bash("echo x > large.bin; echo x > changed.txt; exit 1")

        assert (desk.root / "changed.txt").read_text() == "changed.txt\n"
        assert large.read_text() == "x\n"
        assert "Not put back: large.bin (its former content, now not kept any more)" in told(
            outcome
        )

    def test_a_workspace_of_too_many_paths(
        self, desk: AgentDesk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(contents, "MOST_PATHS", 5)

        outcome = desk.bash("echo x > changed.txt; exit 1")

        assert (desk.root / "changed.txt").read_text() == "x\n"
        assert told(outcome) == ""
        assert desk.files.status.startswith("Commands are not put back and cannot be undone")
        desk.write("changed.txt", "y\n", fails=True)
        assert (desk.root / "changed.txt").read_text() == "x\n"

    def test_a_command_that_makes_too_many_paths(
        self, desk: AgentDesk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(contents, "MOST_PATHS", 20)

        outcome = desk.bash("touch $(seq 30); echo x > changed.txt; exit 1")

        assert "was put back, because the workspace has more than" in told(outcome)
        assert (desk.root / "changed.txt").read_text() == "x\n"
        assert not desk.files.contents.open_calls()

    def test_afterwards_refused(self, desk: AgentDesk) -> None:
        class Refusing:
            @hookimpl
            def toolstile_on_result(self) -> None:
                raise ToolError("Not this one.")

        desk.host.register(Refusing(), "refusing")

        outcome = desk.bash("echo x > changed.txt")

        assert not outcome.success
        assert (desk.root / "changed.txt").read_text() == "changed.txt\n"
        assert "changed.txt went back" in told(outcome)


class TestUnknown:
    def test_without_an_end_nothing_is_put_back(self, desk: AgentDesk) -> None:
        def run(_: dict[str, Any], __: ToolContext) -> None:
            (desk.root / "changed.txt").write_text("person or agent\n")
            raise DecisionUnknownError("the agent has reported no end of the call")

        outcome = desk.tools.dispatch(ToolCall("Bash", {"command": "?"}), using=run)

        assert (desk.root / "changed.txt").read_text() == "person or agent\n"
        assert "unknown whether the tool has run to its end" in told(outcome)
        assert desk.tools.undo(outcome.call.id).success
        assert (desk.root / "changed.txt").read_text() == "changed.txt\n"

    def test_while_a_process_of_the_command_lives(self, desk: AgentDesk) -> None:
        begin = "echo x > changed.txt; sleep 30 >&- 2>&- & echo $! > .git/process; exit 1"
        outcome = desk.bash(begin)
        try:
            assert (desk.root / "changed.txt").read_text() == "x\n"
            assert "a process of the command still runs: sleep" in told(outcome)
        finally:
            os.kill(int((desk.root / ".git/process").read_text()), signal.SIGKILL)
        assert desk.tools.undo(outcome.call.id).success

    def test_a_process_that_ends_in_time(self, make_desk: Callable[..., AgentDesk]) -> None:
        desk = make_desk(patience=10)
        (desk.root / "a.txt").write_text("one\n")

        outcome = desk.bash("echo x > a.txt; sleep 0.5 >&- 2>&- & sleep 0.1; exit 1")

        assert (desk.root / "a.txt").read_text() == "one\n", told(outcome)

    def test_which_processes_are_a_commands(self, tmp_path: Path) -> None:
        since = now()
        marked = {**os.environ, "GEMINI_CLI": "1"}
        plain = {name: value for name, value in os.environ.items() if name != "CLAUDECODE"}
        begun = [started("sleep 30", tmp_path), started("sleep 31", Path("/"), marked)]
        begun.append(started("sleep 32", Path("/"), plain))
        try:
            assert left_by(tmp_path, since, None, 0) == ["sleep", "sleep"]
            assert left_by(tmp_path, now() + 1, None, 0) == []
        finally:
            for process in begun:
                os.kill(process, signal.SIGKILL)

    def test_calls_that_an_ended_process_has_left(
        self,
        desk: AgentDesk,
        make_desk: Callable[..., AgentDesk],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        made: list[AgentDesk] = []

        def run(_: dict[str, Any], __: ToolContext) -> str:
            desk.sh("echo x > changed.txt")
            made.append(make_desk())
            return ""

        desk.tools.dispatch(ToolCall("Bash", {"command": "?"}), using=run)
        (again,) = made

        (report,) = caplog.messages
        assert report.startswith("Nothing of bash (")
        assert "because the process that watched it was ended. changed.txt changed" in report
        assert not again.files.contents.open_calls()
        (note,) = again.files.undo.notes()
        assert again.tools.undo(note.id).success
        assert (again.root / "changed.txt").read_text() == "changed.txt\n"


class TestNamedPath:
    @pytest.mark.parametrize("path", ["changed.txt", "new/deep/file.txt", "link", "a.log"])
    def test_a_failed_one_goes_back_alone(self, desk: AgentDesk, path: str) -> None:
        (desk.root / ".gitignore").write_text("*.log\n")
        (desk.root / "a.log").write_text("old\n")
        before = desk.tree()

        outcome = desk.write(desk.root / path, "agent\n", fails=True)

        assert desk.tree() == before
        assert "went back" in told(outcome)
        assert "outside" not in outcome.text

    def test_a_successful_one_is_undone(self, desk: AgentDesk) -> None:
        before = desk.tree()
        outcome = desk.write("new/deep/file.txt", "agent\n")

        assert (desk.root / "new/deep/file.txt").exists()
        assert desk.tools.undo(outcome.call.id).success
        assert desk.tree() == before

    def test_edits_of_other_paths_stay(self, desk: AgentDesk) -> None:
        def run(_: dict[str, Any], context: ToolContext) -> None:
            desk.sh("echo agent > changed.txt; echo person > gone.txt")
            assert context.tool_call is not None
            desk.files.ended(context.tool_call.id)
            raise Failed("no")

        desk.tools.dispatch(ToolCall("Write", {"file_path": "changed.txt"}), using=run)

        assert (desk.root / "gone.txt").read_text() == "person\n"
        assert (desk.root / "changed.txt").read_text() == "changed.txt\n"

    def test_a_path_outside_is_not_held(self, desk: AgentDesk, tmp_path: Path) -> None:
        outside = tmp_path / "outside.txt"

        outcome = desk.write(outside, "agent\n", fails=True)

        assert outside.read_text() == "agent\n"
        assert told(outcome) == ""

    def test_one_that_met_a_failure_is_contained_only_if_it_is_held(
        self, desk: AgentDesk, tmp_path: Path
    ) -> None:
        texts: list[str] = []

        class Late:
            @hookimpl
            def toolstile_on_result(self) -> None:
                from toolstile import ConflictError

                raise ConflictError("It changed.")

        desk.host.register(Late(), "late")
        texts += [desk.write(path, "x").text for path in ("changed.txt", tmp_path / "o.txt")]
        texts.append(desk.bash("echo x > changed.txt").text)

        assert ["Nothing of it remains." in text for text in texts] == [True, False, False]
        assert (desk.root / "changed.txt").read_text() == "changed.txt\n"


class TestAtOnce:
    def test_two_commands_that_change_one_path(self, desk: AgentDesk) -> None:
        outcomes = at_once(
            desk, "echo 1 > one.txt; exit 1", "echo 2 > two.txt; echo 2 > changed.txt"
        )

        # The ends cannot tell them apart.
        assert "another call may have changed" in told(outcomes[0])
        assert (desk.root / "one.txt").exists()
        assert (desk.root / "two.txt").exists()
        assert outcomes[1].success

    def test_a_command_that_only_reads_hinders_nothing(self, desk: AgentDesk) -> None:
        def read() -> None:
            assert desk.bash("cat changed.txt").success

        outcome = desk.bash("true; exit 1", read)
        assert told(outcome) == ""
        outcome = desk.bash("echo x > changed.txt; exit 1")
        assert (desk.root / "changed.txt").read_text() == "changed.txt\n"

    def test_a_write_meanwhile_is_not_the_commands(self, desk: AgentDesk) -> None:
        outcome = desk.bash(
            "echo x > changed.txt; exit 1", lambda: desk.write("new/other.txt", "mine\n")
        )

        assert (desk.root / "new/other.txt").read_text() == "mine\n"
        assert (desk.root / "changed.txt").read_text() == "changed.txt\n"
        assert "other.txt" not in told(outcome)

    def test_ids_that_repeat_end_without_an_error(self, desk: AgentDesk) -> None:
        def run(_: dict[str, Any], context: ToolContext) -> str:
            desk.files.ended("same")
            desk.files.ended("never begun")
            return ""

        for _ in range(2):
            call = ToolCall("Bash", {"command": "true"}, id="same")
            assert desk.tools.dispatch(call, using=run).success
        assert not desk.files.contents.open_calls()

    def test_on_an_event_loop(self, desk: AgentDesk) -> None:
        async def call() -> None:
            async def run(_: dict[str, Any], context: ToolContext) -> None:
                desk.sh("echo x > changed.txt")
                assert context.tool_call is not None
                await asyncio.to_thread(desk.files.ended, context.tool_call.id)
                raise Failed("no")

            outcome = await desk.tools.adispatch(ToolCall("Bash", {"command": "?"}), using=run)
            assert "changed.txt went back" in told(outcome)

        asyncio.run(call())
        assert (desk.root / "changed.txt").read_text() == "changed.txt\n"


def at_once(desk: AgentDesk, *commands: str) -> list[Any]:
    """Run commands that all begin before one ends."""
    begun = threading.Barrier(len(commands))
    outcomes: list[Any] = [None] * len(commands)

    def call(number: int, command: str) -> None:
        outcomes[number] = desk.bash(command, lambda: begun.wait(30))

    threads = [threading.Thread(target=call, args=each) for each in enumerate(commands)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return outcomes


def started(command: str, cwd: Path, env: dict[str, str] | None = None) -> int:
    """Start a process that is a child of none of ours; return its number."""
    words = ["bash", "-c", f"{command} >&- 2>&- & echo $!"]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, check=True)
    return int(done.stdout)

"""Killed at any instant, a call is wholly there or wholly absent when the directory is opened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from toolstile_cli.main import main
from toolstile_hookspecs import LedgerError, StateError
from toolstile_plugins.vfs.backends.disk.operations import RecoveryError
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

OPEN = Path("/proc/self/fd")
DRIVER = Path(__file__).with_name("crash_driver.py")

Branch = Callable[..., WorkspaceBranch]
Commit = Callable[[WorkspaceBranch], None]
Open = Callable[..., VirtualFilesystem]
Toolstile = Callable[..., tuple[int, str, str]]

LONG = pytest.mark.long

# In the order of the commit: what was decided is carried out, what was not is dropped.
DROPPED = ["staging", "staged", "prepared", "deciding"]
KEPT = [
    "decided",
    # From 18 on: a link, a file, a mode, a taken file, a moved one, modes of directories.
    *(
        pytest.param(f"apply:{index}", marks=[] if index > 17 or index % 4 == 0 else [LONG])
        for index in range(25)
    ),
    "applied",
    "forgotten",
]


def drive(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, DRIVER, root, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def held(directory: Path) -> list[str]:
    """Return the names in a directory."""
    return sorted(each.name for each in directory.iterdir())


def number_in(root: Path) -> int:
    return int(drive(root, "--number"))


def stopped(files: VirtualFilesystem) -> str | None:
    return files.store.stopped  # type: ignore[attr-defined, no-any-return]


def snapshot(root: Path) -> dict[str, tuple[int, int, bytes | str]]:
    found: dict[str, tuple[int, int, bytes | str]] = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        content: bytes | str = b""
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(root))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def check_report(text: str, root: Path) -> None:
    """Check that a text names the journal, the file, the cause and the remedy."""
    (commit,) = (root / ".toolstile").glob("commit-*")
    said = " ".join(text.split())
    assert "The workspace was left in the middle of a commit" in said
    assert "c/d.txt changed since then" in said
    assert f"remove .toolstile/{commit.name}" in said
    assert "put the files back as they were" in said
    assert "requires human intervention" in said


@pytest.fixture
def toolstile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Toolstile:
    """Calls a tool on a directory from the command line."""

    def call(root: Path, tool: str, arguments: dict[str, str]) -> tuple[int, str, str]:
        monkeypatch.chdir(tmp_path)
        status = main(["call", "--workspace", str(root), tool, json.dumps(arguments)])
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def untouched(root: Path) -> Path:
    """The files that were there before."""
    top = root / "untouched"
    for path in (".env", "build/out.o", "nested/.git/HEAD", "nested/.git/hooks/post-commit"):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(b"kept\r\nas\nit was")
    (top / ".gitignore").write_bytes(b"build/\r\n")
    git = shutil.which("git")
    if git is not None:
        # A repository with a commit, something staged, and something ignored.
        repository = top / "repository"
        (repository / "build").mkdir(parents=True)
        (repository / ".gitignore").write_text("build/\n")
        (repository / "build" / "out.o").write_bytes(b"\x7fELF")
        (repository / "tracked.txt").write_bytes(b"one\r\n")
        identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.org")
        for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
            subprocess.run([git, "-C", repository, *identity, *arguments], check=True)
        (repository / "staged.txt").write_bytes(b"two")
        subprocess.run([git, "-C", repository, "add", "staged.txt"], check=True)
    (top / "empty").mkdir()
    (top / "link").symlink_to("build")
    (top / ".env").chmod(0o600)
    (top / "nested/.git/hooks/post-commit").chmod(0o755)
    os.utime(top / "build", ns=(1_000_000_000, 1_234_567_890))
    return top


@pytest.mark.slow
@pytest.mark.parametrize("renames", [(), ("--plain-renames",)], ids=["exchange", "plain"])
@pytest.mark.long
def test_at_300_random_instants(root: Path, untouched: Path, renames: tuple[str, ...]) -> None:
    before = snapshot(untouched)
    commits = int(drive(root, "--random", "300", "--seed", "7", *renames))
    assert commits > 100
    assert snapshot(untouched) == before


@pytest.mark.slow
@pytest.mark.long_if(renames=("--plain-renames",))
@pytest.mark.parametrize("step", [*DROPPED, *KEPT])
@pytest.mark.parametrize("renames", [(), ("--plain-renames",)], ids=["exchange", "plain"])
def test_at_each_step(root: Path, on_disk: Open, step: str, renames: tuple[str, ...]) -> None:
    drive(root, "--at", step, *renames)
    files = on_disk(root)
    assert number_in(root) == (0 if step in DROPPED else 1)
    assert held(root / ".toolstile") == [".gitignore", "lock"]
    assert stopped(files) is None
    files.write("a.txt", "and on it goes")


@pytest.mark.slow
def test_between_two_plain_renames(root: Path, on_disk: Open) -> None:
    drive(root, "--at", "halfway:0", "--plain-renames")
    assert not (root / "a.txt").exists() or not (root / "b.txt").exists()
    on_disk(root)
    assert number_in(root) == 1


@pytest.mark.slow
@pytest.mark.parametrize("step", ["undo:0", "undo:5"])
def test_while_a_commit_that_met_an_edit_is_put_back(root: Path, on_disk: Open, step: str) -> None:
    drive(root, "--at", step, "--edit", "b.txt")
    files = on_disk(root)
    assert stopped(files) is None
    assert (root / "b.txt").read_text() == "edited at the last moment"
    assert (root / "a.txt").read_bytes() == b"0\r\n"
    assert (root / "c" / "d.txt").read_bytes() == b"0\r\n"
    assert (root / "made-0").is_dir()
    assert not (root / "made-1").exists()
    assert (root / "kind" / "inner.txt").read_bytes() == b"0\r\n"


@pytest.mark.slow
def test_links_and_modes_are_put_back_where_putting_back_is_killed_too(
    root: Path, on_disk: Open
) -> None:
    drive(root, "--at", "undo:19", "--edit", "taken.txt")
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o700
    assert (root / "link").readlink() == Path("target-1")
    assert stopped(on_disk(root)) is None
    assert (root / "link").readlink() == Path("target-0")
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o700
    assert (root / "folder").stat().st_mode & 0o777 == 0o700
    assert (root / "empty-0").is_dir()
    assert (root / "taken.txt").read_text() == "edited at the last moment"


@pytest.mark.parametrize("litter", ["commit-file", "commit-directory/held"])
def test_what_cannot_be_cleared_away_keeps_nobody_from_reading(
    root: Path, on_disk: Open, litter: str
) -> None:
    on_disk(root).write("a.txt", "one")
    path = root / ".toolstile" / litter
    path.parent.mkdir(exist_ok=True)
    if path.name == "held":
        path.mkdir()
    else:
        path.write_text("")
    files = on_disk(root)
    assert files.read("a.txt") == "one"
    with pytest.raises((RecoveryError, PermissionError), match=r"remove \.toolstile/commit-"):
        files.write("a.txt", "two")
    path.rmdir() if path.name == "held" else path.unlink()
    files.write("a.txt", "two")
    assert stopped(files) is None


@pytest.mark.slow
class TestEditedBetweenCrashAndOpening:
    @pytest.fixture(
        params=[
            pytest.param("decided", marks=pytest.mark.long),
            "apply:4",
            pytest.param("apply:7", marks=pytest.mark.long),
        ]
    )
    def crashed(self, request: pytest.FixtureRequest, root: Path) -> Path:
        drive(root, "--at", request.param)
        # The last of the changes that are made is to a file that still is as it was.
        assert (root / "c" / "d.txt").read_bytes() == b"0\r\n"
        return root

    @pytest.mark.parametrize("same_size", [True, False])
    def test_a_file_is_not_overwritten(
        self, crashed: Path, on_disk: Open, *, same_size: bool
    ) -> None:
        text = "x\r\n" if same_size else "edited"
        (crashed / "c" / "d.txt").write_text(text, newline="")
        before = snapshot(crashed)
        files = on_disk(crashed)
        assert snapshot(crashed).keys() == before.keys()
        assert (crashed / "c" / "d.txt").read_bytes().decode() == text
        report = stopped(files) or ""
        assert "c/d.txt" in report
        assert ".toolstile/commit-" in report
        assert "requires human intervention" in report
        with pytest.raises(PermissionError, match=r"c/d\.txt"):
            files.write("b.txt", "anything")
        assert files.read("c/d.txt") == text

    def test_a_file_is_not_overwritten_that_shows_the_edit_in_its_content_alone(
        self, crashed: Path, on_disk: Open
    ) -> None:
        path = crashed / "c" / "d.txt"
        status = path.stat()
        with path.open("r+b") as stream:
            stream.write(b"x")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

        assert "c/d.txt" in (stopped(on_disk(crashed)) or "")
        assert path.read_bytes() == b"x\r\n"

    def test_put_back_the_commit_is_finished(self, crashed: Path, on_disk: Open) -> None:
        path = crashed / "c" / "d.txt"
        times = path.stat().st_atime_ns, path.stat().st_mtime_ns
        path.write_bytes(b"x\r\n")
        assert stopped(on_disk(crashed)) is not None
        path.write_bytes(b"0\r\n")
        os.utime(path, ns=times)
        assert stopped(on_disk(crashed)) is None
        assert number_in(crashed) == 1

    def test_given_up_the_workspace_goes_on(self, crashed: Path, on_disk: Open) -> None:
        path = crashed / "c" / "d.txt"
        path.write_text("edited")
        files = on_disk(crashed)
        (commit,) = (crashed / ".toolstile").glob("commit-*")
        for each in commit.iterdir():
            each.unlink()
        commit.rmdir()
        files.write("new.txt", "goes on")
        assert stopped(files) is None
        assert path.read_text() == "edited"

    def test_given_up_by_removing_all_that_the_workspace_keeps_it_goes_on(
        self, crashed: Path, on_disk: Open
    ) -> None:
        (crashed / "c" / "d.txt").write_text("edited")
        files = on_disk(crashed)
        shutil.rmtree(crashed / ".toolstile")
        files.write("new.txt", "goes on")
        assert stopped(files) is None

    def test_a_call_that_comes_to_it_under_way_conflicts_with_nothing_and_is_told(
        self, root: Path, on_disk: Open, branch_of: Branch
    ) -> None:
        files = on_disk(root)
        branch = branch_of(files)
        branch.resource.write("other.txt", "x")
        drive(root, "--at", "decided")
        (root / "c" / "d.txt").write_text("edited")
        with pytest.raises(RecoveryError, match=r"c/d\.txt changed since then"):
            branch.prepare()

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            ("read_file", {"path": "a.txt"}),
            ("list_directory", {}),
            ("glob_files", {"pattern": "*"}),
            ("grep_files", {"pattern": "0|1"}),
        ],
    )
    def test_whoever_reads_is_told(
        self, crashed: Path, toolstile: Toolstile, tool: str, arguments: dict[str, str]
    ) -> None:
        (crashed / "c" / "d.txt").write_text("edited")

        status, out, _ = toolstile(crashed, tool, arguments)
        assert status == 0
        (note,) = [line for line in out.splitlines() if line.startswith("Note: ")]
        check_report(note, crashed)

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            ("write_file", {"path": "new.txt", "content": "x"}),
            ("copy_file", {"source": "b.txt", "target": "c.txt"}),
        ],
    )
    def test_whoever_writes_is_refused_and_told(
        self, crashed: Path, toolstile: Toolstile, tool: str, arguments: dict[str, str]
    ) -> None:
        (crashed / "c" / "d.txt").write_text("edited")
        before = snapshot(crashed)

        status, _, err = toolstile(crashed, tool, arguments)
        assert status == 1
        assert "Cannot" in err
        assert "Internal error" not in err
        check_report(err, crashed)
        assert snapshot(crashed).keys() == before.keys()

    def test_a_file_that_is_new_already_may_be_edited(self, root: Path, on_disk: Open) -> None:
        drive(root, "--at", "applied")
        (root / "a.txt").write_text("edited")
        assert stopped(on_disk(root)) is None
        assert (root / "a.txt").read_text() == "edited"
        assert (root / "b.txt").read_bytes() == b"1\r\n"


@pytest.mark.slow
class TestDecidedElsewhere:
    @pytest.fixture
    def undecided(self, root: Path) -> Path:
        drive(root, "--at", "prepared", "--key", "the call")
        return root

    def test_waits_for_who_decides(self, undecided: Path, on_disk: Open) -> None:
        files = on_disk(undecided)
        assert "whether it was decided" in (files.store.notice() or "")
        files.recover(lambda _: None)
        with pytest.raises(PermissionError, match=r"a\.txt.* store that decides about the call"):
            files.write("a.txt", "x")
        assert number_in(undecided) == 0

    def test_keeps_no_other_call_from_its_files(
        self, undecided: Path, on_disk: Open, branch_of: Branch, commit: Commit
    ) -> None:
        files = on_disk(undecided)
        files.recover(lambda _: None)
        (undecided / "other.txt").write_text("1")
        branch = branch_of(files)
        branch.resource.write("new.txt", branch.resource.read("other.txt"))
        commit(branch)
        assert (undecided / "new.txt").read_text() == "1"

    def test_refuses_a_call_that_has_read_its_files(
        self, undecided: Path, on_disk: Open, branch_of: Branch, commit: Commit
    ) -> None:
        files = on_disk(undecided)
        files.recover(lambda _: None)
        branch = branch_of(files)
        branch.resource.write("new.txt", branch.resource.read("a.txt"))
        with pytest.raises(StateError, match="whether it was decided is unknown"):
            commit(branch)
        branch.rollback()
        assert not (undecided / "new.txt").exists()

    def test_gives_no_program_the_directory(self, undecided: Path, on_disk: Open) -> None:
        files = on_disk(undecided)
        files.recover(lambda _: None)
        with pytest.raises(StateError, match="decided is unknown"), files.exclusive_path():
            pass

    @pytest.mark.parametrize("answer", [True, False])
    def test_does_what_it_says(self, undecided: Path, on_disk: Open, *, answer: bool) -> None:
        files = on_disk(undecided)
        asked: list[str] = []
        files.recover(lambda key: asked.append(key) or answer)  # type: ignore[func-returns-value]
        assert asked == ["the call"]
        assert stopped(files) is None
        assert number_in(undecided) == int(answer)
        files.write("a.txt", "and on it goes")

    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            (
                LedgerError("The ledger is away. Start it."),
                "its decider cannot say: The ledger is away. Start it. Nothing was",
            ),
            (
                RuntimeError("its-password"),
                "its decider has failed (RuntimeError). Nothing was",
            ),
            (KeyboardInterrupt(), "that was ended by KeyboardInterrupt. Nothing was"),
        ],
        ids=["said", "raised", "interrupted"],
    )
    def test_stays_unfinished_where_who_decides_fails(
        self, undecided: Path, on_disk: Open, fault: BaseException, reason: str
    ) -> None:
        def fail(key: str) -> bool | None:
            raise fault

        files = on_disk(undecided)
        with nullcontext() if isinstance(fault, Exception) else pytest.raises(type(fault)):
            files.recover(fail)
        found = files.store.stopped if isinstance(fault, KeyboardInterrupt) else None
        assert reason in (found or files.store.notice() or "")
        (commit,) = (undecided / ".toolstile").glob("commit-*")
        assert str(commit) not in {os.path.realpath(each) for each in OPEN.iterdir()}

    def test_is_asked_again_at_the_next_change(
        self, undecided: Path, on_disk: Open, branch_of: Branch, commit: Commit
    ) -> None:
        answers = [None, True]
        files = on_disk(undecided)
        files.recover(lambda _: answers.pop(0))
        branch = branch_of(files)
        branch.resource.write("new.txt", "x")
        commit(branch)
        assert stopped(files) is None
        (undecided / "new.txt").unlink()
        assert number_in(undecided) == 1

    def test_is_not_asked_what_is_decided(self, root: Path, on_disk: Open) -> None:
        drive(root, "--at", "apply:2", "--key", "the call")
        assert stopped(on_disk(root)) is None
        assert number_in(root) == 1


@pytest.mark.slow
def test_another_process_finishes_it_while_this_one_lives(root: Path, on_disk: Open) -> None:
    files = on_disk(root)
    drive(root, "--at", "apply:3")
    files.write("new.txt", "x")
    (root / "new.txt").unlink()
    assert number_in(root) == 1

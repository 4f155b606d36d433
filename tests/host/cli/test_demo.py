"""The demo proves five scenes with real processes and files, and leaves nothing behind."""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import sysconfig
import termios
import time
from pathlib import Path

import pytest

COMMAND = Path(sysconfig.get_path("scripts")) / "toolstile"


@pytest.fixture
def demo(tmp_path):
    """Starts the demo in a hostile place; its temporary files are in `tmp`."""
    home, here, tmp = (tmp_path / name for name in ("home", "here", "tmp"))
    for folder in (home, here, tmp):
        folder.mkdir()
    home.chmod(0o500)
    (here / "toolstile.toml").write_text("this is no TOML", encoding="utf-8")
    for module in ("json", "sqlite3", "toolstile"):
        (here / f"{module}.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    variables = {"HOME": str(home), "TMPDIR": str(tmp), "TOOLSTILE_BLOCK": "ledger,vfs"}
    taken = ("TOOLSTILE_", "PYTHON", "NO_COLOR", "FORCE_COLOR", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(taken)}

    def start(*arguments, **options):
        return subprocess.Popen(
            [COMMAND, "demo", *arguments],
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            cwd=here,
            env={**kept, **variables, **options.pop("env", {})},
            text=True,
            encoding="utf-8",
            **options,
        )

    yield start
    assert not list(home.iterdir())
    assert len(list(here.iterdir())) == 4
    if sys.platform == "linux":
        assert_ended(tmp)


def assert_ended(folder):
    """Wait until no process has the folder among its arguments."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        lines = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                lines.append((process / "cmdline").read_bytes())
            except OSError:  # it has ended meanwhile
                continue
        if not any(str(folder).encode() in line for line in lines):
            return
        time.sleep(0.1)
    raise AssertionError(lines)


def told(made, status):
    out, err = made.communicate(timeout=120)
    assert (made.returncode, err) == (status, ""), (out, err)
    return out


@pytest.mark.slow
def test_the_proofs_of_all_scenes_hold(demo, tmp_path):
    kept = tmp_path / "kept"
    shown = json.loads(told(demo("--json", "--keep", kept), 0))
    assert shown["proved"] is True
    assert [scene["scene"] for scene in shown["scenes"]] == [1, 2, 3, 4, 5]
    proofs = [proof for scene in shown["scenes"] for proof in scene["proofs"].items()]
    assert len(proofs) == 13
    assert all(holds for _, holds in proofs), proofs
    payment, deletion = (scene["facts"] for scene in shown["scenes"][2:4])
    assert payment["signal"] == signal.SIGKILL
    after_the_kill, after_the_repeat = payment["accounts"]
    assert [entry["state"] for entry in after_the_kill["ledger"]] == ["unknown"]
    assert [entry["state"] for entry in after_the_repeat["ledger"]] == ["done"]
    assert after_the_kill["charges"] == after_the_repeat["charges"]
    (charge,) = (kept / "bank.log").read_text(encoding="utf-8").splitlines()
    assert charge == after_the_repeat["charges"][0]
    assert deletion["approved"] is True
    assert deletion["byDemo"] is True
    assert "notes/old.md" in deletion["asked"][0]["diff"]
    assert not (kept / "workspace/notes/old.md").exists()
    assert {each.name for each in kept.iterdir()} >= {"workspace", "shop.db", "ledger.db"}
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
def test_without_the_ledger_the_bank_charges_twice(demo, tmp_path):
    kept = tmp_path / "kept"
    out = told(demo("--scene", "3", "--block", "ledger", "--keep", kept), 1)
    (failed,) = re.findall("Not proved: .*", out)[:-1]
    assert "the bank has 1 charge; the ledger" in failed
    assert "signal 9" not in failed
    assert "Not proved: scene 3" in out
    assert len((kept / "bank.log").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (1, ("product: input should be", "quantity: input should be", "gift: not known")),
        (2, ("before the call: stock.txt ", "In this call: stock.txt ")),
        (5, ("rolled back", "at the start, and before the end: stock.txt")),
        (4, ("deleted notes/old.md", "Approved by the demo itself: standard input is no")),
    ],
)
def test_a_scene_says_what_to_look_for_and_how_it_was_proved(toolstile, scene, said):
    status, out, err = toolstile("demo", "--scene", scene, plugin=False)
    assert (status, err) == (0, "")
    first, *_, proof, _, end = out.splitlines()
    assert first.startswith(f" {scene}  ")
    assert ". Look for " in first
    assert proof.startswith(" ✓  Proved: ")
    assert end.strip().startswith("All proofs hold, after ")
    assert all(each in out for each in said), out
    assert "\x1b" not in out


def test_a_blocked_plugin_fails_the_proofs_that_need_it(toolstile):
    for scene, failed in ((2, "the call changed the file and the table"), (4, "the diff came")):
        status, out, _ = toolstile("demo", "--scene", scene, "--block", "vfs", plugin=False)
        assert status == 1
        assert f"Not proved: {failed}" in out


def test_the_person_can_hand_the_answer_to_the_demo(toolstile):
    _, out, _ = toolstile("demo", "--scene", 4, "--yes", plugin=False)
    assert "Approved by the demo itself: --yes was given." in out


def test_a_folder_that_is_there_is_refused_and_left_alone(toolstile, folder):
    before = sorted(folder.iterdir())
    status, out, err = toolstile("demo", "--keep", folder, plugin=False)
    assert (status, out) == (2, "")
    assert f"{folder} cannot be made: File exists. Give a new folder with --keep." in err
    assert sorted(folder.iterdir()) == before


def on_terminal(demo, question, answer, *arguments, **env):
    """Answer a question of the demo at a pseudo-terminal; return its status and its output."""
    ours, theirs = pty.openpty()
    made = demo(
        *arguments,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={"TERM": "xterm-256color", **env},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # so Linux says that nobody writes any more
            break
        if not part:
            break
        written += part
        if question in written and answer:
            os.write(ours, answer)
            answer = b""
    os.close(ours)
    return made.wait(timeout=60), written.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (b"y\n", "the file is gone after the yes"),
        (b"n too early\n", "the file stays without a yes"),
    ],
)
def test_a_person_at_a_terminal_decides(demo, tmp_path, answer, end):
    kept = tmp_path / "kept"
    is_yes = answer == b"y\n"
    env = {} if is_yes else {"NO_COLOR": "1"}
    arguments = ("--scene", "4", "--keep", str(kept))
    status, shown = on_terminal(demo, b"Keep it?", answer, *arguments, COLUMNS="200", **env)
    assert status == 0, shown
    assert end in shown
    assert "deleted notes/old.md" in shown
    assert "by the demo itself" not in shown
    assert ("\x1b[" in shown) is is_yes
    assert (kept / "workspace/notes/old.md").exists() is not is_yes


@pytest.mark.slow
def test_ctrl_c_at_the_question_leaves_nothing_behind(demo, tmp_path):
    status, shown = on_terminal(demo, b"Keep it?", b"\x03", "--scene", "4")
    assert status == 130, shown
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_bank_and_the_payer_end_with_the_demo(demo, tmp_path, signum):
    made = demo("--scene", "3")
    deadline = time.monotonic() + 60
    # The bank still runs then, and the second payer is started.
    while "kill -9" not in made.stdout.readline():
        assert time.monotonic() < deadline
    made.send_signal(signum)
    made.communicate(timeout=60)
    is_clean = signum != signal.SIGKILL
    assert made.returncode == (128 + signum if is_clean else -signum)
    assert (not list((tmp_path / "tmp").iterdir())) is is_clean

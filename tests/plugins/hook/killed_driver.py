"""Kills the process that watches an agent's calls, and tells what the next one finds.

A program of its own, because it forks. The agent is the parent: it runs each command wholly,
whatever becomes of the watching process. `FOLDER steps` prints the steps of calls, `FOLDER at STEP`
kills at one, and `FOLDER random ROUNDS SEED` at random instants.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.plugins.hook.agent_desk import AgentDesk, Failed

from toolstile import ToolCall, ToolContext

COMMAND = """
    for f in a b c d; do echo {0} > $f.txt; done; sed -i 's/.*/{0}/' sub/e.txt
    mv moving-* moving-{0}; mkdir -p made-{0}/x; echo {0} > made-{0}/x/y.txt; rm -rf made-{1}
    ln -sfn target-{0} link; chmod 7{2}0 run.sh
"""


def command(number: int, former: int) -> str:
    return COMMAND.format(number, former, number % 8)


def lay_out(sh: Callable[[str], object]) -> None:
    sh("mkdir sub moving-0; touch run.sh moving-0/big sub/e.txt; echo 0 > sub/e.txt")
    sh("printf '*.log\\n' > .gitignore; echo person > person.txt; echo mine > mine.log")
    sh(command(0, -1))
    sh("git add . && git commit -qm first")


def shown_in(tree: Mapping[str, str], numbers: set[int]) -> int:
    """Check that a tree shows one of some numbers, and only that; return it."""
    shown = {
        int(tree[path].split("'")[1].removesuffix("\\n"))
        for path in ("a.txt", "b.txt", "c.txt", "d.txt", "sub/e.txt")
    }
    if len(shown) != 1 or not shown <= numbers:
        raise AssertionError(f"torn: {shown} of {numbers}: {tree}")
    number = shown.pop()
    expected = {"link": f"-> target-{number}", "person.txt": tree["person.txt"]}
    expected |= {"run.sh": f"7{number % 8}0 b''", f"made-{number}/x/y.txt": f"644 b'{number}\\n'"}
    paths = {"a.txt", "b.txt", "c.txt", "d.txt", "sub", "sub/e.txt", "run.sh", "link", "mine.log"}
    paths |= {".gitignore", "person.txt", f"moving-{number}", f"moving-{number}/big"}
    paths |= {f"made-{number}", f"made-{number}/x", f"made-{number}/x/y.txt"}
    expected = {path: text.replace("\n", "\\n") for path, text in expected.items()}
    if set(tree) != paths or any(tree[path] != text for path, text in expected.items()):
        raise AssertionError(f"torn at {number}: {tree}")
    return number


def check(desk: AgentDesk, numbers: set[int]) -> int:
    """Check that the workspace shows one of some numbers, and that no call is open."""
    number = shown_in(desk.tree(), numbers)
    if desk.files.contents.open_calls():
        raise AssertionError("an open call is left")
    if litter := [each.name for each in desk.undo.glob("*.part")]:
        raise AssertionError(f"litter: {litter}")
    return number


def watch(folder: Path, steps: Callable[[str], None], link: Any, *, fails: bool) -> None:
    """Watch one call, whose command the other end of a connection runs."""
    desk = AgentDesk(folder, steps=steps)

    def run(_: dict[str, Any], context: ToolContext) -> str:
        os.write(link, b"begun\n")
        os.read(0, 1)
        assert context.tool_call is not None
        desk.files.ended(context.tool_call.id, failed=fails)
        if fails:
            raise Failed("Exit code 1")
        return ""

    desk.tools.dispatch(ToolCall("Bash", {"command": "?"}), using=run)
    os.write(link, b"over\n")


def life(  # noqa: C901 - both ends of a connection
    folder: Path,
    number: int,
    former: int,
    *,
    fails: bool,
    step: str = "",
    delay: tuple[str, float] = ("", 0.0),
    seen: Callable[[str], None] | None = None,
) -> tuple[bool, bool]:
    """Watch one call, perhaps killed; return whether its command has run, and whether it was."""
    answers, link = os.pipe()
    pause, go = os.pipe()
    # A marked process of ours would seem to be one of the command.
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(pause, 0)
        os.close(go)

        def steps(name: str) -> None:
            if seen is not None:
                os.write(link, f"step {name}\n".encode())
            if name == step:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            watch(folder, steps, link, fails=fails)
        except BaseException as error:
            sys.stderr.write(f"child: {error!r}\n")
            os._exit(1)
        os._exit(0)
    os.close(link)
    os.close(pause)
    since, seconds = delay
    timer = threading.Timer(seconds, os.kill, (child, signal.SIGKILL))
    has_run = False
    if since == "start":
        timer.start()
    with os.fdopen(answers) as lines:
        for line in lines:
            if line.startswith("step ") and seen is not None:
                seen(line[5:].strip())
            if line == "begun\n":
                if since == "begun":
                    timer.start()
                words = ["bash", "-c", command(number, former)]
                subprocess.run(words, cwd=folder / "work", check=True)
                has_run = True
                if since == "ended":
                    timer.start()
                try:
                    os.write(go, b"!")
                except BrokenPipeError:
                    break
    os.close(go)
    timer.cancel()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise AssertionError("the child has failed")
    return has_run, os.WIFSIGNALED(status)


def checked(folder: Path, numbers: set[int]) -> tuple[int, list[str]]:
    """Open the workspace as the next process does; return the number, and its reports."""
    reports: list[str] = []
    log = logging.getLogger("toolstile.hook")
    log.propagate = False
    log.handlers = [logging.Handler()]
    log.handlers[0].emit = lambda record: reports.append(record.getMessage())
    desk = AgentDesk(folder)
    try:
        number = check(desk, numbers)
        if reports:
            # What is reported can be undone as a whole.
            (note,) = [each for each in desk.files.undo.notes() if each.id in reports[0]]
            undo = desk.tools.undo(note.id)
            check(desk, numbers - {number})
            desk.tools.undo(undo.call.id)
            check(desk, {number})
        return number, reports
    finally:
        desk.close()


def at(folder: Path, step: str, *, fails: bool) -> None:
    desk = AgentDesk(folder)
    lay_out(desk.sh)
    desk.close()
    has_run, _ = life(folder, 1, 0, fails=fails, step=step)
    number, reports = checked(folder, {0, 1} if has_run else {0})
    sys.stdout.write(f"{number} {reports}\n")


def at_random(folder: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    # Seconds; as a machine is fast or slow, they become what a call takes there.
    longest = {"start": 0.5, "begun": 0.1, "ended": 0.2}
    desk = AgentDesk(folder)
    lay_out(desk.sh)
    desk.close()
    former, counts = 0, {"put back": 0, "reported": 0, "kept": 0, "not begun": 0}
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for each in range(1, rounds + 1):
        (folder / "work/person.txt").write_text(f"person {each}\n")
        (folder / "work/mine.log").write_text(f"mine {each}\n")
        fails = bool(each % 4)
        since = chance.choice(["start", "begun", "ended", "ended"])
        delay = since, chance.uniform(0, longest[since])
        has_run, was_killed = life(folder, each, former, fails=fails, delay=delay)
        longest[since] *= 1.1 if was_killed else 0.9
        number, reports = checked(folder, {former, each} if has_run else {former})
        if (folder / "work/person.txt").read_text() != f"person {each}\n":
            raise AssertionError("a person's file was changed")
        if (folder / "work/mine.log").read_text() != f"mine {each}\n":
            raise AssertionError("an ignored file was changed")
        kind = "put back" if number == former else "kept"
        counts["reported" if reports else kind if has_run else "not begun"] += 1
        former = number
    sys.stdout.write(f"{counts}\n")


def main() -> None:
    folder, how, *more = sys.argv[1:]
    folder_ = Path(folder)
    if how == "steps":
        for fails in (True, False):
            place = folder_ / str(fails)
            place.mkdir()
            desk = AgentDesk(place)
            lay_out(desk.sh)
            desk.close()
            found: list[str] = []
            life(place, 1, 0, fails=fails, seen=found.append)
            for step in found:
                sys.stdout.write(f"{step}\t{fails}\n")
    elif how == "at":
        at(folder_, more[0], fails=more[1] == "True")
    else:
        at_random(folder_, int(more[0]), int(more[1]))


if __name__ == "__main__":
    main()

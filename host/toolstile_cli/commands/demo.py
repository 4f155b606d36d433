"""`toolstile demo`: five scenes of tool calls, each with its proof."""

from __future__ import annotations

import argparse
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.text import Text

from toolstile_cli.console import Column, Table, Terminal, lines_of
from toolstile_cli.errors import UsageError
from toolstile_cli.examples import shop
from toolstile_cli.exit_codes import Exit
from toolstile_cli.run_report import FAILURE, SYMBOLS
from toolstile_hookspecs import ApprovalRequest, ExecutorHandle, Outcome, Status, ToolCall
from toolstile_plugins.approval import Mode
from toolstile_plugins.approval.dialogue import answer
from toolstile_plugins.approval.grants import HeldGrants
from toolstile_plugins.ledger.entries import wire_of
from toolstile_plugins.ledger.stores.sqlite import SqliteStore
from toolstile_plugins.screen import style_of

SUCCESS: Final = SYMBOLS[Status.SUCCEEDED]
PAUSE: Final = 0.25
"""Seconds between the lines on a terminal."""


class _Stage:
    """The folder of the scenes, and their output; with `--json` they show nothing."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args = args
        self.folder = folder
        self._terminal = Terminal()
        self._table = Table(self._terminal, [Column("", 1)], "")

    def show(self, text: str, style: str = "", signs: tuple[str, str] = ("", "")) -> None:
        if self.args.out is None:
            mark = self._terminal.sign(*signs, "", style)
            mark.rstrip()
            self._table.row([mark], [Text(line, style) for line in lines_of(text)])
            if self._terminal.is_terminal:
                time.sleep(PAUSE)

    def call(self, tools: ExecutorHandle, name: str, arguments: Mapping[str, object]) -> Outcome:
        self.show(f"{name} {json.dumps(arguments)}", "cyan")
        outcome = tools.dispatch(ToolCall(name, arguments))
        style = style_of(outcome.status)
        self.show(outcome.text, style, SYMBOLS.get(outcome.status, FAILURE))
        return outcome

    @contextmanager
    def tools(self, **options: Any) -> Generator[ExecutorHandle]:
        host = shop.shop_host(self.folder, self.args.block)
        with host, host.executor(**options) as tools:
            yield tools

    @contextmanager
    def process(self, role: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
        # Without -P, a `json.py` of the current folder would be imported.
        command = [sys.executable, "-P", "-m", shop.__name__, role, str(self.folder), *arguments]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True) as run:  # noqa: S603 - ours
            try:
                yield run
            finally:
                run.kill()

    def digests(self) -> str:
        with closing(sqlite3.connect(self.folder / "shop.db")) as rows:
            return shop.digests((self.folder / "workspace/stock.txt").read_text("utf-8"), rows)

    def accounts(self) -> dict[str, Any]:
        charges = (self.folder / "bank.log").read_text(encoding="utf-8").splitlines()
        with closing(SqliteStore(self.folder / "ledger.db")) as store:
            entries = [wire_of(entry) for entry in store.entries()]
        told = [f"bank.log: {charge}" for charge in charges]
        told += [f"ledger: {e['state']}: {e.get('reason') or e.get('value')}" for e in entries]
        self.show("\n".join(told if entries else [*told, "ledger: nothing is recorded"]))
        return {"charges": charges, "ledger": entries}


Proof = tuple[Mapping[str, bool], Mapping[str, Any]]
"""The claims of a scene, which must all hold, and further values for programs."""


def _wrong_arguments(stage: _Stage) -> Proof:
    digests = [stage.digests()]
    wrong = {"product": "cup", "quantity": "ten", "gift": True}
    with stage.tools() as tools:
        refused = stage.call(tools, "place_order", wrong)
        digests.append(stage.digests())
        repaired = stage.call(tools, "place_order", {"product": "mug", "quantity": 10})
    return {
        "one answer named all three": refused.text.count("\n  - ") == len(wrong),
        "the refused call changed nothing": digests[1] == digests[0],
        "the repaired call is kept": repaired.success and stage.digests() != digests[1],
    }, {"refused": refused.text, "digests": digests}


def _rolled_back(stage: _Stage) -> Proof:
    before = stage.digests()
    with stage.tools() as tools:
        failed = stage.call(tools, "ship_order", {"order": 1})
    after = stage.digests()
    stage.show(f"before the call: {before}\nafter the call:  {after}")
    old = [digest.strip(",") for digest in before.split()[1::2]]
    changed = "In this call" in failed.text and not any(digest in failed.text for digest in old)
    return {
        "the call changed the file and the table": changed,
        "the call failed": not failed.success,
        "both have their old digests": after == before,
    }, {"before": before, "failed": failed.text, "after": after}


def _killed(stage: _Stage) -> Proof:
    log, told = stage.folder / "bank.log", f"a new process: pay {json.dumps(shop.PAYMENT)}"
    with stage.process("bank") as bank:
        assert bank.stdout is not None  # noqa: S101 - a pipe
        payer = ("payer", bank.stdout.readline().strip(), *stage.args.block)
        stage.show(told, "cyan")
        with stage.process(*payer) as first:
            while not log.stat().st_size and first.poll() is None:
                time.sleep(0.02)
            first.kill()
            status = first.wait()
        stage.show(f"kill -9 {first.pid}: its wait status has signal {-status}", "red")
        accounts = [stage.accounts()]
        stage.show(told, "cyan")
        with stage.process(*payer) as second:
            paid = json.loads(second.communicate()[0] or "{}")
    stage.show(str(paid.get("data", paid.get("error", "The process failed."))))
    accounts.append(stage.accounts())
    return {
        "the first process died of signal 9": status == -signal.SIGKILL,
        "the bank has 1 charge": len(accounts[1]["charges"]) == 1,
        "the ledger answered the second process": "replayed" in paid,
    }, {"signal": -status, "accounts": accounts}


def _approved(stage: _Stage) -> Proof:
    # A person may edit the call, so the last question counts.
    asked: list[dict[str, Any]] = [{"path": "notes/old.md", "diff": None, "exists": False}]
    without = "" if sys.stdin.isatty() else "standard input is not a terminal"
    stand_in = "--yes was given" if stage.args.yes else without

    def exists(path: str) -> bool:
        return (stage.folder / "workspace" / path).exists()

    def approve(request: ApprovalRequest) -> Any:
        path = request.params.path
        asked.append({"path": path, "diff": request.diff, "exists": exists(path)})
        if not stand_in:
            return answer(request, Mode.ASK, HeldGrants())
        stage.show(request.diff or "")
        stage.show(f"Approved by the demo itself: {stand_in}.", "yellow")
        return True

    with stage.tools(approver=approve) as tools:
        stage.call(tools, "read_file", {"path": asked[0]["path"]})
        deleted = stage.call(tools, "delete_file", {"path": asked[0]["path"]})
    last, end = asked[-1], "is gone after the yes" if deleted.success else "stays without a yes"
    return {
        "the diff came before the deletion": bool(last["diff"]) and last["exists"],
        f"the file {end}": exists(last["path"]) != deleted.success,
    }, {"approved": deleted.success, "byDemo": bool(stand_in), "asked": asked[1:]}


def _rehearsed(stage: _Stage) -> Proof:
    digests, kept = [stage.digests()], False
    orders = ({"product": "mug", "quantity": 10}, {"product": "kettle", "quantity": 2})
    with stage.tools() as tools:
        for keeps in (False, True):
            with tools.transaction("stock up") as work:
                for order in orders:
                    stage.call(work, "place_order", order)
                digests.append(stage.digests())
                if not keeps:
                    work.rollback("It was a rehearsal.")
            kept = work.ended is not None and len(work.ended.calls) == len(orders)
            stage.show("kept" if keeps else "rolled back", "yellow")
            digests.append(stage.digests())
    start, *others, end = digests
    stage.show(f"at the start, and before the end: {start}\nafter the end: {end}")
    return {
        "nothing was written before the end": others == [start] * 3,
        "both orders are kept": end != start and kept,
    }, {"digests": digests}


SCENES: Final[Sequence[tuple[str, Callable[[_Stage], Proof]]]] = (
    ("Three wrong arguments. Look for all three in one answer.", _wrong_arguments),
    ("A tool fails after two changes. Look for the old digests after it.", _rolled_back),
    ("The process of a payment is killed. Look for a second charge in bank.log.", _killed),
    ("A deletion waits for a person. Look for its diff before the file is gone.", _approved),
    ("Two orders are rehearsed, then kept. Look for the digests before the end.", _rehearsed),
)


def demo(args: argparse.Namespace) -> int:
    """Show the scenes; 1 if a proof fails, `UsageError` if the folder to keep cannot be made."""
    began = time.monotonic()
    told: list[dict[str, Any]] = []
    with TemporaryDirectory(prefix="toolstile-demo-") as temporary:
        folder = args.keep or Path(temporary, "shop")
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            why = f"{folder} cannot be made: {error.strerror}. Give a new folder with --keep."
            raise UsageError(why) from error
        shop.open_shop(folder)
        stage = _Stage(args, folder)
        for number, (title, play) in enumerate(SCENES, 1):
            if args.scene in (None, number):
                stage.show(title, "bold", (str(number), str(number)))
                claims, facts = play(stage)
                if failed := "; ".join(claim for claim, holds in claims.items() if not holds):
                    stage.show(f"Not proved: {failed}.", "bold red", FAILURE)
                else:
                    stage.show(f"Proved: {'; '.join(claims)}.", "bold green", SUCCESS)
                stage.show("")
                named = {"scene": number, "title": title, "proved": not failed}
                told.append({**named, "proofs": claims, "facts": facts})
    failed = ", ".join(str(each["scene"]) for each in told if not each["proved"])
    seconds = round(time.monotonic() - began, 1)
    if args.out is not None:
        args.out.write({"proved": not failed, "seconds": seconds, "scenes": told})
    end = f"Not proved: scene {failed}" if failed else "All proofs hold"
    kept = f" The files are in {folder}." if args.keep else ""
    stage.show(f"{end}, after {seconds} seconds.{kept}", "bold")
    return Exit.FAILED if failed else Exit.OK

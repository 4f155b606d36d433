"""Calls of a session in memory are undone by a later process, with their effects outside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from tests.plugins.undo.test_refunds import PLUGIN, Shop, make_shop

from toolstile_cli.main import main
from toolstile_hookspecs.execution.undo import Difference, UndoConflict, UndoNote
from toolstile_plugins.undo import UndoStore

__all__ = ["make_shop"]


@pytest.fixture
def shop(make_shop: Callable[..., Shop]) -> Shop:
    return make_shop()


def noted_later(shop: Shop) -> list[UndoNote]:
    """Open the host again, as a later process does, and return its notes."""
    shop.host.close()
    shop.open()
    return list(shop.work.resources.get(UndoStore).notes())


def test_a_file_and_a_payment_go_back_together(shop: Shop) -> None:
    with shop.work.transaction("a trip") as trip:
        shop.call("write_file", trip, path="a.txt", content="x")
        paid = shop.call("pay", trip, purpose="rail")
    noted_later(shop)

    undo = shop.work.undo(paid.call.id)

    assert "the effect of pay" in undo.text
    assert (shop.states, shop.bank.balance("rail")) == (["undone"], 0)
    assert not (shop.folder / "work/a.txt").exists()


def test_a_payment_without_files_is_noted_until_it_is_undone(shop: Shop) -> None:
    shop.call("write_file", path="a.txt", content="x")
    paid = shop.call("pay", purpose="rail")
    assert [note.id for note in noted_later(shop)][1:] == [paid.call.id]

    undo = shop.work.undo(paid.call.id)

    assert shop.bank.balance("rail") == 0
    *_, last = noted_later(shop)
    assert (last.id, last.undoes, last.stays) == (
        undo.call.id,
        (paid.call.id,),
        ("effects outside",),
    )
    store = shop.work.resources.get(UndoStore)
    assert store.purge([last]) == 1
    assert last.id not in [note.id for note in store.notes()]


@pytest.mark.parametrize("decided", [True, False])
def test_after_a_crash_a_payment_is_noted_if_it_was_decided(shop: Shop, *, decided: bool) -> None:
    paid = shop.call("pay", purpose="rail")
    (record,) = (shop.folder / "undo").glob("*/decided")
    written = json.loads(record.read_text())
    if not decided:
        written["key"] = written["key"].replace("ledger:0", "ledger:f")
    # The process ended before it could rename the record.
    record.with_name("prepared").write_text(json.dumps(written))
    record.unlink()

    assert [note.id for note in noted_later(shop)] == [paid.call.id] * decided


def test_a_payment_that_is_rolled_back_leaves_no_note(shop: Shop) -> None:
    # So that it is rolled back after its note was prepared.
    shop.during = lambda key: shop.host.stop("The prices are wrong.")
    assert not shop.call("pay", purpose="rail").success
    assert noted_later(shop) == []
    assert not list((shop.folder / "undo").iterdir())


def test_the_command_says_that_a_refund_is_still_owed(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.call("pay", purpose="rail")
    shop.host.close()
    (shop.folder / "plugin.py").write_text(PLUGIN)  # its refund fails
    shop.file.write_text('plugin_files = ["plugin.py"]\n' + shop.file.read_text())

    assert main(["undo", "--last", "--yes"]) == 1
    assert "is still owed. `toolstile status` lists it" in capsys.readouterr().out
    assert main(["--json", "undo", "--list"]) == 0
    listed = map(json.loads, capsys.readouterr().out.splitlines())
    assert [each["state"] for each in listed] == ["undo", "owed"]
    assert main(["status"]) == 0
    assert re.search("^Owed: the undo of pay, ", capsys.readouterr().out, re.MULTILINE)
    assert main(["status", "--json"]) == 0
    assert [each["tool"] for each in json.loads(capsys.readouterr().out)["owed"]] == ["pay"]


def test_a_dry_run_does_not_speak_of_notes(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.host.close()
    call = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}
    (shop.folder / "calls.jsonl").write_text(f"{json.dumps(call)}\n")
    assert main(["run", "calls.jsonl", "--transaction", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "+x" in out
    assert "also used" not in out


def test_a_conflict_shows_the_beginning_of_long_values() -> None:
    told = str(UndoConflict([Difference("blob", "x" * 5000, "short")] * 30))
    assert f"blob: {'x' * 200}... (5000 characters), now short" in told
    assert "; and 10 more. Keep" in told

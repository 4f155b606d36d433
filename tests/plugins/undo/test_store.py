"""The store of undos: private, outside of the workspace, and within its bounds."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.plugins.undo.desks import Desk

from toolstile import ConfigurationError, Host
from toolstile_hookspecs.execution.undo import UndoConflict
from toolstile_plugins.undo import UndoSettings, UndoStore

DAY = 24 * 60 * 60


def store_of(desk: Desk) -> UndoStore:
    return UndoStore(desk.host.settings("undo"))


def test_only_its_user_can_read_it(desk: Desk) -> None:
    desk.call("write_both", path="a.txt", text="one")

    (entry,) = desk.store.iterdir()
    assert stat.S_IMODE(desk.store.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o700


def test_it_must_lie_outside_of_the_workspace(tmp_path: Path) -> None:
    host = Host()
    host.configure({"plugins.vfs.root": str(tmp_path), "plugins.undo.path": f"{tmp_path}/undo"})
    with pytest.raises(ConfigurationError, match="lies in the workspace"):
        host.open()


def test_the_user_s_directory_for_state_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert UndoSettings().directory == tmp_path / "toolstile/undo"


@pytest.mark.parametrize(
    ("given", "read"),
    [({"keep": "2 weeks"}, 14 * DAY), ({"most": "3 GB"}, 3 * 10**9), ({"file": "1KB"}, 1000)],
)
def test_amounts_have_units(given: dict[str, str], read: object) -> None:
    (name,) = given
    assert getattr(UndoSettings.model_validate(given), name) == read


@pytest.mark.parametrize("given", ["7", "much", "7 parsecs"])
def test_an_amount_without_a_known_unit_is_refused(given: str) -> None:
    with pytest.raises(ValidationError, match="a number and a unit"):
        UndoSettings.model_validate({"keep": given})


def test_equal_contents_are_kept_once(desk: Desk) -> None:
    for text in ("one", "two", "one", "two"):
        desk.call("write_both", path="a.txt", text=text)
        desk.call("write_both", path="b.txt", text=text)
    before = desk.tree()

    store_of(desk).tidy(time.time())

    files = [file for file in desk.store.rglob("*") if file.name.startswith(("new-", "old-"))]
    assert len(files) == 6
    assert len({file.stat().st_ino for file in files}) == 2
    notes = list(store_of(desk).notes())
    undo = desk.undo(*(note.id for note in notes))
    assert desk.tree() == {}
    desk.undo(undo)
    assert desk.tree() == before


def test_large_contents_are_dropped_and_the_rest_goes_back(
    make_desk: Callable[..., Desk],
) -> None:
    desk = make_desk(undo='file = "1 KB"\n')
    (desk.root / "big.txt").write_text("x" * 2000)
    (desk.root / "moved.txt").write_text("moved\n")
    (desk.root / "changed.txt").write_text("changed\n")
    for name in ("gone.txt", "script.sh"):
        (desk.root / name).write_text(name)
    (desk.root / "link").symlink_to("x")
    (desk.root / "folder").mkdir()
    (desk.root / "closed").mkdir()
    (desk.root / "folder/big.txt").write_text("x" * 2000)
    call = desk.call("change_files")
    store_of(desk).tidy(time.time())

    (note,) = store_of(desk).notes()
    assert store_of(desk).paths_of(note)[-1] == "1 dropped"
    with pytest.raises(UndoConflict, match="its former content, now not kept"):
        desk.tools.undo(call)
    desk.undo(call, others="keep")
    assert (desk.root / "changed.txt").read_text() == "changed\n"
    assert not (desk.root / "folder/big.txt").exists()


def test_old_calls_are_dropped(desk: Desk) -> None:
    desk.call("write_both", path="a.txt", text="one")

    store_of(desk).tidy(time.time() + 6 * DAY)
    assert len(list(desk.store.iterdir())) == 1
    store_of(desk).tidy(time.time() + 8 * DAY)
    assert not list(desk.store.iterdir())


def test_the_oldest_calls_are_dropped_first(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(undo='most = "8 KB"\n')
    for number in range(5):
        desk.call("write_both", path="a.txt", text=os.urandom(1_000).hex() + str(number))

    store_of(desk).tidy(time.time())

    left = [note.id for note in store_of(desk).notes()]
    assert 0 < len(left) < 5
    desk.undo()
    assert (desk.root / "a.txt").read_text().endswith("3")


def test_without_the_store_a_commit_goes_on(desk: Desk) -> None:
    desk.store.rmdir()

    call = desk.call("write_both", path="a.txt", text="one")

    assert (desk.root / "a.txt").read_text() == "one"
    assert desk.tools.undo(call).text.startswith("The former files of this call are not kept")

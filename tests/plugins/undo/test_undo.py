"""Undo: files, slices and both, with conflicts, redo, and rules."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.undo.desks import STORED, TOOLS, Desk, Line, bound, tree_of

from toolstile import (
    ApprovalAnswer,
    Host,
    PolicyDecision,
    Prompt,
    Session,
    StateError,
    ToolCall,
    ToolContext,
    TransactionFailed,
    hookimpl,
    tool,
)
from toolstile_hookspecs.execution.undo import Difference, UndoConflict, UndoNote
from toolstile_hookspecs.services.filesystem import Filesystem
from toolstile_plugins.undo import UndoStore
from toolstile_plugins.vfs import VirtualFilesystem


def furnish(root: Path) -> None:
    """Make each kind of path that `change_files` changes."""
    for name in ("changed.txt", "gone.txt", "moved.txt", "script.sh"):
        (root / name).write_text(f"{name}\n")
    (root / "gone.txt").chmod(0o640)
    (root / "link").symlink_to("changed.txt")
    (root / "folder/inner").mkdir(parents=True)
    (root / "folder/inner/deep.txt").write_text("deep\n")
    (root / "closed").mkdir(mode=0o755)


class TestFiles:
    def test_each_kind_of_change_goes_back_and_comes_again(self, desk: Desk) -> None:
        furnish(desk.root)
        before = desk.tree()
        call = desk.call("change_files")
        after = desk.tree()
        assert after != before

        undo = desk.undo(call)

        assert desk.tree() == before
        desk.undo(undo)
        assert desk.tree() == after

    def test_in_memory_too(self, tmp_path: Path) -> None:
        files = VirtualFilesystem.in_memory({"a.txt": "one\n", "d/b.txt": "b\n"})
        host = Host(tools=TOOLS)
        host.configure({"plugins.undo": {"path": str(tmp_path)}})
        with host, host.executor(resources=[bound(files)]) as tools:
            made = tools.dispatch(ToolCall("write_both", {"path": "a.txt", "text": "two\n"}))
            assert files.read("a.txt") == "two\n"
            assert tools.undo(made.call.id).success
            assert files.read("a.txt") == "one\n"

    def test_an_edit_since_is_a_conflict_that_names_both_versions(self, desk: Desk) -> None:
        furnish(desk.root)
        call = desk.call("change_files")
        (desk.root / "changed.txt").write_text("mine\n")
        (desk.root / "script.sh").chmod(0o700)
        (desk.root / "gone.txt").write_text("again\n")
        before = desk.tree()

        with pytest.raises(UndoConflict) as raised:
            desk.tools.undo(call)

        assert desk.tree() == before
        differing = {each.name: each for each in raised.value.differences}
        assert set(differing) == {"changed.txt", "script.sh", "gone.txt"}
        assert "SHA-256" in differing["changed.txt"].left != differing["changed.txt"].now
        assert differing["script.sh"].left.endswith("with mode 755")
        assert differing["script.sh"].now.endswith("with mode 700")
        assert differing["gone.txt"].left == "the call left nothing"

    def test_others_keep_undoes_the_rest(self, desk: Desk) -> None:
        furnish(desk.root)
        before = desk.tree()
        call = desk.call("change_files")
        (desk.root / "changed.txt").write_text("mine\n")

        desk.undo(call, others="keep")

        assert desk.tree() == {**before, "changed.txt": "644 b'mine\\n'"}

    def test_a_call_whose_values_others_have_all_changed_is_not_undone(self, desk: Desk) -> None:
        calls = [desk.call("write_file", path=path, content="one") for path in ("a.txt", "b.txt")]
        (desk.root / "a.txt").write_text("mine")
        stays = "These values stay, because others have changed or need them: a.txt. So nothing of "

        none = desk.tools.undo(calls[0], others="keep")
        both = desk.tools.undo(*calls, others="keep")

        assert none.text.startswith(f"Nothing was undone. {stays}write_file, ")
        assert "undo.calls" not in none.event.attributes
        assert f"Back to the former state: b.txt. {stays}write_file, " in both.text
        assert both.event.attributes["undo.calls"] == (calls[1],)
        assert list(desk.tree()) == ["a.txt"]
        with pytest.raises(UndoConflict, match=r"a\.txt: the call left"):
            desk.tools.undo()

    def test_a_directory_with_entries_of_others_stays(self, desk: Desk) -> None:
        furnish(desk.root)
        call = desk.call("change_files")
        (desk.root / "made/mine.txt").write_text("mine\n")

        desk.undo(call)

        assert [path.name for path in (desk.root / "made").iterdir()] == ["mine.txt"]

    def test_a_directory_that_others_made_again_is_no_conflict(self, desk: Desk) -> None:
        furnish(desk.root)
        call = desk.call("delete_file", path="folder", recursive=True)
        (desk.root / "folder").mkdir()
        (desk.root / "folder/mine.txt").write_text("mine\n")

        desk.undo(call)

        assert {"folder/inner/deep.txt", "folder/mine.txt"} <= desk.tree().keys()

    def test_several_calls_are_undone_as_one(self, desk: Desk) -> None:
        texts = ["one\n", "two\n", "three\n"]
        calls = [desk.call("write_both", path="a.txt", text=text) for text in texts]

        undo = desk.undo(*calls)

        assert desk.tree() == {}
        assert desk.lines == []
        desk.undo(undo)
        assert (desk.root / "a.txt").read_text() == "three\n"
        assert desk.lines == texts

    def test_a_transaction_is_undone_as_a_whole(self, any_desk: Desk) -> None:
        desk = any_desk
        desk.call("write_both", path="a.txt", text="before")
        with desk.tools.transaction("three calls") as work:
            made = [
                work.dispatch(ToolCall("write_both", {"path": path, "text": path}))
                for path in ("a.txt", "b.txt", "b.txt")
            ]
        assert desk.lines == ["before", "a.txt", "b.txt", "b.txt"]

        undo = desk.undo(made[1].call.id)

        assert desk.tree() == {"a.txt": "644 b'before'"}
        assert desk.lines == ["before"]
        desk.undo(undo)
        assert desk.lines == ["before", "a.txt", "b.txt", "b.txt"]

    def test_an_undo_in_a_transaction_is_kept_with_it(self, desk: Desk) -> None:
        call = desk.call("write_both", path="a.txt", text="one")
        work = desk.tools.transaction("try")
        with work:
            assert work.undo(call).success
            work.rollback()
        assert "a.txt" in desk.tree()
        with desk.tools.transaction("keep") as work:
            assert work.undo(call).success
            assert "a.txt" in desk.tree()
        assert desk.tree() == {}

    def test_a_new_file_of_a_transaction_has_no_mode_that_differs(self, desk: Desk) -> None:
        with desk.tools.transaction("the same") as work:
            made = {"path": "a.txt", "text": "same"}
            assert work.dispatch(ToolCall("write_both", made)).success
            (desk.root / "a.txt").write_text("mine")
            call = desk.call("write_both", path="a.txt", text="same")
            assert work.undo(call).success
            work.rollback()

    @pytest.mark.parametrize("size", [4, 2 << 20])
    def test_a_former_file_that_others_have_changed_does_not_come_back(
        self, desk: Desk, size: int
    ) -> None:
        file, outside = desk.root / "a.txt", desk.folder / "outside"
        file.write_text("o" * size)
        os.utime(file, (1, 1))
        outside.hardlink_to(file)
        with outside.open("r+") as writer:
            call = desk.call("write_both", path="a.txt", text="new")
            writer.write("late")
        told = "a.txt: its former content, now changed by others after the call"
        with pytest.raises(UndoConflict, match=told):
            desk.tools.undo(call)
        desk.undo(call, others="keep")
        assert (file.read_text(), desk.lines) == ("new", [])

    def test_equal_large_files_come_back(self, desk: Desk) -> None:
        content, calls = "o" * (2 << 20), []
        for number in (1, 2):
            file = desk.root / f"{number}.txt"
            file.write_text(content)
            os.utime(file, (number, number))
            calls.append(desk.call("write_both", path=file.name, text="new"))
        desk.tools.resources.get(UndoStore).tidy(time.time())
        assert len({each.stat().st_ino for each in desk.store.glob("*/new-*")}) == 1
        desk.undo(*calls)
        assert {each.read_text() for each in desk.root.glob("*.txt")} == {content}

    def test_an_older_call_conflicts_with_a_newer_one(self, desk: Desk) -> None:
        first, _ = (desk.call("write_both", path="a.txt", text=text) for text in ("one", "two"))

        with pytest.raises(UndoConflict, match=r"^Nothing was undone, .* a\.txt: the call left"):
            desk.tools.undo(first)

    def test_a_large_file_is_known_by_its_time(self, desk: Desk) -> None:
        (desk.root / "big.bin").write_bytes(os.urandom(2 << 20))
        before = desk.tree()
        call = desk.call("move_file", source="big.bin", target="sub/big.bin")

        os.utime(desk.root / "sub/big.bin", (1, 1))
        with pytest.raises(UndoConflict, match="written at"):
            desk.tools.undo(call)
        desk.undo(desk.call("move_file", source="sub/big.bin", target="other.bin"))
        call = desk.call("move_file", source="sub/big.bin", target="big.bin")
        assert desk.tree() == {**before, "sub": "755"}
        desk.undo(call)
        assert "sub/big.bin" in desk.tree()

    def test_files_of_another_workspace_are_refused(self, desk: Desk) -> None:
        call = desk.call("write_both", path="a.txt", text="one")
        (desk.folder / "other").mkdir()
        host = Host(config=desk.folder / "toolstile.toml")
        host.configure({"plugins.vfs.root": f"{desk.folder}/other"})
        with host, host.executor() as tools:
            outcome = tools.undo(call)

        assert outcome.text.startswith("The files of this call lie in another workspace")
        assert str(desk.root) not in outcome.text


class TestSlices:
    def test_appended_items_go_and_later_ones_stay(self, any_desk: Desk) -> None:
        desk = any_desk
        first, second, _ = (desk.call("add_line", text=text) for text in "abc")

        undo = desk.undo(second)
        assert desk.lines == ["a", "c"]
        desk.undo(first)
        assert desk.lines == ["c"]

        with pytest.raises(UndoConflict, match="Line: the call left 2 items, now 1 item"):
            desk.tools.undo(undo)

    def test_a_replaced_slice_has_its_former_items(self, any_desk: Desk) -> None:
        desk = any_desk
        desk.call("add_line", text="a")
        call = desk.call("set_lines", texts=["x", "y"])

        undo = desk.undo(call)
        assert desk.lines == ["a"]
        desk.undo(undo)
        assert desk.lines == ["x", "y"]

    def test_items_that_another_call_replaced_are_a_conflict(self, any_desk: Desk) -> None:
        desk = any_desk
        added = desk.call("add_line", text="a")
        call = desk.call("set_lines", texts=["x"])
        desk.tools.session[Line].append(Line("mine"))

        with pytest.raises(UndoConflict) as raised:
            desk.tools.undo(added, call)

        assert [each.name for each in raised.value.differences] == ["Line", "Line"]
        assert desk.lines == ["x", "mine"]

    def test_files_and_slices_are_one_decision(self, any_desk: Desk) -> None:
        desk = any_desk
        call = desk.call("write_both", path="a.txt", text="one")
        (desk.root / "a.txt").write_text("mine")

        with pytest.raises(UndoConflict):
            desk.tools.undo(call)
        assert desk.lines == ["one"]

        desk.undo(call, others="keep")
        assert desk.lines == []
        assert (desk.root / "a.txt").read_text() == "mine"

    @pytest.mark.parametrize("text", ["one", "long" * 100])
    def test_a_stored_session_is_undone_by_another_process(
        self, make_desk: Callable[..., Desk], text: str
    ) -> None:
        desk = make_desk(STORED)
        call = desk.call("write_both", path="a.txt", text=text)
        replaced = desk.call("set_lines", texts=["x", text])
        emptied = desk.call("set_lines", texts=[])
        desk.host.close()
        # Without the tools, the slice's type is not known there.
        other = make_desk(STORED, tools=[])

        undo = other.undo(emptied, replaced)
        assert other.lines == [text]
        other.undo(call)
        assert (other.tree(), other.lines) == ({}, [])
        with pytest.raises(UndoConflict, match="Line: the call left 1 item, now 0 items"):
            other.tools.undo(undo)

    @pytest.mark.parametrize("text", ["one", "long" * 100])
    def test_a_session_that_was_json_is_undone(self, desk: Desk, text: str) -> None:
        calls = [desk.call("add_line", text=text), desk.call("set_lines", texts=["x"])]
        session = Session.from_json(desk.tools.session.to_json(), kinds=[Line])

        with desk.host.executor(session=session) as tools:
            assert tools.undo(calls[1]).success
            assert [line.text for line in session[Line].all()] == [text]
            assert tools.undo(calls[0]).success
            assert not session[Line].all()

    def test_items_without_json_stay_and_are_named(self, make_desk: Callable[..., Desk]) -> None:
        class Odd:
            pass

        @tool(category="write", contained=True)
        def keep_odd(*, context: Any) -> str:
            """Keep an item that has no JSON form."""
            context.session[Odd].append(Odd())
            context.session[Line].append(Line("a"))
            return "Kept."

        desk = make_desk(tools=[keep_odd])
        outcome = desk.tools.undo(desk.call("keep_odd"))

        assert outcome.text.endswith(f"Not undone, because they cannot be: {Odd.__qualname__}.")
        assert desk.lines == []
        assert len(desk.tools.session[Odd].all()) == 1

    def test_old_notes_are_dropped(self, make_desk: Callable[..., Desk]) -> None:
        desk = make_desk(undo='keep = "1 minutes"\n')
        for number in range(70):
            desk.call("add_line", text=str(number))
        assert len(desk.tools.session[UndoNote].all()) == 70

        with desk.host.executor(session=desk.tools.session, clock=Later()) as tools:
            tools.dispatch(ToolCall("add_line", {"text": "late"}))

        assert len(desk.tools.session[UndoNote].all()) == 1


class Later:
    """A clock that is an hour ahead."""

    def now(self) -> Any:
        from datetime import UTC, datetime, timedelta

        return datetime.now(UTC) + timedelta(hours=1)

    def monotonic(self) -> float:
        import time

        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError


class Shelf:
    """An exclusive resource that can undo: a list of books."""

    def __init__(self) -> None:
        self.books: list[str] = []
        self._before = 0

    def begin(self) -> int:
        self._before = len(self.books)
        return self._before

    def commit(self, savepoint: int) -> None:
        """Keep the books."""

    def rollback(self, savepoint: int) -> None:
        del self.books[savepoint:]

    def reverse(self) -> str:
        return "\n".join(self.books[self._before :])

    def undo(self, text: str) -> tuple[list[str], list[Difference]]:
        missing = [book for book in text.split("\n") if book not in self.books]
        if missing:
            return [], [Difference("the shelf", f"the call left {text}", "others")]
        for book in text.split("\n"):
            self.books.remove(book)
        return ["the shelf"], []


@tool(category="write", contained=True)
def add_book(title: str, *, context: ToolContext) -> str:
    """Put a book on the shelf."""
    context.resources.get(Shelf).books.append(title)
    return "Added."


class TestResources:
    def test_an_exclusive_resource_with_reverse_goes_back(
        self, make_desk: Callable[..., Desk]
    ) -> None:
        desk, shelf = make_desk(tools=[add_book]), Shelf()
        with desk.host.executor(resources={Shelf: shelf}) as tools:
            call = tools.dispatch(ToolCall("add_book", {"title": "Emma"})).call
            undo = tools.undo(call.id)
            assert "the shelf." in undo.text
            assert shelf.books == []
            call = tools.dispatch(ToolCall("add_book", {"title": "Emma"})).call
            shelf.books.clear()
            with pytest.raises(UndoConflict, match="the shelf: the call left Emma"):
                tools.undo(call.id)

    @pytest.mark.parametrize("undoes", [True, False])
    def test_an_exclusive_resource_that_a_transaction_holds_names_it(
        self, make_desk: Callable[..., Desk], undoes: bool
    ) -> None:
        desk, shelf = make_desk(tools=[add_book]), Shelf()
        call = ToolCall("add_book", {"title": "Emma"})
        with desk.host.executor(resources={Shelf: shelf}) as tools:
            assert tools.dispatch(call).success
            with tools.transaction("a trip") as trip:
                assert trip.dispatch(call).success
                refused = tools.undo() if undoes else tools.dispatch(call)
            name = "undo_calls" if undoes else "add_book"
            assert refused.text == (
                f"{name} was rolled back: Shelf is held by the transaction 'a trip', which waits "
                "for this call to end. Retry after the transaction 'a trip' has ended."
            )
            assert tools.undo().success

    def test_a_resource_without_reverse_is_named(self, make_desk: Callable[..., Desk]) -> None:
        class Other(Shelf):
            reverse = property()  # type: ignore[assignment]

        desk, shelf = make_desk(tools=[add_book]), Other()
        with desk.host.executor(resources={Shelf: shelf}) as tools:
            first = tools.dispatch(ToolCall("write_file", {"path": "a", "content": ""})).call
            call = tools.dispatch(ToolCall("add_book", {"title": "Emma"})).call
            alone, both = tools.undo(call.id), tools.undo(first.id, call.id)
            assert not alone.success
            assert re.fullmatch(
                r"Nothing of add_book, \S+ can go back, because these cannot be undone: Other\. "
                r"Continue without it\.",
                alone.text,
            )
            assert both.text.endswith("Not undone, because they cannot be: Other.")
            assert both.event.attributes["undo.calls"] == (first.id,)
            assert "No call of this session can be undone." in tools.undo().text
            assert shelf.books == ["Emma"]


class TestIds:
    def test_a_provider_s_id_is_taken_if_it_is_unique(self, desk: Desk) -> None:
        for text, provider_id in (("a", "call_0"), ("b", "call_1"), ("c", "call_0")):
            call = ToolCall("add_line", {"text": text}, provider_id=provider_id)
            assert desk.tools.dispatch(call).success

        assert desk.tools.undo("call_1").success
        assert desk.lines == ["a", "c"]
        outcome = desk.tools.undo("call_0")
        first, _, third = desk.tools.session[UndoNote].all()[:3]
        assert not outcome.success
        assert first.id in outcome.text
        assert third.id in outcome.text
        assert desk.lines == ["a", "c"]

    def test_without_ids_the_last_call_that_stands_is_undone(self, desk: Desk) -> None:
        for text in "abc":
            desk.call("add_line", text=text)

        undos = [desk.undo(), desk.undo()]
        assert desk.lines == ["a"]
        desk.undo(undos[1])
        desk.undo()
        assert desk.lines == ["a"]

    def test_without_ids_the_last_call_of_the_session_is_undone(self, any_desk: Desk) -> None:
        desk = any_desk
        desk.call("add_line", text="a")
        with desk.host.executor(session_id="other") as tools:
            other = ToolCall("write_both", {"path": "a.txt", "text": "one"})
            assert tools.dispatch(other).success

        desk.undo()

        assert desk.lines == []
        assert "a.txt" in desk.tree()
        assert desk.tools.undo().text.startswith("No call of this session can be undone.")

    def test_of_another_session_only_the_files_go_back(self, any_desk: Desk) -> None:
        desk = any_desk
        with desk.host.executor(session_id="other") as tools:
            made = ToolCall("write_both", {"path": "a.txt", "text": "one"})
            call = tools.dispatch(made).call
            undo = desk.tools.undo(call.id)
            assert [line.text for line in tools.session[Line].all()] == ["one"]

        assert desk.tree() == {}
        assert undo.text.endswith("Their changes to other sessions stay, if there are any.")

    def test_an_agent_with_its_own_session_undoes_its_last_call(self, desk: Desk) -> None:
        def agree(request: Any) -> bool:
            return True

        with (
            desk.host.executor(approver=agree) as tools,
            tools.child("reader", session="own") as child,
        ):
            for text in "ab":
                child.dispatch(ToolCall("write_both", {"path": text, "text": text}))
            assert child.dispatch(ToolCall("undo_calls")).success
            assert [line.text for line in child.session[Line].all()] == ["a"]
        assert desk.tree() == {"a": "644 b'a'"}

    def test_a_transaction_is_as_late_as_its_end(self, any_desk: Desk) -> None:
        desk = any_desk
        with desk.tools.transaction("both") as work:
            between = desk.call("write_both", path="a.txt", text="one")
            made = {"path": "a.txt", "text": "two"}
            assert work.dispatch(ToolCall("write_both", made)).success
        assert desk.lines == ["one", "two"]

        undo = desk.undo(between, work.id)

        assert (desk.lines, desk.tree()) == ([], {})
        desk.undo(undo)
        desk.undo()
        assert (desk.lines, desk.tree()) == (["one"], {"a.txt": "644 b'one'"})

    @pytest.mark.parametrize("end", ["kept", "rolled back", "dry run"])
    def test_a_second_undo_of_a_transaction_is_of_the_call_before(
        self, any_desk: Desk, end: str
    ) -> None:
        ids = [any_desk.call("write_both", path=f"{text}.txt", text=text) for text in "abc"]
        with ExitStack() as stack:
            tools: Any = any_desk.tools
            if end == "dry run":
                rehearsal = any_desk.host.executor(session=tools.session, dry_run=True)
                tools = stack.enter_context(rehearsal)
            work = stack.enter_context(tools.transaction("back"))
            undone = [*work.undo().event.attributes["undo.calls"]]
            with work.transaction("again") as inner:
                undone += inner.undo().event.attributes["undo.calls"]
            assert undone == [ids[2], ids[1]]
            if end == "rolled back":
                work.rollback()
        if end != "kept":
            assert sorted(any_desk.tree()) == ["a.txt", "b.txt", "c.txt"]
            assert any_desk.tools.undo().event.attributes["undo.calls"] == (ids[2],)
            return
        assert (any_desk.lines, list(any_desk.tree())) == (["a"], ["a.txt"])
        # The undos stay, and the last call that stands is the first one.
        any_desk.undo()
        assert (any_desk.lines, any_desk.tree()) == ([], {})

    def test_a_transaction_with_an_undo_is_a_call_like_others(self, any_desk: Desk) -> None:
        any_desk.call("write_both", path="a.txt", text="a")
        with any_desk.tools.transaction("other") as work:
            assert work.undo().success
            assert work.dispatch(ToolCall("add_line", {"text": "b"})).success
        assert any_desk.lines == ["b"]
        any_desk.undo()
        assert (any_desk.lines, list(any_desk.tree())) == (["a"], ["a.txt"])

    def test_a_call_is_undone_once(self, any_desk: Desk) -> None:
        """Equal items and files that others have made since stay."""
        desk = any_desk
        first, *_ = (desk.call("add_line", text="a") for _ in "123")
        written = desk.call("write_both", path="a.txt", text="one")
        file_undo, undo = desk.undo(written), desk.undo(first)
        (desk.root / "a.txt").write_text("one")
        for call, by in ((first, undo), (written, file_undo)):
            refused = desk.tools.undo(call)
            assert not refused.success
            assert f"is undone already, by call {by}. Undo that one to redo it." in refused.text
        assert (desk.lines, list(desk.tree())) == (["a", "a"], ["a.txt"])

        redo = desk.undo(undo)
        assert desk.lines == ["a", "a", "a"]
        assert f"already, by call {redo}." in desk.tools.undo(undo).text
        again = desk.undo(first)
        # It would take back the same item.
        assert f"already, by call {again}." in desk.tools.undo(redo).text
        assert desk.lines == ["a", "a"]

    def test_a_call_is_undone_once_in_a_transaction(self, any_desk: Desk) -> None:
        first, *_ = (any_desk.call("add_line", text="a") for _ in "12")
        with any_desk.tools.transaction("back") as work:
            assert work.undo(first).success
            with work.transaction("a part") as part:
                refused = part.undo(first)
                assert "already, by this transaction. Omit it." in refused.text
        assert any_desk.lines == ["a"]

    @pytest.mark.parametrize("name", ["add_line", "write_both"])
    def test_of_two_hosts_one_undoes_a_call(
        self, make_desk: Callable[..., Desk], name: str
    ) -> None:
        more = {"path": "a.txt"} if name == "write_both" else {}
        desk, other = make_desk(STORED), make_desk(STORED)
        first, *_ = (desk.call(name, text="a", **more) for _ in "12"[: 2 - len(more)])
        work = desk.tools.transaction("back")
        assert work.undo(first).success
        other.undo(first)
        other.call(name, text="a", **more)
        with pytest.raises(TransactionFailed):
            work.commit()
        assert "is undone already" in desk.tools.undo(first).text
        assert desk.lines == ["a", "a"][len(more) :]
        assert list(desk.tree()) == [*more.values()]

    def test_an_undo_in_a_transaction_depends_only_on_its_values(self, any_desk: Desk) -> None:
        call = any_desk.call("write_both", path="a.txt", text="one")
        with any_desk.tools.transaction("back") as work:
            assert work.undo(call).success
            other = any_desk.tools.dispatch(
                ToolCall("write_file", {"path": "b.txt", "content": ""})
            )
            assert other.success
        assert (any_desk.lines, list(any_desk.tree())) == ([], ["b.txt"])

    def test_an_unknown_id_fails(self, desk: Desk) -> None:
        assert desk.tools.undo("no").text.startswith("Call 'no' cannot be undone")

    def test_without_the_table_there_is_nothing(self) -> None:
        with Host(discover=True, tools=TOOLS) as host, host.executor() as tools:
            assert tools.dispatch(ToolCall("add_line", {"text": "a"})).success
            assert not tools.session[UndoNote].all()
            assert host.catalog.get("undo_calls") is None
            assert "undo_notes" not in [report.name for report in host.plugins.reports]
            with pytest.raises(StateError, match=r"Add \[plugins.undo\]"):
                tools.undo("x")


class TestRules:
    def test_a_model_is_asked_and_the_application_is_not(
        self, make_desk: Callable[..., Desk]
    ) -> None:
        desk = make_desk()
        call = desk.call("add_line", text="a")
        asked = ToolCall("undo_calls", {"calls": [call]})
        assert "requires confirmation" in desk.tools.dispatch(asked).text

        def approve(request: Any) -> ApprovalAnswer:
            seen.append(request.tool.name)
            return ApprovalAnswer.approve()

        seen: list[str] = []
        with desk.host.executor(session=desk.tools.session, approver=approve) as tools:
            assert tools.dispatch(asked).success
            assert tools.undo(desk.call("add_line", text="b")).success
        assert seen == ["undo_calls"]
        assert desk.lines == []

    def test_a_rule_that_denies_holds_for_everybody(self, make_desk: Callable[..., Desk]) -> None:
        class Deny:
            @hookimpl
            def toolstile_check(self, tool: Any) -> PolicyDecision | None:
                return PolicyDecision.deny("Not now.") if tool.name == "undo_calls" else None

        desk = make_desk()
        call = desk.call("add_line", text="a")
        desk.host.register(Deny(), "deny")

        assert desk.tools.undo(call).text == "Not now."
        assert desk.lines == ["a"]

    def test_a_model_undoes_calls_of_its_own_session_only(self, desk: Desk) -> None:
        call = desk.call("write_both", path="a.txt", text="one")

        with desk.host.executor(approver=lambda _: True) as tools:
            outcome = tools.dispatch(ToolCall("undo_calls", {"calls": [call]}))

        assert outcome.text.startswith(f"Call '{call}' cannot be undone")
        assert (desk.root / "a.txt").exists()

    def test_a_prompt_without_the_section_can_be_undone(self, desk: Desk) -> None:
        prompt = Prompt.of("own", "prompt", [])
        with desk.host.executor(prompt=prompt, tools=TOOLS) as tools:
            made = tools.dispatch(ToolCall("add_line", {"text": "a"}))
            assert tools.undo(made.call.id).success
            assert not tools.session[Line].all()

    def test_the_next_turn_reads_what_went_back(self, desk: Desk) -> None:
        def prompt() -> str:
            return desk.tools.prompt.render(desk.tools.session, desk.tools.resources).text

        desk.tools.request("Write a.txt.")
        call = desk.call("write_both", path="a.txt", text="one")
        assert "Back to" not in prompt()
        desk.undo(call)
        assert "Back to the former state: Line, a.txt" in prompt()
        desk.tools.request("Go on.")
        assert "Back to" in prompt()
        desk.tools.request("Go on.")
        assert "Back to" not in prompt()

    def test_on_an_event_loop(self, desk: Desk) -> None:
        call = desk.call("write_both", path="a.txt", text="one")

        assert asyncio.run(desk.tools.aundo(call)).success

        assert desk.tree() == {}

    def test_a_dry_run_shows_the_undo_and_keeps_nothing(self, desk: Desk) -> None:
        call = desk.call("write_both", path="a.txt", text="one\n")
        with desk.host.executor(session=desk.tools.session, dry_run=True) as tools:
            assert tools.undo(call).success
            assert "deleted a.txt (4 bytes)" in tools.rehearsed()
        assert (desk.root / "a.txt").exists()
        assert len(list(UndoStore(desk.host.settings("undo")).notes())) == 1


CRASH = """
import os, sys
from tests.plugins.undo.desks import TOOLS, bound
from toolstile import Host, ToolCall
from toolstile_plugins.vfs import VirtualFilesystem
from toolstile_plugins.vfs.backends.disk.store import DiskStore

config, root, step = sys.argv[1:]

def die(now):
    if now == step:
        os.kill(os.getpid(), 9)

with Host(config=config, tools=TOOLS) as host:
    files = VirtualFilesystem(DiskStore(root, durability="process", steps=die))
    with host.executor(session_id="desk", resources=[bound(files)]) as tools:
        tools.dispatch(ToolCall("write_both", {"path": "a.txt", "text": "two"}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", STORED], ids=["memory", "stored"])
@pytest.mark.parametrize("step", ["staged", "prepared", "decided", "apply:0", "applied", "kept"])
def test_after_a_crash_there_is_a_call_with_its_undo_or_no_call(
    make_desk: Callable[..., Desk], step: str, more: str
) -> None:
    desk = make_desk(more)
    (desk.root / "a.txt").write_text("one")
    desk.host.close()
    config = desk.folder / "toolstile.toml"
    done = subprocess.run(
        [sys.executable, "-c", CRASH, str(config), str(desk.root), step],
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert done.returncode == -9

    desk = make_desk(more)
    _ = desk.tools.resources.get(Filesystem)  # type: ignore[type-abstract]
    notes = list(UndoStore(desk.host.settings("undo")).notes())

    happened = (desk.root / "a.txt").read_text() == "two"
    assert happened == (step not in {"staged", "prepared"})
    assert len(notes) == happened
    if more:
        assert len(desk.tools.session[UndoNote].all()) == happened
        assert desk.lines == ["two"] * happened
    if happened:
        desk.undo(notes[0].id)
        assert tree_of(desk.root) == {"a.txt": "644 b'one'"}

"""A stranger's approver keeps what a person saw, of a program that never prints it again."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import Binding, Filesystem, Status, ToolCall
from toolstile_plugins.vfs.workspace import VirtualFilesystem

from . import approval_shelf
from .approval_shelf import Shelf


def test_it_imports_the_contract_alone():
    tree = ast.parse(Path(approval_shelf.__file__).read_text())
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {name for name in modules if name.startswith("toolstile")}
    assert {name.split(".")[0] for name in ours} == {"toolstile_hookspecs"}


@pytest.fixture
def shelf():
    return Shelf()


@pytest.fixture
def opened(tmp_path, shelf):
    files = Binding[Filesystem](
        Filesystem,  # type: ignore[type-abstract]
        lambda resources: VirtualFilesystem.on_disk(tmp_path),
    )
    host = Host(
        settings=Settings(approve_diff=True, approver="shelf"),
        discover=False,
        resources=[files],
    )
    host.register(shelf, "shelf")
    with host, host.executor() as tools:
        yield tools


def test_what_the_person_saw_is_what_is_kept(opened, shelf, tmp_path):
    pending = opened.dispatch(ToolCall("generate", {"path": "a.txt"}))
    assert pending.status is Status.PENDING
    assert not (tmp_path / "a.txt").exists()
    kept = shelf.approve(opened, pending)
    assert kept.success
    printed = (tmp_path / "a.txt").read_text()
    assert printed.strip() in shelf.shown[0]
    assert kept.result.value == printed
    assert len(shelf.shown) == 1


def test_four_approvals_keep_four_results_of_four_runs(opened, shelf, tmp_path):
    pending = [opened.dispatch(ToolCall("generate", {"path": f"{n}.txt"})) for n in range(4)]
    assert [shelf.approve(opened, each).success for each in pending] == [True] * 4
    printed = [(tmp_path / f"{n}.txt").read_text().strip() for n in range(4)]
    assert len(set(printed)) == 4
    assert all(text in shown for text, shown in zip(printed, shelf.shown, strict=True))


def test_a_change_set_whose_file_was_written_meanwhile_is_shown_anew(opened, shelf, tmp_path):
    pending = opened.dispatch(ToolCall("generate", {"path": "a.txt"}))
    (tmp_path / "a.txt").write_text("by somebody else")
    again = shelf.approve(opened, pending)
    assert again.status is Status.PENDING
    assert (tmp_path / "a.txt").read_text() == "by somebody else"
    assert "-by somebody else" in shelf.shown[1]
    assert shelf.approve(opened, again).success
    assert (tmp_path / "a.txt").read_text().strip() in shelf.shown[1]

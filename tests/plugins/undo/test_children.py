"""Undo by the children of a transaction."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from .desks import Desk


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("session", ["share", "fork"])
def test_a_child_undoes_within_a_transaction(desk: Desk, session: Any, closes: bool) -> None:
    made = desk.call("write_both", path="a.txt", text="one")
    with desk.tools.transaction("both") as work, ExitStack() as stack:
        child = work.child("reader", session=session)
        stack.push(child)
        assert child.undo(made).success
        if closes:
            stack.close()
    assert desk.tree() == {}


def test_a_grandchild_of_a_fork_undoes(desk: Desk) -> None:
    made = desk.call("write_both", path="a.txt", text="one")
    with desk.tools.child("reader", session="fork") as child:
        assert asyncio.run(child.child("helper").aundo(made)).success
    assert desk.tree() == {}

"""A process that is forked with a stored session open says so, and its parent goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from toolstile_hookspecs import ToolContext, tool
from toolstile_hookspecs.errors import StateError

from .conftest import Hosts, Note, call, texts

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@tool(category="write")
def note(text: str, *, context: ToolContext) -> str:
    """Take a note."""
    context.session[Note].append(Note(text))
    return text


def told_in_child(work: Callable[[], object]) -> str:
    """Return the message of the `StateError` that a child of this process gets."""
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        try:
            text = f"nothing: {work()}"
        except StateError as error:
            text = str(error)
        except BaseException as error:
            text = repr(error)
        os.write(sending, text.encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.slow
def test_a_child_is_told_to_make_a_host_of_its_own(hosts):
    tools = hosts.executor(note)
    call(tools, "note", text="a")
    store = hosts.store()
    store.sessions()
    for work in (
        lambda: call(tools, "note", text="child"),
        lambda: tools.session[Note].append(Note("child")),
        tools.session.reset,
        store.sessions,
        lambda: store.delete("s"),
    ):
        assert "Make a Host in the child" in told_in_child(work)
    assert call(tools, "note", text="b").success
    assert texts(tools) == ["a", "b"]


def test_a_host_of_the_childs_own_goes_on_with_the_session(hosts):
    tools = hosts.executor(note)
    call(tools, "note", text="a")

    def in_child() -> object:
        with ExitStack() as stack:
            own = Hosts(hosts.folder, stack).executor(note)
            return call(own, "note", text="child").text

    assert told_in_child(in_child) == "nothing: child"
    call(tools, "note", text="b")
    assert texts(tools) == ["a", "child", "b"]

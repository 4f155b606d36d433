"""The handle that plugins are given makes executors with all that the host's own take."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields

import pytest

from toolstile import Host, Session
from toolstile.options import ExecutorOptions
from toolstile_hookspecs import (
    ExecutorArguments,
    HostHandle,
    MarkdownSection,
    PluginError,
    SnapshotError,
    append_all,
    hookimpl,
)


@dataclass(frozen=True)
class Note:
    """An item of a slice."""

    text: str


class Notes:
    """A plugin whose section registers a slice."""

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        def prepare(session: Session) -> None:
            session[Note].register(Note, append_all)

        return [MarkdownSection(key="notes", title="Notes", on_session=prepare)]


def saved() -> str:
    session = Session(id="saved")
    session[Note].append(Note("a"))
    return session.snapshot().to_json()


def test_the_arguments_are_those_that_the_host_checks() -> None:
    assert ExecutorArguments.__optional_keys__ == {each.name for each in fields(ExecutorOptions)}


def test_the_host_has_every_member_of_the_handle() -> None:
    members = {name for name, _ in inspect.getmembers(HostHandle) if not name.startswith("_")}
    with Host(discover=False) as host:
        assert members <= {*dir(host)}


def test_a_saved_session_is_read_with_the_slices_of_sections() -> None:
    with Host(discover=False, plugins=[Notes()]) as host:
        session = host.session(saved())
        assert (session.id, list(session[Note].all())) == ("saved", [Note("a")])
        with host.executor(session=session) as tools:
            tools.session.dispatch(Note("b"))
    assert len(session[Note].all()) == 2


def test_other_slices_are_named() -> None:
    with Host(discover=False) as host:
        with pytest.raises(SnapshotError, match="pass the class in kinds"):
            host.session(saved())
        assert host.session(saved(), kinds=[Note])[Note].latest() == Note("a")


def test_a_section_that_cannot_be_set_up_is_told() -> None:
    def broken(_: object) -> None:
        raise ValueError("no")

    class Broken:
        @hookimpl
        def toolstile_sections(self) -> list[MarkdownSection]:
            return [MarkdownSection(key="b", title="B", on_session=broken)]

    with (
        Host(discover=False, plugins=[Broken()]) as host,
        pytest.raises(PluginError, match="its on_session raised"),
    ):
        host.session(saved())

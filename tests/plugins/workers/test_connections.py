"""Connections of handlers with their host: who is let in, and who is not."""

from __future__ import annotations

import json
import socket
import stat
import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path

import pytest
from pydantic import ValidationError

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.isolation.messages import Done, SocketChannel
from toolstile_plugins.workers.connections import ExpectedHandler, HandlerConnections, HostAddress
from toolstile_plugins.workers.settings import WorkersSettings, endpoint

PATIENCE = 20
ADDRESSES = [None, "127.0.0.1"]


@pytest.fixture(params=ADDRESSES, ids=["unix", "tls"])
def connections(request: pytest.FixtureRequest) -> Generator[HandlerConnections]:
    with closing(HandlerConnections(request.param)) as connections:
        yield connections


def channel_of(handler: ExpectedHandler) -> SocketChannel:
    return handler.channel.result(PATIENCE)


def is_let_in(address: HostAddress) -> bool:
    """Tell whether the host keeps a connection open that comes with an address."""
    with suppress(EOFError, OSError), closing(address.connect()) as channel:
        channel.receive()
        return True
    return False


def test_a_handler_is_connected_with_its_own_call(connections: HandlerConnections):
    with connections.expected() as first, connections.expected() as second:
        for handler, text in ((second, "second"), (first, "first")):
            address = HostAddress(*json.loads(json.dumps(handler.address)))
            with closing(address.connect()) as theirs:
                ours = channel_of(handler)
                theirs.send(Done(text))
                assert ours.receive() == Done(text)
                ours.send(Done("back"))
                assert theirs.receive() == Done("back")


def test_a_token_lets_in_one_at_a_time(connections: HandlerConnections):
    with connections.expected() as handler:
        with closing(handler.address.connect()):
            channel_of(handler)
            assert not is_let_in(handler.address)
        assert handler.expect_another()
        with closing(handler.address.connect()):
            channel_of(handler)


def test_nobody_is_let_in_once_the_call_is_given_up(connections: HandlerConnections):
    with connections.expected() as handler:
        with closing(handler.address.connect()):
            channel_of(handler)
            handler.give_up()
        assert not handler.expect_another()
        assert not is_let_in(handler.address)


def test_nobody_is_let_in_without_the_token(connections: HandlerConnections):
    with connections.expected() as handler:
        for token in ("", "x", "x" * 10_000, handler.address.token[:-1]):
            assert not is_let_in(handler.address._replace(token=token))
        assert not handler.channel.done()


def test_nobody_is_let_in_once_its_call_has_ended(connections: HandlerConnections):
    with connections.expected() as handler:
        pass
    assert isinstance(handler.channel.exception(), EOFError)
    assert not is_let_in(handler.address)


def test_a_connection_that_says_nothing_keeps_nobody_from_connecting(
    connections: HandlerConnections,
):
    with connections.expected() as handler:
        place = handler.address.place
        is_path = handler.address.certificate is None
        silent = socket.socket(socket.AF_UNIX if is_path else socket.AF_INET)
        with silent:
            silent.connect(place if is_path else endpoint(place))
            with closing(handler.address.connect()):
                assert channel_of(handler)


def test_a_handler_that_is_given_up_reads_the_end(connections: HandlerConnections):
    with connections.expected() as handler, closing(handler.address.connect()) as theirs:
        ours = channel_of(handler)
        handler.give_up()
        with pytest.raises(EOFError):
            ours.receive()
        with pytest.raises((EOFError, OSError)):
            theirs.receive()


def test_another_host_at_the_same_place_is_refused():
    with (
        closing(HandlerConnections("127.0.0.1")) as ours,
        closing(HandlerConnections("127.0.0.1")) as others,
        ours.expected() as expected,
        others.expected() as handler,
    ):
        forged = handler.address._replace(certificate=expected.address.certificate)
        with pytest.raises(ConnectionRefusedError, match="another host answers there"):
            forged.connect()
        assert not handler.channel.done()


def test_only_this_user_can_open_the_unix_socket():
    with closing(HandlerConnections(None)) as connections, connections.expected() as handler:
        folder = Path(handler.address.place).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()


def test_the_port_of_the_address_is_used():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"127.0.0.1:{port}"
    with closing(HandlerConnections(address)) as connections, connections.expected() as handler:
        assert handler.address.place == address


@pytest.mark.parametrize("address", ["", "a b/c", "http://host", "host:port", "user@host", ":7"])
def test_what_is_no_address_is_refused(address: str):
    with pytest.raises(ValidationError):
        WorkersSettings(address=address)


def test_a_channel_that_came_too_late_is_closed():
    ours, theirs = socket.socketpair()
    late = SocketChannel(ours)
    handler = ExpectedHandler(HostAddress("", "", None))
    handler.give_up()
    handler.admit(late)
    with theirs:
        assert theirs.recv(1) == b""
    assert isinstance(handler.channel, Future)


def test_connections_are_accepted_again_after_one_that_failed(
    connections: HandlerConnections, monkeypatch: pytest.MonkeyPatch
):
    """As where the process had no descriptor left."""
    with connections.expected() as handler:
        failing = iter([RuntimeError("can't start new thread")])
        start = threading.Thread.start

        def fail_once(thread: threading.Thread) -> None:
            if (error := next(failing, None)) is not None:
                raise error
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", fail_once)
        assert not is_let_in(handler.address)
        with closing(handler.address.connect()):
            channel_of(handler)


def test_an_address_that_is_taken_is_told_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        connections = HandlerConnections(address)
        with closing(connections), pytest.raises(ConfigurationError, match=f"{address} cannot be"):
            connections.open()

"""Two network namespaces, as two machines that a cable joins."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from uuid import uuid4

import pytest


class Network(NamedTuple):
    """A network namespace.

    Args:
        within: The beginning of a command that runs in it.
        address: Its own address, which the other one reaches.
    """

    within: tuple[str, ...]
    address: str


@contextmanager
def two_networks() -> Generator[tuple[Network, Network]]:
    """Make two, joined by a pair of virtual Ethernet devices; skip where that is not permitted."""
    if shutil.which("ip") is None:
        pytest.skip("No network namespace can be made (on Debian: apt-get install iproute2).")
    names = [f"toolstile-{uuid4().hex[:8]}" for _ in range(2)]
    addresses = ["10.0.0.1", "10.0.0.2"]
    with ExitStack() as stack:
        for name in names:
            try:
                ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"No network namespace can be made: {error.stderr.strip()}")
            stack.callback(ip, "netns", "delete", name)
        first, second = names
        # The devices have one name, each in its own namespace.
        ip("-n", first, "link", "add", "cable", "type", "veth", "peer", "cable", "netns", second)
        for name, address in zip(names, addresses, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield (
            Network(("ip", "netns", "exec", first), addresses[0]),
            Network(("ip", "netns", "exec", second), addresses[1]),
        )


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)

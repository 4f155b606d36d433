"""A filter of system calls that no namespace makes harmless, as a program for the kernel."""

from __future__ import annotations

import platform
import struct
from typing import Final, NamedTuple

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050001  # the call fails with EPERM
_NUMBER: Final = 0  # where the kernel puts the number of the call, and the machine it is made for
_MACHINE: Final = 4
_OTHER_NUMBERS: Final = 0x40000000  # the same calls for another size of words


class _Machine(NamedTuple):
    identity: int
    refused: tuple[int, ...]


# Keyrings (three) belong to the user, whatever the namespace. The others serve attacks on the
# kernel: bpf, perf_event_open, userfaultfd, io_uring (three).
_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, (248, 249, 250, 321, 298, 323, 425, 426, 427)),
    "aarch64": _Machine(0xC00000B7, (217, 218, 219, 280, 241, 282, 425, 426, 427)),
}


def program() -> bytes | None:
    """Return the program for this machine; None where it is not known."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return None
    left = len(machine.refused)
    steps = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 0, left + 3, machine.identity),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, left + 1, 0, _OTHER_NUMBERS),
    ]
    for place, number in enumerate(machine.refused):
        steps.append((_EQUAL, left - place, 0, number))
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)

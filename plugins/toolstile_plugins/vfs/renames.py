"""Renames that never replace what was not looked at, where the system has them."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Final

_NO_REPLACE: Final = 1
_EXCHANGE: Final = 2
#: What a system or file system answers that does not know the call or its flag.
_UNKNOWN: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})

_Rename = Callable[[int, bytes, int, bytes, int], int]


def place(source: str, source_dir: int, target: str, target_dir: int) -> None:
    """Rename to a name that must be free.

    Raises:
        FileExistsError: When it is not.
    """
    if _renameat2(source, source_dir, target, target_dir, _NO_REPLACE):
        return
    try:
        os.stat(target, dir_fd=target_dir, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir)
    else:
        raise FileExistsError(target)


def exchange(source: str, source_dir: int, target: str, target_dir: int) -> bool:
    """Let two names change their files in one step; tell False where that is not possible."""
    return _renameat2(source, source_dir, target, target_dir, _EXCHANGE)


def _renameat2(source: str, source_dir: int, target: str, target_dir: int, flag: int) -> bool:
    function = _system_call()
    if function is None:
        return False
    if function(source_dir, os.fsencode(source), target_dir, os.fsencode(target), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), target)


@cache
def _system_call() -> _Rename | None:
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return None
    names = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.argtypes = names
    function.restype = ctypes.c_int
    return function

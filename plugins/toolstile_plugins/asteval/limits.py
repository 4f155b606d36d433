"""Limits on processor time and memory, for work that is done in a fork of an isolated process."""

from __future__ import annotations

import json
import os
import resource
import signal
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from toolstile_plugins.asteval.evaluation import CodeError
from toolstile_plugins.asteval.settings import AstevalConfig


def limited(work: Callable[[], Any], config: AstevalConfig) -> Any:
    """Return the value of `work`, plain data, which a process of its own has made.

    Python looks after limits between two steps only; the kernel ends one that is too long.

    Raises:
        CodeError: When the work raises one, or meets a limit; says which.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        # The other thread waits for the end of the host; the fork does not need it.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _work(work, config, write)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        raise CodeError(_how_it_ended(status, config))
    value, fault = json.loads(answer)
    if fault is not None:
        raise CodeError(fault)
    return value


def _work(work: Callable[[], Any], config: AstevalConfig, write: int) -> NoReturn:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (config.cpu_seconds, config.cpu_seconds + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (config.memory, config.memory))
        try:
            answer = json.dumps([work(), None])
        except (CodeError, MemoryError, RecursionError) as error:
            fault = str(error) if isinstance(error, CodeError) else type(error).__name__
            answer = json.dumps([None, _with_limit(fault, config)])
        with os.fdopen(write, "wb") as pipe:
            pipe.write(answer.encode())
    finally:
        os._exit(0)


def _with_limit(fault: str, config: AstevalConfig) -> str:
    if "MemoryError" not in fault:
        return fault
    return f"{fault.rstrip(': ')}: it may take {config.memory // 1024**2} MiB (memory)"


def _how_it_ended(status: int, config: AstevalConfig) -> str:
    number = os.waitstatus_to_exitcode(status)
    if number in {-signal.SIGXCPU, -signal.SIGKILL}:
        return f"it used up its {config.cpu_seconds} seconds of processor time (cpu_seconds)"
    return f"its process ended (exit status {number}), as deep recursion and little memory do"

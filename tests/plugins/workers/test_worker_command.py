"""`toolstile worker` says which modules it cannot use."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from toolstile_hookspecs import ConfigurationError, StateError
from toolstile_hookspecs.services.dispatcher import DispatchedCall, DispatchState
from toolstile_plugins.isolation.child_process import ChildProcess
from toolstile_plugins.workers.handlers import HandlerProcesses, run_worker
from toolstile_plugins.workers.local import LocalDispatcher
from toolstile_plugins.workers.settings import WorkersSettings


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("not_there", "No module named 'not_there'"),
        ("../tools", "relative import"),
        ("", "Empty module name"),
        ("broken_tools", "division by zero"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, reason: str
) -> None:
    (tmp_path / "broken_tools.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with (
        closing(LocalDispatcher(WorkersSettings(path=tmp_path / "calls.db"))) as dispatcher,
        pytest.raises(ConfigurationError, match=f"^--tools: .*{reason}.* Name modules that can be"),
    ):
        run_worker(dispatcher, [module], 1)


def test_a_file_that_cannot_be_used_ends_the_worker_at_once(tmp_path: Path) -> None:
    with (
        closing(LocalDispatcher(WorkersSettings(path=tmp_path))) as dispatcher,
        pytest.raises(StateError, match=r"The calls of workers in .* cannot be used"),
    ):
        dispatcher.serve(HandlerProcesses([], {}), concurrency=1, stop=threading.Event())


def test_a_process_that_is_about_to_be_killed_gets_no_other_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from toolstile import tool\n\n@tool(description='Greet.')\n"
    source += "def hello() -> str:\n    return 'hi'\n"
    (tmp_path / "greeting_tools.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    kill, has_run, is_killing = ChildProcess.kill, threading.Event(), threading.Event()

    def kill_late(process: ChildProcess) -> None:
        if threading.current_thread() is ending:
            is_killing.set()
            has_run.wait(30)
        kill(process)

    def begin() -> bool:
        ending.start()
        return is_killing.wait(30)

    monkeypatch.setattr(ChildProcess, "kill", kill_late)
    with closing(HandlerProcesses(["greeting_tools"], {"hello": None})) as processes:
        ending = threading.Thread(target=processes.end, args=("a", "It was cancelled."))
        first = processes.run(DispatchedCall("a", "hello", None, "{}"), begin)
        has_run.set()
        ending.join()
        second = processes.run(DispatchedCall("b", "hello", None, "{}"), lambda: True)
    assert (first.state, second.state) == (DispatchState.RESULT, DispatchState.RESULT)

"""`durability`: one setting says which losses the stores of all plugins survive."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings, tool
from toolstile.settings import load
from toolstile_hookspecs import (
    ConfigurationError,
    Durability,
    Filesystem,
    IdempotencyConfig,
    ToolContext,
)
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.ledger import EffectLedger
from toolstile_plugins.workers.settings import dispatcher_of

OLD = [
    ("ledger", "synchronous", '"full"', "power"),
    ("sessions", "synchronous", '"normal"', "process"),
    ("workers", "synchronous", '"normal"', "process"),
    ("record", "fsync", "true", "power"),
    ("vfs", "fsync", "false", "process"),
    ("vfs", "durability", '"power"', "power"),
]


@tool(idempotency=IdempotencyConfig())
def save(text: str, *, context: ToolContext) -> str:
    """Save a text."""
    files = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    files.write("note.txt", text)
    return text


def settings_in(folder: Path, **more: Any) -> Settings:
    (folder / "work").mkdir()
    file = folder / "state.db"
    plugins = {
        "sessions": {"path": file},
        "ledger": {"path": file},
        "record": {"file": folder / "calls.jsonl"},
        "vfs": {"root": folder / "work"},
        "workers": {"path": folder / "queue.db"},
    }
    return Settings(plugins=plugins, **more)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and folders that `os.fsync` is called for."""
    names: list[str] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        names.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return names


def test_without_a_word_all_survives_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOOLSTILE_DURABILITY")
    (tmp_path / "toolstile.toml").touch()
    assert Settings().durability == load(tmp_path).durability == "power"
    assert Settings.durable("desk.db", key="k" * 32).durability == "power"


def test_the_environment_sets_it(tmp_path: Path) -> None:
    (tmp_path / "toolstile.toml").write_text('durability = "power"')
    assert load(tmp_path, environ={"TOOLSTILE_DURABILITY": "process"}).durability == "process"
    assert load(tmp_path, environ={}).durability == "power"
    told = "^TOOLSTILE_DURABILITY: durability: expected 'power' or 'process', found the text 'ful"
    with pytest.raises(ConfigurationError, match=told):
        load(tmp_path, environ={"TOOLSTILE_DURABILITY": "full"})


@pytest.mark.parametrize(
    ("durability", "mode"), [("power", 2), ("process", 1)], ids=["power", "process"]
)
def test_every_store_takes_it(
    tmp_path: Path, synced: list[str], durability: Durability, mode: int
) -> None:
    asked = "PRAGMA synchronous"
    settings = settings_in(tmp_path, durability=durability)
    with Host(settings=settings, tools=[save]) as host:
        with host.executor(session_id="s") as tools:
            ledger: Any = tools.resources.get(EffectLedger).store
            sessions: Any = tools.resources.get(SessionStore)  # type: ignore[type-abstract]
            assert ledger._database.read(asked) == sessions.file.read(asked) == [(mode,)]
            host.call("save", text="a")
            synced.clear()  # names of new files are synced in any case
            assert host.call("save", text="b") == "b"
        dispatcher: Any
        with closing(dispatcher_of(host.settings("workers"), host)) as dispatcher:
            assert dispatcher._queue._database.read(asked) == [(mode,)]
    ours = {Path(name).relative_to(tmp_path).parts[0] for name in synced}
    assert ours == ({"calls.jsonl", "work"} if durability == "power" else set())


def test_the_command_line_sets_it_for_plugins_that_are_loaded(tmp_path: Path) -> None:
    host = Host(settings=settings_in(tmp_path))
    host.configure({"durability": "process"})
    assert {host.settings(name).durability for name in ("ledger", "vfs")} == {"process"}


@pytest.mark.parametrize(("plugin", "key", "value", "line"), OLD)
def test_a_switch_of_one_plugin_is_refused_with_the_line_to_write(
    tmp_path: Path, plugin: str, key: str, value: str, line: str
) -> None:
    file = tmp_path / "toolstile.toml"
    file.write_text(f"[plugins.{plugin}]\n{key} = {value}\n")
    with pytest.raises(ConfigurationError) as caught:
        Host(config=file).open()
    assert (
        f"{file}: plugins.{plugin}.{key}: one setting replaces it for all plugins. Remove it, and "
        f'write durability = "{line}" at the top of the configuration, or set TOOLSTILE_DURABILITY='
        f"{line}."
    ) in str(caught.value)


def test_a_switch_in_a_variable_is_refused_by_the_name_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSTILE_PLUGINS__VFS__FSYNC", "yes")
    monkeypatch.chdir(tmp_path)
    told = "TOOLSTILE_PLUGINS__VFS__FSYNC: .* or set TOOLSTILE_DURABILITY=power"
    with pytest.raises(ConfigurationError, match=told):
        Host().open()


def test_a_known_key_of_a_plugin_is_not_the_durability(tmp_path: Path) -> None:
    settings = Settings(plugins={"ledger": {"colour": "red"}})
    with pytest.raises(ConfigurationError) as caught:
        Host(settings=settings).open()
    assert "(known: path, lease, wait" in str(caught.value)

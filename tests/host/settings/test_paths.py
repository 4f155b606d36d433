"""Paths in a configuration file are relative to that file, in whoever's table they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import pytest
from pydantic import BaseModel, DirectoryPath, Field

from toolstile import Host
from toolstile.settings.table_validation import beside
from toolstile_hookspecs import hookimpl

if TYPE_CHECKING:
    from somewhere import Unknown

HERE = Path("/conf")


@dataclass
class Plain:
    path: Path
    maybe: Path | None = None
    older: Optional[Path] = None  # noqa: UP045 - as some still write it
    marked: Annotated[Path, "any"] = Path()
    text: str = ""
    either: Path | int = 0


class Model(BaseModel):
    path: Path
    maybe: DirectoryPath | None = None
    other: Path | None = Field(None, alias="file")
    text: str = ""


@dataclass
class Several:
    listed: list[Path]
    fixed: tuple[Path, ...] = ()
    given: Sequence[Path] | None = None
    mixed: list[Path | int] | None = None
    pair: tuple[Path, str] | None = None
    texts: list[str] | None = None


@dataclass
class Broken:
    path: Unknown


@pytest.mark.parametrize("model", [Plain, Model])
def test_what_the_model_takes_as_a_path_is_made_absolute(model):
    table = {"path": "a/b", "maybe": "../c", "text": "d", "unknown": "e"}
    assert beside(HERE, table, model) == {**table, "path": "/conf/a/b", "maybe": "/conf/../c"}


def test_ways_of_writing_the_type_make_no_difference():
    table = {"older": "a", "marked": "b"}
    assert beside(HERE, table, Plain) == {"older": "/conf/a", "marked": "/conf/b"}
    assert beside(HERE, {"file": "a", "other": "b"}, Model) == {"file": "/conf/a", "other": "b"}


@pytest.mark.parametrize(
    ("given", "path"),
    [("/tmp/a", "/tmp/a"), ("~/a", f"{Path.home()}/a"), (Path("a"), "/conf/a"), ("", ""), (3, 3)],
)
def test_absolute_paths_the_home_directory_and_what_is_no_path(given, path):
    assert beside(HERE, {"path": given}, Plain) == {"path": path}


def test_what_lists_of_paths_hold_is_made_absolute():
    table = {"listed": ["a", "../b", "/c"], "fixed": ["a"], "given": ["a", 3]}
    others = {"mixed": ["a"], "pair": ["a", "b"], "texts": ["a"]}
    assert beside(HERE, {**table, **others}, Several) == {
        "listed": ["/conf/a", "/conf/../b", "/c"],
        "fixed": ["/conf/a"],
        "given": ["/conf/a", 3],
        **others,
    }


def test_what_may_be_something_else_and_types_that_nobody_knows_are_left_alone():
    assert beside(HERE, {"either": "a"}, Plain) == {"either": "a"}
    assert beside(HERE, {"path": "a"}, Broken) == {"path": "a"}


class Logging:
    class Settings(BaseModel):
        file: Path = Path("default.log")

    @hookimpl
    def toolstile_settings(self):
        return Logging.Settings


@pytest.fixture
def file_of(tmp_path, monkeypatch):
    """Writes a plugin's table and gives the path that the plugin was then told."""

    def told(line, environ=(), configure=None):
        for name, value in environ:
            monkeypatch.setenv(name, value)
        config = tmp_path / "toolstile.toml"
        config.write_text(f"[plugins.log]\n{line}\n", encoding="utf-8")
        host = Host(discover=False, config=config)
        host.register(Logging(), "log")
        if configure:
            host.configure(configure)
        [report] = [each for each in host.plugins.reports if each.name == "log"]
        return host.plugins.settings_of(report.name).file

    return told


def test_a_plugins_paths_are_relative_to_the_file(file_of, tmp_path):
    assert file_of('file = "a.log"') == tmp_path / "a.log"
    assert file_of('file = "/var/a.log"') == Path("/var/a.log")
    assert file_of("") == Path("default.log")


def test_paths_from_the_environment_and_from_options_are_relative_to_the_process(file_of):
    assert file_of("", configure={"plugins.log.file": "b.log"}) == Path("b.log")
    environ = [("TOOLSTILE_PLUGINS__LOG__FILE", "c.log")]
    assert file_of('file = "a.log"', environ) == Path("c.log")

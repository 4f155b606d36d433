"""The caches of the process: what a host does not find or build again, and when it does."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile.plugins import discovery
from toolstile.settings import load, sources
from toolstile_hookspecs import ToolCall
from toolstile_hookspecs.support import caches


@pytest.fixture(autouse=True)
def emptied(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TOOLSTILE_NO_CACHE", raising=False)
    Host.forget()
    yield
    Host.forget()


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """A list that grows whenever the installed distributions are read."""
    found: list[None] = []
    scan = discovery._scan

    def counting() -> Any:
        found.append(None)
        return scan()

    monkeypatch.setattr(discovery, "_scan", counting)
    return found


def names() -> set[str]:
    return {found.name for found in discovery.installed()}


def test_a_plugin_is_found_as_soon_as_it_is_installed_changed_or_removed(install):
    assert "zq-one" not in names()
    info = install("zq-one", "")
    assert "zq-one" in names()
    (info / "entry_points.txt").write_text("[toolstile]\nzq-two-and-more = zq_one\n")
    assert {"zq-one", "zq-two-and-more"} & names() == {"zq-two-and-more"}
    (info / "entry_points.txt").unlink()
    assert {"zq-one", "zq-two-and-more"} & names() == set()


def test_a_plugin_is_found_after_the_path_has_changed(install, site, monkeypatch):
    install("zq-one", "")
    assert "zq-one" in names()
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(site)])
    assert "zq-one" not in names()


def test_a_plugin_is_found_by_a_finder_that_is_new(scans, monkeypatch):
    class Finder:
        @classmethod
        def find_spec(cls, *_: object) -> None:
            return None

    names()
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    names()
    names()
    assert len(scans) == 2


def test_the_distributions_are_read_once(scans):
    names()
    names()
    assert len(scans) == 1


def test_forget_empties_the_caches(scans):
    names()
    Host.forget()
    names()
    assert len(scans) == 2


def test_a_variable_switches_the_caches_off(scans, monkeypatch):
    names()
    monkeypatch.setenv("TOOLSTILE_NO_CACHE", "1")
    names()
    names()
    assert len(scans) == 3
    monkeypatch.setenv("TOOLSTILE_NO_CACHE", "")
    names()
    assert len(scans) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_begins_with_empty_caches(scans):
    names()
    child = os.fork()
    if not child:
        names()
        os._exit(len(scans))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    names()
    assert len(scans) == 1


def test_a_changed_configuration_of_the_same_size_and_time_is_read(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "toolstile.toml"
    file.write_text("timeout = 11\n")
    times = file.stat()
    assert load().timeout == 11
    file.write_text("timeout = 22\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load().timeout == 22


def test_two_configurations_share_no_table(tmp_path: Path):
    file = tmp_path / "toolstile.toml"
    file.write_text("[plugins.zq]\nnames = ['a']\n[[policies]]\nkind = 'x'\nmore = {a = [1]}\n")
    one, other = load(config=file), load(config=file)
    one.plugins["zq"]["names"].append("b")
    one.policies[0]["more"]["a"].append(2)
    assert other.plugins["zq"]["names"] == ["a"]
    assert load(config=file) == other
    assert other.policies[0]["more"] == {"a": [1]}


def test_a_configuration_with_a_fault_stays_one(tmp_path: Path):
    file = tmp_path / "toolstile.toml"
    file.write_text("timeout = \n")
    for _ in range(2):
        with pytest.raises(Exception, match="is not valid TOML"):
            sources.read_toml(file)


def test_hosts_with_equal_settings_share_tools_and_nothing_that_changes(tmp_path: Path):
    (tmp_path / "a.txt").write_text("a")

    def open_host() -> Host:
        return Host(settings=Settings(plugins={"vfs": {"root": str(tmp_path)}}), discover=["vfs"])

    with open_host() as one, open_host() as other:
        assert one.catalog.get("read_file") is other.catalog.get("read_file")
        (section,), (same,) = one.prompt.sections, other.prompt.sections
        assert section is not same
        assert section.resources[0] is not same.resources[0]
        assert section.policies[0] is not same.policies[0]
        assert one.settings("vfs") is not other.settings("vfs")
        with one.executor() as first, other.executor() as second:
            first.dispatch(ToolCall("read_file", {"path": "a.txt"}))
            edit = {"path": "a.txt", "content": "b", "overwrite": True}
            refused = second.dispatch(ToolCall("write_file", edit))
            # Because each session has its own reads, the second has not read the file.
            assert refused.status == "denied"
            assert first.dispatch(ToolCall("write_file", edit)).status == "succeeded"
    settings = Settings(plugins={"vfs": {"root": str(tmp_path), "max_result_chars": 7000}})
    with Host(settings=settings, discover=["vfs"]) as third, open_host() as again:
        assert third.catalog.get("read_file") is not again.catalog.get("read_file")


def test_a_clash_is_told_by_each_host(install):
    source = """
        from toolstile_hookspecs import MarkdownSection, hookimpl, tool

        @tool
        def zq_tool() -> None:
            "Do it."

        @hookimpl
        def toolstile_sections():
            return [MarkdownSection(key="{name}", title="Z", tools=[zq_tool])]
    """
    for name in ("zq-one", "zq-two"):
        install(name, source.format(name=name))
    for _ in range(2):
        with Host(settings=Settings(), discover=["zq-one"]) as host:
            assert host.catalog.names() == ("zq_tool",)
        with pytest.raises(Exception, match="has the tool 'zq_tool', a name that plugin"):
            Host(settings=Settings(), discover=["zq-one", "zq-two"]).open()


def test_a_fault_of_a_module_is_told_again_and_gone_when_it_is_fixed(install, monkeypatch):
    install(
        "zq-one", "from toolstile_hookspecs import hookimpl\n@hookimpl\ndef toolstile_chek(): 0"
    )
    for _ in range(2):
        with pytest.raises(Exception, match="There is no hook toolstile_chek"):
            Host(settings=Settings(), discover=["zq-one"]).open()
    import zq_one

    monkeypatch.delattr(zq_one, "toolstile_chek")
    Host(settings=Settings(), discover=["zq-one"])


def test_a_cache_keeps_the_last_results_and_no_exception():
    made: list[int] = []

    @caches.cached(2)
    def double(number: int) -> int:
        made.append(number)
        if number < 0:
            raise ValueError(number)
        return 2 * number

    assert [double(each) for each in (1, 2, 1, 3, 1, 2)] == [2, 4, 2, 6, 2, 4]
    assert made == [1, 2, 3, 2]
    for _ in range(2):
        with pytest.raises(ValueError, match="-1"):
            double(-1)
    assert made == [1, 2, 3, 2, -1, -1]


def test_a_result_of_arguments_without_a_hash_is_not_kept():
    @caches.cached(2)
    def copied(given: list[int]) -> list[int]:
        return [*given]

    given = [1]
    assert copied(given) is not copied(given)


@pytest.mark.slow
def test_a_second_host_opens_at_once(monkeypatch):
    """It took 60 to 112 ms when nothing was kept; the benchmark has the limit of 20 ms."""

    def cost(**options: Any) -> float:
        began = time.process_time()
        with Host(**options):
            pass
        return time.process_time() - began

    cost()
    kept = min(cost() for _ in range(9))
    monkeypatch.setenv("TOOLSTILE_NO_CACHE", "1")
    assert kept < 0.75 * min(cost() for _ in range(9))

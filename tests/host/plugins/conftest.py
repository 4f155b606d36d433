"""Distributions as pip leaves them: a module and a dist-info directory on the import path."""

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from toolstile.plugins.registry import Plugins
from toolstile.plugins.reports import PluginReport
from toolstile.settings import Settings

Install = Callable[..., Path]

GOOD = """
    '''Good tools.

    More about them.
    '''
    from toolstile_hookspecs import MarkdownSection, hookimpl, tool

    @tool
    def {tool}(a: int) -> int:
        "Return it."
        return a

    @hookimpl
    def toolstile_sections():
        return [MarkdownSection(key="{tool}", title="Good", tools=[{tool}])]

    @hookimpl
    def toolstile_check(tool):
        return None
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the import path; what was imported from it is forgotten again."""
    directory = tmp_path / "site"
    directory.mkdir()
    monkeypatch.setattr(sys, "path", [str(directory), *sys.path])
    yield directory
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(directory)):
            del sys.modules[name]


@pytest.fixture
def install(site: Path) -> Install:
    """Install a distribution with one module, which is its plugin unless said otherwise."""

    def install(
        distribution: str,
        source: str | None = None,
        *,
        version: str = "1.0",
        plugin: str | None = None,
        value: str | None = None,
        lines: str | None = None,
    ) -> Path:
        module = distribution.replace("-", "_")
        if source is not None:
            (site / f"{module}.py").write_text(textwrap.dedent(source))
        info = site / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        entry = lines or f"{plugin or distribution} = {value or module}"
        (info / "entry_points.txt").write_text(
            f"[console_scripts]\nx = y:z\n\n[toolstile]\n{entry}\n"
        )
        importlib.invalidate_caches()
        return info

    return install


@pytest.fixture
def good(install: Install) -> Callable[[str], None]:
    """Install a distribution without fault, that has one tool."""

    def good(name: str) -> None:
        install(name, GOOD.format(tool=name.replace("-", "_")))

    return good


@pytest.fixture
def discovered() -> Callable[..., Plugins]:
    """Make a registry and let it discover."""

    def discovered(
        tables: Mapping[str, Mapping[str, object]] | None = None, **options: object
    ) -> Plugins:
        block = options.pop("block", ())
        plugins = Plugins(settings=Settings(plugins=tables or {}, **options), block=block)
        plugins.discover()
        return plugins

    return discovered


@pytest.fixture
def report_of() -> Callable[[Plugins, str], PluginReport]:
    """Return the one report of a name."""

    def report_of(plugins: Plugins, name: str) -> PluginReport:
        (found,) = [each for each in plugins.reports if each.name == name]
        return found

    return report_of


@pytest.fixture
def traces_of() -> Callable[[Plugins, str], list[object]]:
    """Return everything that a registry still holds of a plugin."""

    def traces_of(plugins: Plugins, name: str) -> list[object]:
        hooks = plugins.view.implementations
        calls = [
            each
            for hook in hooks
            for each in (*plugins.implementations(hook), *plugins.wrappers(hook))
            if each.plugin == name
        ]
        tools = [
            each for each in plugins.catalog.names() if plugins.catalog.plugin_of(each) == name
        ]
        keys = [each.key for each in plugins.view.sections if each.key.startswith("broken")]
        kinds = [each for each in plugins.view.policies if each.startswith("broken")]
        bound = [
            each for each in plugins.view.bindings if each.kind.__module__.startswith("broken")
        ]
        registered = [name] if plugins.manager.has_plugin(name) else []
        return [*calls, *tools, *keys, *kinds, *bound, *registered]

    return traces_of

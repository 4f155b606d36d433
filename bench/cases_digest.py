"""Digests of workspaces: once it is made, showing one costs what it shows, not what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from measuring import Block, Case, Effort, Probe, Row, compare, timed

from toolstile import Host
from toolstile_hookspecs import Binding, Filesystem, Prompt
from toolstile_plugins.vfs import VirtualFilesystem
from toolstile_plugins.workspace_digest import WorkspaceDigestSection

SIZES = (1_000, 100_000)
QUICK_SIZES = (100, 1_000)
FLAT = 1.5


def measure_digest(effort: Effort) -> list[Row]:
    """Measure the rendering of a prompt whose digest is there already."""
    few, many = SIZES if effort.entries >= max(SIZES) else QUICK_SIZES
    floor = Probe(f"a rendered digest: {few:,} files", _rendered(few))
    case = Probe(f"a rendered digest: {many:,} files", _rendered(many))
    return compare([Case(case, floor, FLAT)], effort)


def _rendered(files: int) -> Callable[[], AbstractContextManager[Block]]:
    # In ten directories of ten each, so that as much is shown of few files as of many.
    within = files // 100
    names = [f"d{n // within // 10}/e{n // within % 10}/f{n % within}.py" for n in range(files)]
    workspace = VirtualFilesystem.in_memory(dict.fromkeys(names, b""))

    @contextmanager
    def opened() -> Iterator[Block]:
        prompt = Prompt.of("bench", "digest", [WorkspaceDigestSection(visibility="full")])
        bound = (Binding.instance(Filesystem, workspace),)
        with (
            Host(discover=False) as host,
            host.executor(prompt=prompt, resources=bound) as tools,
        ):

            def once() -> None:
                tools.prompt.render(tools.session, tools.resources)

            once()
            yield timed(once)

    return opened

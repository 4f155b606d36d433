"""Every command in an environment without extras works, or names the extra that it needs."""

from __future__ import annotations

import re
import subprocess
import sysconfig
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from .test_purposes import CALLING, LOOKING, UNOPENED

pytestmark = pytest.mark.slow

SHARED = {"opentelemetry"}
CALL = ["call", "read_file", '{"path": "a"}']
TRIED: list[tuple[list[str], str, str | None]] = [
    (["mcp"], "", "mcp"),
    (["mcp", "check"], "", "mcp"),
    (["mcp", "import", "client.json"], "", None),
    (["console"], "", "policies"),
    (["ask", "hello", "--model", "openai:any"], "", "agent"),
    (["run", "--example"], "", None),
    (["tools"], "", None),
    (["doctor"], "", None),
    (["plugins"], "", None),
    (["ledger", "list"], "", None),
    (["policy", "explain", "read_file", '{"path": "a"}'], "", None),
    (["tools"], "[plugins.mcp.servers.one]\ncommand = 'x'", "mcp"),
    (["tools"], "[plugins.code]", "workspace"),
    (["tools"], "[plugins.asteval]", "workspace"),
    (
        ["tools"],
        "[[policies]]\nkind = 'rule'\ntools = ['*']\nwhen = 'true'\neffect = 'ask'\nreason = 'x'",
        "policies",
    ),
    (["tools"], "[[policies]]\nkind = 'command'\ntools = ['*']\nallow = ['ls']", "policies"),
    (["mcp"], "[plugins.metrics]\nport = 1", "observability"),
    (["tools"], "[plugins.inbox]\npath = 'inbox.db'", "policies"),
    (["approvals", "list"], "[plugins.inbox]\npath = 'inbox.db'", "policies"),
    (["database", "check"], "[plugins.database]\nurl = 'postgresql://x/y'", "postgres"),
    (["sessions", "list"], "[plugins.database]\nurl = 'postgresql://x/y'", "postgres"),
    (["ledger", "list"], "[plugins.database]\nurl = 'postgresql://x/y'", "postgres"),
    ([*CALL, "--trace", "otlp"], "", "observability"),
    (["ask", "hello", "--model", "anthropic:any"], "", "agent"),
    (["ask", "hello", "--model", "litellm:any"], "", "agent"),
    (["approvals", "edit", "none", "{}"], "[plugins.inbox]\npath = 'inbox.db'", "policies"),
    (["database", "upgrade"], "[plugins.database]\nurl = 'postgresql://x/y'", "postgres"),
    (
        ["worker", "--tools", "desk"],
        "[plugins.database]\nurl = 'postgresql://x/y'\n[plugins.workers]\ndispatcher = 'dbos'",
        "postgres",
    ),
]
EVERY = [
    *[(*name.split(), *more) for name, (more, _) in {**LOOKING, **CALLING}.items()],
    ("check", "code"),
    ("completion", "bash"),
    ("demo",),
    ("doctor",),
    ("go",),
    ("new", "shop-tools"),
    ("status",),
    ("stop", "--reason", "Wrong prices"),
]
"""Every command without a configuration; that of purposes is complete."""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has what Toolstile needs without extras."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True, with_pip=False)
    paths = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", vars=paths))
    wanted, seen = ["toolstile"], set[str]()
    while wanted:
        name = re.match(r"[\w.-]+", wanted.pop())[0].lower()
        try:
            found = distribution(name) if name not in seen else None
        except PackageNotFoundError:
            found = None
        seen.add(name)
        if found is None:
            continue
        wanted += [each for each in found.requires or () if "extra ==" not in each]
        # Distributions of a namespace share its folder: that of OpenTelemetry has the exporters.
        tops = {each.parts[: 2 if each.parts[0] in SHARED else 1] for each in found.files or ()}
        for top in tops:
            at = Path(str(found.locate_file("/".join(top))))
            if at.exists() and top[0] not in {"..", "__pycache__"}:
                (site / Path(*top)).parent.mkdir(exist_ok=True)
                (site / Path(*top)).symlink_to(at)
    return folder / "bin" / "python"


def run_in(folder: Path, python: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "toolstile", *command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.much_alike(4)
@pytest.mark.parametrize(("command", "table", "extra"), TRIED)
def test_a_missing_extra_is_named(bare, tmp_path, command, table, extra):
    (tmp_path / "client.json").write_text('{"mcpServers": {"one": {"command": "one"}}}')
    (tmp_path / "toolstile.toml").write_text(table)
    done = run_in(tmp_path, bare, *command)
    told = done.stderr
    assert "something broke" not in told
    assert done.returncode == 2 if extra else done.returncode in {0, 1}, told
    assert extra is None or re.search(rf"pip install .*\[{extra}\]", told), told


def test_every_command_is_tried():
    assert {command[0] for command in EVERY} >= UNOPENED


@pytest.mark.much_alike(4)
@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_no_command_breaks(bare, tmp_path, command):
    """Those that miss an extra say how to install it; others do their work, or say why not."""
    done = run_in(tmp_path, bare, *command)
    assert done.returncode in {0, 1, 2}, done.stderr
    if "not installed" in done.stderr or " needs the " in done.stderr:
        assert re.search(r"pip install .*\[[a-z-]+\]", done.stderr), done.stderr

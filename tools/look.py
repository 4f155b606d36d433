"""Take screenshots of what people look at, and check them: `python tools/look.py [FOLDER [PART]]`.

The report of a session that a real host recorded, each section of a console over that session, and
pages of each kind of the built site (`zensical build`) are drawn in Chromium, at four widths, light
and dark; PART is `report`, `console` or `site`. The pictures go to FOLDER, by default `build/look`;
look at them one by one. Exit status 1 if a page scrolls sideways, has text under 12 px, or axe
finds a serious fault. Needs the group `test` and Chromium (on Debian: chromium).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from toolstile import Host, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    Filesystem,
    PolicyDecision,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)
from toolstile_plugins.record.reader import Reader, Selection
from toolstile_plugins.record.report import report_of

WIDTHS: Final = (360, 800, 1280, 1920)
SCHEMES: Final = ("light", "dark")
SMALLEST: Final = 12
"""The size of the smallest text, in pixels."""
SITE: Final = Path(__file__).parents[1] / "build/site"
PAGES: Final = (
    "index.html",
    "start/coding-agent.html",
    "how-to/approvals.html",
    "concepts/life-of-a-call.html",
    "reference/settings.html",
    "compare.html",
    "404.html",
)
"""A page of each kind."""
PAUSE: Final = 0.3
"""The seconds that the person of the session thinks."""
MOST_AMOUNT: Final = 100
_TOO_SMALL: Final = """(least) => [...document.querySelectorAll("body *")].filter((each) =>
  [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
  && each.checkVisibility() && each.offsetWidth > 1
  && parseFloat(getComputedStyle(each).fontSize) < least
).map((each) => each.outerHTML.slice(0, 120))"""


# --- A session with every kind of call


@tool(category="write", contained=True)
def put_file(path: str, text: str, *, context: ToolContext) -> str:
    """Write a file."""
    files: Filesystem = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    files.write(path, text)
    if "torn" in text:
        raise RuntimeError("The disk went away.")
    return f"Wrote {len(text)} characters to {path}."


@tool(category="read")
def look_up(path: str, *, context: ToolContext) -> str:
    """Read a file."""
    files: Filesystem = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    return files.read(path)


@tool(category="write", contained=True, depends_on=["look_up", "put_file"])
def refactor(path: str, *, context: ToolContext) -> str:
    """Change a file by nested calls."""
    text = context.call("look_up", {"path": path}).text
    context.call("put_file", {"path": path, "text": text.replace("one", "1")})
    return "Refactored."


@tool(category="write", requires_confirmation=True)
def pay(to: str, amount: int) -> str:
    """Pay an amount."""
    return f"Paid {amount} to {to}."


class Guard:
    """Keeps one file from every tool."""

    @hookimpl
    def toolstile_check(self, params: Any) -> PolicyDecision | None:
        """Deny it."""
        if getattr(params, "path", "") != ".env":
            return None
        return PolicyDecision.deny("Secrets stay where they are. Read the settings instead.")


def _person(request: ApprovalRequest[Any]) -> ApprovalAnswer | bool:
    time.sleep(PAUSE)
    if request.tool.name == "pay" and request.params.to == "later":
        return ApprovalAnswer.pending()
    too_much = request.tool.name == "pay" and request.params.amount > MOST_AMOUNT
    return ApprovalAnswer.deny("Ask for less than 100.") if too_much else True


def record_session(folder: Path, text: str = "") -> Path:
    """Record a session with every kind of call; a given text becomes a part of all of them."""
    record = folder / "session.jsonl"
    files = folder / "files"
    files.mkdir(parents=True)
    (files / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    plugins = {
        "record": {"file": record, "diff": True},
        "vfs": {"root": files},
        "undo": {"path": folder / "undo.db"},
        "sessions": {"path": folder / "ledger.db"},
        "ledger": {"path": folder / "ledger.db"},
    }
    settings = Settings.model_validate({"plugins": plugins})
    tools = [put_file, look_up, refactor, pay]
    with (
        Host(settings=settings, tools=tools, plugins=[Guard()], approver=_person) as host,
        host.executor(session_id=f"session {text}" if text else None) as executor,
    ):

        def call(name: str, by: Any = executor, **arguments: Any) -> Any:
            return by.dispatch(ToolCall(name, arguments))

        paths = ("a.txt", "a.txt", f"missing{text.replace('/', '')}.txt")
        executor.dispatch_all([ToolCall("look_up", {"path": path}) for path in paths])
        call("refactor", path="a.txt")
        call("put_file", path="a.txt", text=f"torn {text}")
        call("look_up", path=".env")
        call(f"nothing{text}", x=text)
        call("look_up", pth=3)
        with executor.transaction(f"rename {text}") as work:
            call("put_file", work, path="b.txt", text=f"b {text}\n")
            with work.transaction("inner") as inner:
                call("put_file", inner, path="c.txt", text="c\n")
        with executor.transaction(f"try {text}") as work:
            call("put_file", work, path="a.txt", text=f"{text}\n")
            call("refactor", work, path="a.txt")
            work.rollback(f"The tests failed. {text}")
        call("pay", to=f"ada {text}", amount=10)
        call("pay", to="bob", amount=1000)
        asked = call("pay", to="later", amount=20)
        time.sleep(PAUSE)
        executor.resume(asked.call, asked.approval_token, True)  # noqa: FBT003 - the answer
        executor.undo(call("put_file", path="d.txt", text="oops\n").call.id)
    return record


def write_report(record: Path) -> Path:
    """Write the report of a record beside it."""
    page, _ = report_of(Reader(record), Selection())
    out = record.with_suffix(".html")
    out.write_text(page, encoding="utf-8")
    return out


# --- The browser


def chromium_path() -> str | None:
    """Return the Chromium of the system, None without one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Any]:
    """Give a browser of the system."""
    from playwright.sync_api import sync_playwright

    if (found := chromium_path()) is None:
        sys.exit("There is no Chromium here. Install it (on Debian: chromium).")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


def faults_of(page: Any) -> list[str]:
    """Return what makes a page hard to read."""
    from axe_playwright_python.sync_playwright import Axe

    width = page.viewport_size["width"]
    wide = page.evaluate("document.documentElement.scrollWidth")
    faults = [f"is {wide} px wide in a window of {width} px"] if wide > width else []
    faults += [f"has small text: {each}" for each in page.evaluate(_TOO_SMALL, SMALLEST)]
    found = Axe().run(page).response["violations"]
    return faults + [
        f"{fault['impact']}: {fault['id']} in {node['html'][:120]}"
        for fault in found
        if fault["impact"] in {"serious", "critical"}
        for node in fault["nodes"]
    ]


def look(
    browser: Any, address: str, name: str, folder: Path, change: Callable[[Any], None] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Take pictures of a page, and after a change of it; yield each name with its faults."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme
            )
            page = context.new_page()
            page.goto(address)
            yield _shot(page, f"{name}-{width}-{scheme}", folder)
            if change is not None:
                change(page)
                yield _shot(page, f"{name}-changed-{width}-{scheme}", folder)
            context.close()


def _shot(page: Any, title: str, folder: Path) -> tuple[str, list[str]]:
    page.wait_for_timeout(200)  # colours and charts fade in
    page.screenshot(path=folder / f"{title}.png")
    return title, faults_of(page)


def open_call(page: Any) -> None:
    """Open a call of a report."""
    page.locator(".row.call", has_text="put_file").first.click()


# --- The site and the console


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log no request."""


@contextmanager
def site() -> Iterator[str]:
    """Serve the built site, and give its address."""
    if not (SITE / "index.html").exists():
        sys.exit(f"There is no site in {SITE}. Build it: zensical build.")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def console(folder: Path) -> Iterator[str]:
    """Serve the console over a session, with a question that waits; give the address to open.

    Of its two servers, one has changed since it was pinned, and one cannot be reached.
    """
    record = record_session(folder)
    shop = {"command": sys.executable, "args": ["-m", "toolstile", "mcp", "--example"]}
    servers = {"shop": shop, "gone": shop | {"cwd": str(folder / "gone")}}
    plugins = {
        "record": {"file": str(record)},
        "vfs": {"root": str(folder / "files")},
        "inbox": {"path": str(folder / "inbox" / "inbox.db"), "wait": "pending"},
        "ledger": {"path": str(folder / "ledger.db")},
        "undo": {"path": str(folder / "undo.db")},
        "sessions": {"path": str(folder / "ledger.db")},
        "mcp": {"pins": str(folder / "pins.json"), "wait": 60, "servers": servers},
    }
    settings = Settings.model_validate({"approver": "inbox", "plugins": plugins})
    with Host(settings=settings, tools=[pay, put_file]) as host, host.executor() as executor:
        executor.dispatch(ToolCall("pay", {"to": "later", "amount": 20}))
    pins = folder / "pins.json"
    pinned = pins.read_text(encoding="utf-8")
    pins.write_text(pinned.replace("List all", "Show all"), encoding="utf-8")
    config = folder / "toolstile.toml"
    tables = {f"plugins.{name}": table for name, table in plugins.items()}
    tables |= {f"plugins.mcp.servers.{name}": table for name, table in servers.items()}
    lines = ['approver = "inbox"']
    for name, table in tables.items():
        lines.append(f"[{name}]")
        lines += [
            f"{key} = {json.dumps(value)}" for key, value in table.items() if key != "servers"
        ]
    config.write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "toolstile", "--config", config, "console", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        yield next(line.split()[-1] for line in serving.stderr if "http://" in line)
        serving.terminate()


def _look_at_console(browser: Any, address: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("nav a")
    sections = page.eval_on_selector_all("nav a", "links => links.map((each) => each.href)")
    addresses = {each.rpartition("/")[2] or "waiting": each for each in sections}
    for section in {"calls", "sessions"} & addresses.keys():
        page.goto(addresses[section])
        # The oldest of few: a nested call, and the session with calls of every kind.
        link = page.locator("#list a").last
        addresses[section.removesuffix("s")] = link.evaluate("link => link.href")
    addresses["charts"] = addresses["calls"].replace("/calls", "/charts")
    for width in WIDTHS:
        for scheme in SCHEMES:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            for name, place in addresses.items():
                page.goto(place)
                yield _shot(page, f"console-{name}-{width}-{scheme}", folder)
    context.close()


def main(folder: Path, part: str = "") -> int:
    """Take the pictures of all parts, or of one; return the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    status = 0

    def tell(found: Iterator[tuple[str, list[str]]]) -> None:
        nonlocal status
        for title, faults in found:
            print(title, *faults or ["ok"], sep="\n  ")
            status = 1 if faults else status

    with TemporaryDirectory() as place, chromium() as browser:
        if part in {"", "report"}:
            report = write_report(record_session(Path(place) / "session"))
            tell(look(browser, report.as_uri(), "report", folder, open_call))
        if part in {"", "site"}:
            with site() as address:
                for page in PAGES:
                    name = page.removesuffix(".html").replace("/", "-")
                    tell(look(browser, f"{address}/{page}", f"site-{name}", folder))
        if part in {"", "console"}:
            with console(Path(place) / "console") as address:
                tell(_look_at_console(browser, address, folder))
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/look"), *sys.argv[2:]))

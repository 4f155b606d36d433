"""Take screenshots of what people look at, and check them: `python tools/look.py [FOLDER]`.

The report of a session that a real host recorded is drawn in Chromium, at four widths, light and
dark. The pictures go to FOLDER, by default `build/look`; look at them one by one. Exit status 1 if
a page scrolls sideways, has text under 12 px, or axe finds a serious fault. Needs the group `test`
and Chromium (on Debian: chromium).
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
PAUSE: Final = 0.3
"""The seconds that the person of the session thinks."""
MOST_AMOUNT: Final = 100
_TOO_SMALL: Final = """(least) => [...document.querySelectorAll("body *")].filter((each) =>
  [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
  && each.checkVisibility() && parseFloat(getComputedStyle(each).fontSize) < least
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


def look(browser: Any, address: str, name: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Take pictures of a report, closed and with a call open; yield each name with its faults."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme
            )
            page = context.new_page()
            page.goto(address)
            for state in ("list", "call"):
                if state == "call":
                    page.locator(".row.call", has_text="put_file").first.click()
                title = f"{name}-{state}-{width}-{scheme}"
                page.screenshot(path=folder / f"{title}.png")
                yield title, faults_of(page)
            context.close()


def main(folder: Path) -> int:
    """Take all pictures; return the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    status = 0
    with TemporaryDirectory() as place, chromium() as browser:
        report = write_report(record_session(Path(place) / "session"))
        for title, faults in look(browser, report.as_uri(), "report", folder):
            print(title, *faults or ["ok"], sep="\n  ")
            status = 1 if faults else status
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/look")))

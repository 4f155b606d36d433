"""Nobody but the person at this machine comes into the console: each attack is refused."""

from __future__ import annotations

import re
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.routing import Mount, Route

import toolstile_plugins.console
from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.console import Console
from toolstile_plugins.console.pages import HERE

from .conftest import EVIL, Desk, Visitor


def routes_of(console: Console) -> list[Route]:
    """Return all pages behind the door."""
    mounts = [route for route in console.routes if isinstance(route, Mount)]
    (room,) = [mount for mount in mounts if mount.path == console._access.path]
    return [route for route in room.routes if isinstance(route, Route)]


def test_without_a_token_no_page_opens(desk):
    routes = routes_of(desk.console)
    assert routes
    with desk.client() as client:
        for route in routes:
            path = desk.console._access.path + re.sub(r"\{\w+\}", "x", route.path)
            for method in route.methods or ():
                answer = client.request(method, path)
                assert (method, path, answer.status_code) == (method, path, 401)


def test_the_token_of_another_server_opens_no_page(desk):
    token = desk.console.url.partition("#")[2]
    with desk.client(authorization=f"Bearer {token}") as client:
        path = f"{desk.console._access.path}/"
        assert client.get(path).status_code == 401
        assert client.get(f"{path}?token={token}").status_code == 401


def test_a_wrong_token_opens_nothing(desk):
    desk.ask()
    with desk.client() as client:
        for token in ("", "x", desk.console.url):
            answer = client.post("/login", data={"token": token})
            assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


def test_a_token_opens_the_console_once_and_the_next_is_told(desk):
    token = desk.console.url.partition("#")[2]
    with desk.client() as first, desk.client() as second:
        assert first.post("/login", data={"token": token}).status_code == 303
        assert second.post("/login", data={"token": token}).status_code == 401
        (url,) = desk.told
        assert url.startswith(f"{desk.address}/#")
        token = url.partition("#")[2]
        assert second.post("/login", data={"token": token}).status_code == 303


def test_the_cookie_is_unreadable_strict_and_for_a_path_that_nobody_knows(visitor):
    cookie, *flags = visitor.set_cookie.split("; ")
    assert {flag.lower() for flag in flags} == {
        "httponly",
        "samesite=strict",
        f"path={visitor.room}".lower(),
    }
    assert len(visitor.room) > 20
    assert cookie.partition("=")[2] not in visitor.room


def test_another_consoles_cookie_opens_nothing(desk, visitor, tmp_path, stack):
    (tmp_path / "other").mkdir()
    other = Desk(tmp_path / "other", stack)
    cookie = visitor.set_cookie.partition(";")[0]
    mine, value = cookie.split("=")
    theirs = other.console._access._cookie_name
    with other.client() as client:
        for sent in (cookie, f"{theirs}={value}", f"{theirs}=", f"{mine}={value}; {theirs}=x"):
            answer = client.get(f"{other.console._access.path}/", headers={"cookie": sent})
            assert answer.status_code == 401


def test_a_cookie_that_another_port_set_locks_nobody_out(visitor):
    name = visitor.set_cookie.partition("=")[0]
    cookie = visitor.set_cookie.partition(";")[0]
    assert name != "toolstile-console"
    answer = visitor.get(cookie=f"{cookie}; toolstile-console=evil")
    assert answer.status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost:{port}",
        "127.0.0.1:{port}.evil.example",
        "127.0.0.1:{port}@evil.example",
        "",
    ],
)
def test_a_name_that_was_made_to_point_here_reaches_nothing(desk, visitor, host):
    host = host.format(port=desk.port)
    for path in ("/", "/static/console.js", f"{visitor.room}/"):
        answer = visitor.client.get(path, headers={"host": host})
        assert answer.status_code in {400, 421}


@pytest.mark.slow
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://127.0.0.1:1",
        "http://127.0.0.1",
        "https://127.0.0.1:{port}",
        "http://localhost:{port}",
        "http://127.0.0.1:{port}.evil.example",
        "null",
        "",
    ],
)
def test_a_page_of_another_origin_changes_and_reads_nothing(desk, visitor, origin):
    question = desk.ask()
    headers = {"origin": origin.format(port=desk.port)}
    fields = {"csrf": visitor.csrf, "digest": question["digest"], "answer": "approve"}
    path = f"{visitor.room}/questions/{question['ticket']}"
    assert visitor.client.post(path, data=fields, headers=headers).status_code == 403
    assert visitor.client.get(path, headers=headers).status_code == 403
    assert desk.inbox.waiting()


def test_what_changes_something_names_its_origin(desk, visitor):
    question = desk.ask()
    del visitor.client.headers["origin"]
    assert visitor.get().status_code == 200
    assert visitor.answer(question, "approve").status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_port_of_this_machine_is_told_nothing(visitor, site):
    headers = {"sec-fetch-site": site}
    del visitor.client.headers["origin"]
    assert visitor.get(**headers).status_code == 401
    assert visitor.get("/events/waiting", **headers).status_code == 401


def test_no_form_is_taken_without_the_token_of_its_page(desk, visitor):
    question = desk.ask()
    desk.call("order", item="lost tea")
    (effect,) = visitor.json("/ledger")["effects"]
    posts = [route for route in routes_of(desk.console) if "POST" in (route.methods or ())]
    assert posts
    for route in posts:
        path = visitor.room + route.path.replace("{ticket}", question["ticket"])
        path = path.replace("{name}", effect["hash"])
        answer = "happened" if "ledger" in path else "approve"
        for csrf in ({}, {"csrf": ""}, {"csrf": "x" * 32}):
            fields = {"digest": question["digest"], "effect": effect["effectId"], **csrf}
            told = visitor.client.post(path, data={"answer": answer, **fields})
            assert told.status_code == 403
    assert desk.inbox.waiting()
    assert [entry.state for entry in desk.effects()] == ["unknown"]


def test_no_answer_is_given_by_a_link(desk, visitor):
    question = desk.ask()
    fields = f"?answer=approve&digest={question['digest']}&csrf={visitor.csrf}"
    visitor.get(f"/questions/{question['ticket']}{fields}")
    assert desk.inbox.waiting()


def test_a_form_without_end_is_not_read(visitor):
    answer = visitor.post("/questions/x", {"reason": "x" * 1_100_000})
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/", "/static/console.js", "ROOM/", "ROOM/nonesuch", "/nonesuch"])
def test_no_page_is_framed_stored_or_runs_a_foreign_script(visitor, path):
    headers = visitor.client.get(path.replace("ROOM", visitor.room)).headers
    parts = headers["content-security-policy"].split("; ")
    policy = {name: values for name, _, values in (part.partition(" ") for part in parts)}
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


class Markup(HTMLParser):
    """The markup of a page that a text could have added to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[object] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_ours = tag != "script" or (given.get("src") or "").startswith("/static/")
        if tag in {"img", "iframe", "style"} or not is_ours:
            self.found.append(tag)
        self.found += [name for name in given if name.startswith("on")]
        targets = (given.get(name) for name in ("href", "action", "hx-post", "data-href"))
        self.found += [to for to in targets if to is not None and not to.startswith("/")]


@pytest.mark.slow
def test_what_a_model_or_a_tool_says_stays_text_on_every_page(visitor, evil_links):
    for path in evil_links.values():
        answer = visitor.get(path)
        assert (path, answer.status_code, "alert(1)" in answer.text) == (path, 200, True)
        assert (path, Markup(answer.text).found) == (path, [])


def test_what_a_person_writes_stays_text(desk, visitor):
    question = desk.ask()
    desk.call("order", item="lost tea")
    (effect,) = visitor.json("/ledger")["effects"]
    fields = {"effect": effect["effectId"], "answer": "happened", "message": EVIL, "value": EVIL}
    for answer in (
        visitor.answer(question, "edit", arguments=EVIL),
        visitor.post(f"/ledger/{effect['hash']}", fields),
    ):
        assert (answer.status_code, "alert(1)" in answer.text) == (409, True)
        assert Markup(answer.text).found == []


@pytest.mark.slow
def test_no_page_is_framed(visitor, links):
    for path in links.values():
        headers = visitor.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"


def test_scripts_and_styles_stand_in_no_page():
    for path in (HERE / "templates").iterdir():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|\|\s*safe", text), path.name
        for script in re.findall(r"<script[^>]*>", text):
            assert 'src="{{ root }}/static/' in script


def test_no_page_names_another_server():
    for folder in ("templates", "static"):
        for path in (HERE / folder).iterdir():
            if path.suffix in {".html", ".css", ".js"} and path.name != "htmx.min.js":
                lines = path.read_text(encoding="utf-8").splitlines()
                code = [line for line in lines if not line.lstrip().startswith("// ")]
                assert "//" not in "".join(code)


def test_htmx_is_as_it_was_published_and_has_its_licence_beside_it():
    static = Path(toolstile_plugins.console.__file__).parent / "static"
    digest = sha256((static / "htmx.min.js").read_bytes()).hexdigest()
    # Version 2.0.11.
    assert digest == "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
    assert "Zero-Clause BSD" in (static / "htmx.LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "url", ["http://0.0.0.0:8000", "http://192.0.2.1:8000", "http://evil.example", "http://"]
)
def test_the_console_is_of_this_machine_alone(desk, url):
    with pytest.raises(ConfigurationError, match="forward the port"):
        Console(desk.host, url)


def test_it_can_be_mounted_in_another_application(desk):
    from starlette.applications import Starlette
    from starlette.testclient import TestClient

    console = Console(desk.host, "http://127.0.0.1:8000/console")
    app = Starlette(routes=[Mount("/console", console)])
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        client.headers["origin"] = "http://127.0.0.1:8000"
        token = console.url.removeprefix("http://127.0.0.1:8000/console/#")
        page = client.post("/console/login", data={"token": token})
        assert (page.status_code, "Waiting for you" in page.text) == (200, True)
        for name in ("colours.css", "console.css"):
            assert client.get(f"/console/static/{name}").status_code == 200
        paths = re.findall(r'(?:href|src)="(/[^"]*)', page.text)
        assert all(path.startswith("/console/") for path in paths)


def test_visitors_share_nothing_but_the_console(desk, visitor, stack):
    second = Visitor(desk, stack.enter_context(desk.client()))
    assert second.get().status_code == visitor.get().status_code == 200


def test_what_is_told_of_errors_is_guarded_as_well(desk, visitor):
    """The file of the inbox is one no more."""
    (desk.folder / "inbox" / "inbox.db").mkdir(parents=True)
    answer = visitor.get()
    assert (answer.status_code, "cannot be" in answer.text) == (503, True)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]

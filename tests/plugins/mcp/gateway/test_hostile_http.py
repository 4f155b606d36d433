"""Servers over HTTP that break, lie and flood cost their own tools a clear failure."""

from __future__ import annotations

import shutil
import subprocess

import httpx2
import pytest

from toolstile_hookspecs import Status, ToolCall
from toolstile_plugins.mcp.gateway import transports

from .raw_http import UNDER_WAY, serving

pytestmark = [pytest.mark.slow, pytest.mark.long_if(driver="sync")]


@pytest.mark.parametrize(
    "mode",
    [
        "oversized",
        "oversized_event",
        "malformed",
        "nested",
        "fails",
        "hangs_up",
        "floods",
        "nested_event",
        "nested_failure",
        "nested_refusal",
    ],
)
def test_no_usable_answer_fails_the_call_and_the_next_one_works(yard, mode):
    with serving(mode) as url:
        yard.open({"bad": {"url": url, "max_message": 1_000_000}, "good": yard.raw("plain")})
        broken = yard.call("bad_say", text="now")
        assert broken.status is Status.FAILED
        assert broken.text.startswith("The MCP server bad ")
        assert len(broken.text) < 1000
        assert "Traceback" not in broken.text
        assert yard.call("good_say", text="x").success
        assert yard.call("bad_say", text="again").text == "said"
        yard.close()


@pytest.mark.parametrize("mode", ["bottomless", "bottomless_event", "bottomless_event_cr"])
def test_a_tool_whose_schema_has_no_end_costs_itself(yard, mode):
    with serving(mode) as url:
        yard.open({"one": {"url": url}})
        assert yard.names() == ["one_say"]
        (upstream,) = yard.host.state("mcp").upstreams
        assert upstream.faults == {"deep": "its schema is nested too deeply"}
        yard.close()


def test_what_is_compressed_is_not_unpacked(yard):
    with serving("compressed") as url:
        yard.open({"bad": {"url": url}})
        assert "it compressed its answer" in yard.call("bad_say", text="now").text
        assert yard.call("bad_say", text="again").text == "said"
        yard.close()


def test_the_status_is_told_where_http_fails(yard):
    with serving("fails") as url, serving("shut") as shut:
        yard.open({"bad": {"url": url}, "shut": {"url": shut}})
        broken = yard.call("bad_say", text="now")
        assert "HTTP status 500 (Internal Server Error). The call may have" in broken.text
        refused = yard.call("shut_say")
        assert "HTTP status 401 (Unauthorized); check the headers" in refused.text
        yard.close()


@pytest.mark.parametrize("mode", ["redirects", "moved"])
def test_it_is_told_where_a_server_redirects_to_another_address(yard, mode):
    with serving(mode) as url:
        yard.open({"bad": {"url": url}})
        told = yard.call("bad_say", text="now").text
        assert "it redirects to https://moved.example/mcp; configure that address as its" in told
        assert "Check the arguments" not in told
        yard.close()


@pytest.mark.parametrize("mode", ["accepted", "in_html"])
def test_the_effect_is_unknown_where_a_request_was_taken_and_not_answered(yard, mode):
    with serving(mode) as url:
        yard.open({"bad": {"url": url}})
        assert "The call may have had its effect, or not" in yard.call("bad_say", text="now").text
        yard.close()


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("cuts_one", "SSE stream ended without a response"),
        ("refuses_beside", "The MCP server bad refused say: try another text (code -32000)"),
    ],
)
def test_an_answer_that_fails_ends_no_other_call(yard, mode, why):
    with serving(mode) as url:
        yard.open({"bad": {"url": url}})
        calls = [yard.later(ToolCall("bad_say", {"text": "now"})) for _ in range(2)]
        texts = sorted(wait().text for wait in calls)
        assert why in texts[0]
        assert texts[1] == "said"
        yard.close()


def test_a_server_that_says_so_in_its_own_words_has_ended_the_session(yard):
    with serving("forgets") as url:
        yard.open({"bad": {"url": url}})
        assert "No valid session ID provided" in yard.call("bad_say", text="now").text
        assert yard.call("bad_say", text="now").text == "said"
        yard.close()


def test_a_server_that_never_answers_is_given_up(yard):
    with serving("never") as url:
        yard.open({"bad": {"url": url, "timeout": 1}})
        assert yard.call("bad_say", text="now").status is Status.TIMED_OUT
        assert yard.call("bad_say", text="again").text == "said"
        yard.close()


def test_a_server_that_is_not_there_is_told_of(yard):
    with serving("say") as url:
        pass
    yard.open({"gone": {"url": url}})
    told = yard.call("gone_say")
    assert "the MCP server gone cannot be reached" in told.text
    assert "connection attempts failed" in told.text


NOTHING = "Nothing was sent. Do without its tools, or retry later"


@pytest.fixture
def certificates(tmp_path):
    """Two certificates for this machine that nobody has signed, with their keys."""

    def made(name):
        options = ["-newkey", "rsa:2048", "-nodes", "-subj", "/CN=here", "-days", "1"]
        names = ["-addext", "subjectAltName=IP:127.0.0.1"]
        files = ["-keyout", f"{tmp_path}/{name}.key", "-out", f"{tmp_path}/{name}.pem"]
        command = ["openssl", "req", "-x509", *options, *names, *files]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        whole = tmp_path / f"{name}.whole"
        parts = (tmp_path / f"{name}.{part}" for part in ("key", "pem"))
        whole.write_text("".join(part.read_text() for part in parts))
        return whole

    return made("own"), made("other")


needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl makes the certificates"
)


@needs_openssl
def test_a_certificate_that_nobody_signed_is_told_of(yard, certificates):
    with serving("plain", certificates[0]) as url:
        yard.open({"bad": {"url": url}, "good": yard.raw("plain")})
        refused = yard.call("bad_say", text="x")
        assert not refused.success
        assert "certificate verify failed: self-signed certificate" in refused.text
        assert "may have had its effect" not in refused.text
        assert yard.call("good_say", text="x").success
        yard.close()


@needs_openssl
def test_a_certificate_that_is_not_trusted_leaves_no_effect_unknown(
    yard, certificates, tmp_path, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    with serving("changes_certificate", *certificates) as url:
        yard.open({"bad": {"url": url}})
        assert yard.call("bad_say", text="now").text == "said"
        refused = yard.call("bad_say", text="x")
        assert refused.status is Status.FAILED
        assert "certificate verify failed" in refused.text
        assert NOTHING in refused.text
        yard.close()


def test_where_all_connections_are_taken_nothing_is_sent(yard, monkeypatch):
    monkeypatch.setattr(transports, "CONNECT", 1.0)
    while UNDER_WAY.acquire(blocking=False):
        pass
    limits = httpx2.Limits(max_connections=2)
    plain = transports._LimitedTransport.__init__

    def with_few(self, site):
        plain(self, site)
        httpx2.AsyncHTTPTransport.__init__(self, limits=limits)

    monkeypatch.setattr(transports._LimitedTransport, "__init__", with_few)
    with serving("never") as url:
        yard.open({"bad": {"url": url}})
        waiting = [yard.later(ToolCall("bad_say", {"text": "now"})) for _ in range(2)]
        assert all(UNDER_WAY.acquire(timeout=60) for _ in waiting)
        told = yard.call("bad_say", text="x").text
        assert "too many calls of it are under way" in told
        assert NOTHING in told
        yard.close()
        for ended in waiting:
            ended()

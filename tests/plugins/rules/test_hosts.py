"""The host of a URL is the one that all programs see; a URL that one reads otherwise has none."""

from __future__ import annotations

import base64
import ipaddress
import json
import shutil
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit
from urllib.request import Request

import httpx
import httpx2
import pytest
import urllib3
import yarl

from toolstile_plugins.rules.helpers import host_of, mail_host_of

BETWEEN = [
    *(
        "",
        "/",
        "//",
        "/\\",
        "\\",
        "\\\\",
        "?",
        "#",
        "@",
        "@@",
        ":",
        ":80",
        ":@",
        ":x@",
        ";",
        ",",
        "&",
    ),
    *(
        "=",
        "+",
        "!",
        "$",
        "'",
        "(",
        "*",
        "~",
        "|",
        "^",
        "`",
        '"',
        "<",
        ">",
        "{",
        "}",
        "[",
        "]",
        " ",
    ),
    *(
        "%",
        "%2f",
        "%5c",
        "%40",
        "%23",
        "%00",
        "%2e",
        "%252f",
        "\t",
        "\n",
        "\r",
        "\x01",
        "\x0b",
        "\x7f",
    ),
    *(
        "\u3002",
        "\uff0f",
        "\uff20",
        "\uff1a",
        "\uff03",
        "\u2044",
        "\u200b",
        "\u00ad",
        "\u2100",
        "\u00a0",
    ),
    *(".", "..", "-", "_", "/@", "?@", "#@", "/..//", "/.", "\u2028", "\ud7ff"),
]
"""Texts between one host and another."""
FORMS = [
    "https://example.com{}evil.org/",
    "https://example.com{}@evil.org/",
    "http://evil.org{}example.com",
    "https:{}//example.com/@evil.org",
    "https://{}example.com/",
    "https://example.com{}/",
]
OTHERS = [
    *(
        "https://example.com",
        "HTTPS://EXAMPLE.com:443/a?b#c",
        "http://example.com:",
        "ftp://example.com/",
    ),
    *("https://example.com:99999/", "https://example.com:0x50/", "https://a_b.example.com/"),
    *(
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
    ),
    *(
        "http://127.0.0.1./",
        "http://1.2.3.4.5/",
        "http://1.2.3.256/",
        "http://[::1]/",
        "http://[::1]:80/",
    ),
    *(
        "http://[::ffff:127.0.0.1]/",
        "http://[::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[::1].evil.org/",
    ),
    *(
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::1",
        "http://::1]/",
        "http://[v1.a]/",
        "http://[127.0.0.1]/",
    ),
    *(
        "https://faceboo\u212a.com/",
        "https://\u0130.com/",
        "https://xn--mnchen-3ya.de/",
        "https://m\u00fcnchen.de/",
    ),
    *(
        "https:example.com",
        "https:/example.com",
        "https:///example.com",
        "http:\\\\example.com/",
        "://evil.org",
    ),
    *(
        "//example.com/",
        "example.com",
        "example.com/@evil.org",
        "example.com:80",
        "evil.org/@example.com",
    ),
    *(
        "URL:https://example.com/",
        "<https://example.com/>",
        "https://https://example.com/",
        "https://.example.com/",
    ),
    *(
        "javascript://example.com/%0aalert(1)",
        "file://example.com/etc/passwd",
        "data://example.com/,x",
    ),
    *(
        "view-source:https://example.com/",
        "http+unix://example.com/",
        "git+ssh://example.com/x",
        "s3://a/b",
    ),
]
URLS = list(dict.fromkeys([form.format(each) for each in BETWEEN for form in FORMS] + OTHERS))


def settled(host: str | bytes | None) -> str | None:
    """Return a host as programs name it, without the differences that lead nowhere else."""
    text = (host.decode("latin-1") if isinstance(host, bytes) else host or "").lower()
    bare = text.strip("[]").removesuffix(".")
    try:
        return f"[{ipaddress.IPv6Address(bare)}]"
    except ValueError:
        return bare or None


PROGRAMS: dict[str, Callable[[str], str | bytes | None]] = {
    "urllib.parse": lambda url: urlsplit(url).hostname,
    "urllib.request": lambda url: urlsplit(f"//{Request(url).host}").hostname,
    "httpx": lambda url: httpx.URL(url).raw_host,
    "httpx2": lambda url: httpx2.URL(url).raw_host,
    "urllib3": lambda url: urllib3.util.parse_url(url).host,
    "yarl": lambda url: yarl.URL(url).raw_host,
}


def seen_by(program: str, url: str) -> str | None:
    """Return the host that a program sees, None if it sees none or refuses the URL."""
    try:
        return settled(PROGRAMS[program](url))
    except Exception:
        return None


@contextmanager
def proxy() -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the port of a proxy, and the hosts that it was asked for, by the client's user name."""
    asked: dict[str, str] = {}

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            method, target, _ = self.rfile.readline().decode("latin-1").split(" ", 2)
            while (line := self.rfile.readline()).strip():
                name, _, value = line.decode("latin-1").partition(":")
                if name.lower() == "proxy-authorization":
                    user = base64.b64decode(value.split()[-1]).decode().partition(":")[0]
                    address = f"//{target}" if method == "CONNECT" else target
                    asked[user] = urlsplit(address).hostname or ""
            self.wfile.write(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1], asked
        finally:
            server.shutdown()
            thread.join()


def seen_by_curl(urls: list[str]) -> dict[str, str]:
    """Return the hosts that curl asks a proxy for, by the URLs that it does not refuse."""
    with proxy() as (port, asked):
        given = "\nnext\n".join(
            f'url = {json.dumps(url, ensure_ascii=False)}\nproxy = "http://127.0.0.1:{port}"\n'
            f'proxy-user = "{number}:x"\nnoproxy = ""\nsilent\noutput = "/dev/null"'
            for number, url in enumerate(urls)
            # Other characters have no escape in its configuration.
            if all(char >= " " or char in "\t\n\r\v" for char in url)
        )
        given = given.replace("\\u000b", "\\v")
        subprocess.run(["curl", "-q", "-K", "-"], input=given.encode(), timeout=60, check=False)
    return {urls[int(number)]: settled(host) or "" for number, host in asked.items()}


def ours(url: str, scheme: str = "") -> str | None:
    try:
        return host_of(url, scheme)
    except ValueError:
        return None


def test_there_are_enough_urls():
    assert len(URLS) >= 300
    assert sum(ours(url) is not None for url in URLS) >= 30
    assert sum(len({seen_by(each, url) for each in PROGRAMS} - {None}) > 1 for url in URLS) >= 30


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_program_sees_another_host(program: str):
    others = {
        url: (ours(url), seen)
        for url in URLS
        if ours(url) and (seen := seen_by(program, url)) not in {None, ours(url)}
    }
    assert others == {}


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_program_sees_another_host_with_a_scheme_by_default(program: str):
    bare = [url.partition("://")[2] for url in URLS] + URLS
    for url in bare:
        if (found := ours(url, "https")) is not None:
            assert seen_by(program, url) in {None, found}, url
            assert "://" in url or seen_by(program, f"https://{url}") in {None, found}, url


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_sees_no_other_host():
    bare = [url.partition("://")[2] for url in URLS]
    urls = list(dict.fromkeys(url for url in [*URLS, *bare] if ours(url, "https")))
    seen = seen_by_curl([*urls, "https://example.com\\@evil.org/"])
    assert seen.pop("https://example.com\\@evil.org/") == "evil.org"
    assert len(seen) >= 30
    assert {url: host for url, host in seen.items() if host != ours(url, "https")} == {}


@pytest.mark.parametrize(
    "address",
    [
        *("evil.org/@example.com", "https://example.com", "example.com", "@example.com", "", "a@"),
        *("ann@example.com@evil.org", "ann@example.com,eve@evil.org", "Ann <ann@example.com>"),
        *('"a@evil.org"@example.com', "ann@[127.0.0.1]", "ann@[::1]", "ann@example.com:25"),
        *("evil.org!ann@example.com", "ann%evil.org@example.com", "-oQ/tmp@example.com"),
        *("ann?cc=eve@example.com", "ann@example.com\nBcc: eve@evil.org", "ann@ex\u00e4mple.com"),
        *(
            "mailto:ann@example.com",
            " ann@example.com",
            "ann@example.com ",
            "ann@faceboo\u212a.com",
        ),
        *("ann(evil)@example.com", "ann@example.com/", "ann@example..com", "ann@-example.com"),
    ],
)
def test_an_address_that_is_not_plain_has_no_host(address: str):
    with pytest.raises(ValueError, match="not an address that all programs agree on"):
        mail_host_of(address)


def test_a_plain_address_has_one():
    for address in ("ann@example.com", "ann+news@Example.com", "o'neil.b_c@example.com."):
        assert mail_host_of(address) == "example.com"

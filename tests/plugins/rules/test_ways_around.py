"""Other spellings of a path, a host, a number or a word do not lead around a rule."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import Status

ETC = {"tools": ["write_note"], "when": "path(args.path).startsWith('etc/')", "effect": "deny"}
OURS = {"tools": ["fetch"], "when": "host(args.url) != 'example.com'", "effect": "deny"}


@pytest.mark.parametrize(
    "path",
    [
        *("etc/x", "./etc/x", "a/../etc/x", "etc//x", "/workspace/etc/x", "etc/./x", "etc/a/../x"),
        *("/workspace//etc/x", "etc/.hidden", "../etc/x", "a/../../work/etc/x"),
        *("etc\\x", "%65tc/x", "e%74c/x", "~/etc/x", "$HOME/etc/x", "${HOME}/x", "%HOME%/x"),
        *(
            "file:etc/x",
            f"file:{'/' * 3}etc/x",
            "C:/etc/x",
            "C:etc/x",
            " etc/x",
            '"etc/x"',
            "etc/x ",
        ),
        *(
            "etc./x",
            "etc /x",
            "etc/x.",
            "\uff45tc/x",
            "etc\u2215x/\ufb01",
            "etc/x\0",
            "etc/\nx",
            "",
        ),
    ],
)
def test_no_spelling_of_a_path_leads_around(office, path):
    office.open(ETC)
    assert office("write_note", path=path, text="a").status is Status.DENIED


@pytest.mark.parametrize(
    "path", ["notes/x", "./notes/x", "etcetera/x", "etc/../notes/x", "a b.txt", "é.txt", "100%.md"]
)
def test_other_paths_are_free(office, path):
    office.open(ETC)
    assert office("write_note", path=path, text="a").success


def test_paths_of_a_directory_follow_links_and_names_that_are_alike(office, tmp_path):
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "link").symlink_to("etc")
    office.open({**ETC, "root": str(root)})
    for path in ("link/x", "ETC/x", "\uff45tc/x", str(root / "etc" / "x"), "../root/etc/x"):
        assert office("write_note", path=path, text="a").status is Status.DENIED, path
    assert office("write_note", path="notes.md", text="a").success


@pytest.mark.parametrize(
    "url",
    [
        *("https://evil.org/", "https://example.com.evil.org/", "https://example.com@evil.org/"),
        *("https://ann:secret@example.com/", "https://evil.org#@example.com", "//evil.org/"),
        *("https://evil.org?@example.com", "https://evil.org\\@example.com/", "https:/evil.org"),
        *("https:evil.org", "https:///evil.org", "evil.org", "https://ex\tample.com/", ""),
        *("https://example%2ecom/", "https://\uff45xample.com/", "https://example\u3002com/"),
        *("https://ex\u00e4mple.com/", "https://example.com:x/", "https://exa mple.com/"),
        *("http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/"),
        *("http://[::1]/", "http://[::ffff:127.0.0.1]/", "https://-example.com/", "https://./"),
        *("ann@evil.org", "ann@example.com@evil.org", "ann@example.com,eve@evil.org"),
        *("Ann <ann@example.com>", '"a@evil.org"@example.com', "ann@[127.0.0.1]"),
    ],
)
def test_no_spelling_of_a_host_leads_around(office, url):
    office.open(OURS)
    assert office("fetch", url=url).status is Status.DENIED


@pytest.mark.parametrize(
    "url",
    [
        *("https://example.com", "HTTPS://EXAMPLE.COM/a", "https://example.com.:443/a?b#c"),
        *("ann@example.com", "ann+news@Example.com"),
    ],
)
def test_other_spellings_of_our_own_host_are_free(office, url):
    office.open(OURS)
    assert office("fetch", url=url).success


@pytest.mark.parametrize("amount", [500.1, 501, 5e2 + 1, 10**18, 10**30, 2**63, 1e300])
def test_no_spelling_of_a_number_leads_around(office, amount):
    office.open({"tools": ["pay"], "when": "args.amount > 500", "effect": "deny"})
    assert office("pay", amount=amount, to="ann").status is Status.DENIED


@pytest.mark.parametrize("size", [3, 3.0])
@pytest.mark.parametrize(
    "when", ["args.size == 3", "args.size == 3.0", "args.size in [3]", "args.size >= 3.0"]
)
def test_whole_numbers_are_numbers(office, size, when):
    office.open({"tools": ["upload"], "when": f"has(args.size) && {when}", "effect": "deny"})
    assert office("upload", name="a", size=size).status is Status.DENIED
    assert office("upload", name="a", size=2).success


def test_a_number_beyond_those_of_the_language_denies(office):
    office.open({"tools": ["upload"], "when": "has(args.size) && args.size < 3", "effect": "deny"})
    assert office("upload", name="a", size=10**30).status is Status.DENIED


@pytest.mark.parametrize(
    "text",
    [
        *("delete it", "DELETE it", "please delete", "(delete)", "del\u200bete it"),
        *(
            "\uff24\uff25\uff2c\uff25\uff34\uff25 it",
            "del\u00adete it",
            "\U0001d41d\U0001d41elete it",
        ),
    ],
)
def test_words_are_found_in_any_case_and_form(office, text):
    office.open(
        {"tools": ["write_note"], "when": "words(args.text).exists(w, w == 'delete')"}
        | {"effect": "deny"}
    )
    assert office("write_note", path="a", text=text).status is Status.DENIED
    assert office("write_note", path="a", text="deleted").success

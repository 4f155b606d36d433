"""Other spellings of a path, a host, a number or a word do not lead around a rule."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import Status, ToolCall
from toolstile_plugins.rules.helpers import path_in

ETC = {"tools": ["write_note"], "when": "path(args.path).startsWith('etc/')", "effect": "deny"}
OURS = {"tools": ["fetch"], "when": "host(args.url) != 'example.com'", "effect": "deny"}


PATHS = [
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
]


def test_no_spelling_of_a_path_leads_around(office, subtests):
    office.open(ETC)
    for path in PATHS:
        with subtests.test(path=path):
            assert office("write_note", path=path, text="a").status is Status.DENIED


def test_other_paths_are_free(office, subtests):
    office.open(ETC)
    for path in [
        "notes/x",
        "./notes/x",
        "etcetera/x",
        "etc/../notes/x",
        "a b.txt",
        "é.txt",
        "100%.md",
    ]:
        with subtests.test(path=path):
            assert office("write_note", path=path, text="a").success


def is_refused(path, root=None):
    try:
        path_in(root, path)
    except ValueError:
        return True
    return False


REFUSED = [
    *(path for path in PATHS if is_refused(path)),
    *(
        "etc%2fhosts",
        "${X}etc/x",
        "$Xetc/x",
        "etc\\x",
        "etc\uff0fx",
        "\uff0fetc/x",
        "~root/x",
        "notes\t",
    ),
    *(
        "a%5cb",
        "C:\\etc",
        "notes/x ",
        "notes/x.",
        "'notes'",
        "\\\\?\\etc",
        "http://a/etc",
        "%TEMP%/x",
    ),
]


@pytest.mark.parametrize("path", REFUSED)
def test_a_directory_takes_no_spelling_that_is_refused_without_one(tmp_path, path):
    root = tmp_path / "work"
    (root / "etc").mkdir(parents=True)
    for name in ("etc/x", "etc\\x", "etc%2fhosts", "notes/x "):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x")
    assert is_refused(path)
    assert is_refused(path, root)


def test_paths_of_a_directory_follow_links_and_names_that_are_alike(office, tmp_path):
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "link").symlink_to("etc")
    office.open({**ETC, "root": str(root)})
    for path in ("link/x", "ETC/x", "\uff45tc/x", str(root / "etc" / "x"), "../root/etc/x"):
        assert office("write_note", path=path, text="a").status is Status.DENIED, path
    assert office("write_note", path="notes.md", text="a").success


def test_no_spelling_of_a_host_leads_around(office, subtests):
    office.open(OURS)
    for url in [
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
    ]:
        with subtests.test(url=url):
            assert office("fetch", url=url).status is Status.DENIED


@pytest.mark.parametrize(
    "url",
    [
        *("https://example.com", "HTTPS://EXAMPLE.COM/a", "https://example.com.:443/a?b#c"),
    ],
)
def test_other_spellings_of_our_own_host_are_free(office, url):
    office.open(OURS)
    assert office("fetch", url=url).success


def test_a_scheme_by_default_makes_a_url_of_what_has_none(office, subtests):
    office.open({**OURS, "when": "host(args.url, 'https') != 'example.com'"})
    for url, is_free in [
        *(("example.com/a", True), ("https://example.com", True), ("Example.com.", True)),
        *(
            ("evil.org/@example.com", False),
            ("example.com\\@evil.org", False),
            ("//example.com", False),
        ),
        *(("ann@example.com", False), ("example.com:80", False), ("javascript:x", False)),
    ]:
        with subtests.test(url=url, is_free=is_free):
            assert office("fetch", url=url).success is is_free


@pytest.mark.parametrize(
    "address", ["ann@example.com", "ann+news@Example.com", "evil.org/@example.com"]
)
def test_an_address_is_no_url(office, address):
    office.open(OURS)
    assert office("fetch", url=address).status is Status.DENIED


def test_no_spelling_of_a_number_leads_around(office, subtests):
    office.open({"tools": ["pay"], "when": "args.amount > 500", "effect": "deny"})
    for amount in [500.1, 501, 5e2 + 1, 10**18, 10**30, 2**63, 1e300]:
        with subtests.test(amount=amount):
            assert office("pay", amount=amount, to="ann").status is Status.DENIED


def test_whole_numbers_are_numbers(office, subtests):
    for when in ["args.size == 3", "args.size == 3.0", "args.size in [3]", "args.size >= 3.0"]:
        for size in [3, 3.0]:
            with subtests.test(when=when, size=size):
                office.open(
                    {"tools": ["upload"], "when": f"has(args.size) && {when}", "effect": "deny"}
                )
                assert office("upload", name="a", size=size).status is Status.DENIED
                assert office("upload", name="a", size=2).success


def test_a_number_beyond_those_of_the_language_denies(office):
    office.open({"tools": ["upload"], "when": "has(args.size) && args.size < 3", "effect": "deny"})
    assert office("upload", name="a", size=10**30).status is Status.DENIED


def test_words_are_found_in_any_case_and_form(office, subtests):
    office.open(
        {"tools": ["write_note"], "when": "words(args.text).exists(w, w == 'delete')"}
        | {"effect": "deny"}
    )
    for text in [
        *("delete it", "DELETE it", "please delete", "(delete)", "del\u200bete it"),
        *(
            "\uff24\uff25\uff2c\uff25\uff34\uff25 it",
            "del\u00adete it",
            "\U0001d41d\U0001d41elete it",
        ),
    ]:
        with subtests.test(text=text):
            assert office("write_note", path="a", text=text).status is Status.DENIED
            assert office("write_note", path="a", text="deleted").success


# --- Other places for a value


def test_a_value_that_is_nested_is_ruled_wherever_it_stands(office):
    rule = {"tools": ["order"], "when": "args.lines.exists(line, line.article == 'gun')"}
    office.open({**rule, "effect": "deny"})
    tea, gun = {"article": "tea"}, {"article": "gun", "count": 2}
    assert office("order", lines=[tea]).success
    for lines in ([gun], [tea, gun], [tea, {**gun, "note": "tea"}], [tea] * 50 + [gun]):
        assert office("order", lines=lines).status is Status.DENIED


def test_a_value_that_is_split_over_two_arguments_is_ruled_where_the_rule_joins_them(office):
    one = {"tools": ["pay"], "when": "mail_host(args.to) == 'evil.org'", "effect": "deny"}
    both = {"tools": ["pay"], "when": "args.to + '@' + args.memo == 'eve@evil.org'"}
    office.open({**both, "effect": "deny"})
    assert office("pay", amount=1, to="eve", memo="evil.org").status is Status.DENIED
    assert office("pay", amount=1, to="ann", memo="evil.org").success
    office.open(one)
    assert office("pay", amount=1, to="eve", memo="evil.org").status is Status.DENIED


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "a", "path": "etc/x"},
        {"name": "a", "path": {"startsWith": "etc/"}},
        {"name": "a", "path": ["etc/x"]},
        {"name": "a", "path": 3},
    ],
)
def test_an_argument_that_a_tool_does_not_declare_is_ruled(office, arguments):
    office.open({**ETC, "tools": ["write_note", "upload"]})
    assert office("upload", **arguments).status is Status.DENIED
    assert office("upload", name="a").success


def test_an_argument_that_is_missing_is_what_the_tool_makes_of_it(office):
    office.open(
        {"tools": ["pay"], "when": "args.memo == ''", "effect": "deny"},
        {"tools": ["upload"], "when": "!has(args.size) || args.size > 3", "effect": "deny"},
    )
    assert office("pay", amount=1, to="ann").status is Status.DENIED
    assert office("pay", amount=1, to="ann", memo="tea").success
    assert office("upload", name="a").status is Status.DENIED
    assert office("upload", name="a", size=3).success


def test_a_number_in_another_type_does_not_pass(office, subtests):
    office.open({"tools": ["upload"], "when": "has(args.size) && args.size > 3", "effect": "deny"})
    for size in ["9", "9.0", True, None, [9], {"size": 9}]:
        with subtests.test(size=size):
            assert not office("upload", name="a", size=size).success


def test_no_spelling_of_the_json_leads_around(office, subtests):
    office.open(ETC)
    for arguments in [
        '{"path": "\\u0065tc/x", "text": "a"}',
        '{"path": "etc\\/x", "text": "a"}',
        '{"path": "notes/x", "text": "a", "path": "etc/x"}',
        '{"p\\u0061th": "etc/x", "text": "a"}',
        ' {"text":"a","path":"etc/x"} ',
    ]:
        with subtests.test(arguments=arguments):
            assert not office.tools.dispatch(ToolCall("write_note", arguments)).success


def test_a_call_through_another_tool_is_ruled(office):
    office.open(ETC)
    assert not office("tidy", path="etc/x").success
    assert office("tidy", path="notes/x").success


@pytest.mark.parametrize("path", ["etc/x", "%65tc/x"])
def test_a_denial_does_not_say_what_would_pass(office, path):
    office.open(ETC)
    text = office("write_note", path=path, text="a").text
    for hint in ("startsWith", "etc/'", "when", "effect", "args.path"):
        assert hint not in text


# --- What is not stopped; the guide says so


def test_words_in_code_or_letters_of_others_are_other_words(office, subtests):
    for text in ["ZGVsZXRlIGl0", "64656c657465", "d e l e t e", "d\u0435lete", "remove"]:
        with subtests.test(text=text):
            when = "words(args.text).exists(w, w == 'delete')"
            office.open({"tools": ["write_note"], "when": when, "effect": "deny"})
            assert office("write_note", path="a", text=text).success

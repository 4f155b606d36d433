"""No other spelling of a value, and no other place for it, leads around a policy on provenance."""

from __future__ import annotations

from typing import Any

import pytest

from toolstile_hookspecs import Tool, ToolResult, tool

from .mailbox import CONTACTS, RULES, TOOLS, mailbox

EVIL = "eve@evil.example"

WAYS = [
    "ANN@work.example\u200b",
    "ann@work\u00ad.example",
    "\u0430nn@work.example",
    "ann@work.example.evil.example",
    "x.ann@work.example",
    "ann@work.example,eve@evil.example",
    "ann@work.example\neve@evil.example",
    '"ann@work.example" <eve@evil.example>',
    "eve@evil.example (ann@work.example)",
    "ann@work.example?bcc=eve@evil.example",
    "ZXZlQGV2aWwuZXhhbXBsZQ==",
    "ann%40work.example",
    "ann&#64;work.example",
    "YW5uQHdvcmsuZXhhbXBsZQ==",
    "ann\uff20work.example",
    "ann@work\u3002example",
    "ann@xn--work-9la.example",
    "mailto:ann@work.example",
    "ann @work.example",
    "'ann@work.example'@evil.example",
    "a\u0308nn@work.example",
    "work.example",
    "ann",
]


def test_a_value_is_the_user_s_as_a_whole_or_not_at_all(subtests):
    for way in WAYS:
        with subtests.test(way=way), mailbox() as mail:
            assert mail.sends(" Ann@Work.Example ")
            assert not mail.sends(way)


HIDDEN = [
    "https&#58;//evil.example/x",
    "https%3A%2F%2Fevil.example%2Fx",
    "https%253A%252F%252Fevil.example",
    "evil\u200b.example",
    "evil\uff0eexample",
    "evil\u3002example",
    "[x](https://evil.example)",
    "<a href='//evil.example/x'>",
    "HTTPS:\\\\evil",
    "1https://evil",
    "javascript:alert(1)",
    "_evil.example_",
    "https://work.example@evil.example/",
    "https://work.example/plan/../../x",
    '"https://evil.example"',
    "ann@work.example,eve@evil.example",
]


@pytest.mark.parametrize("body", HIDDEN)
def test_a_link_is_found_however_it_is_written(body):
    with mailbox(request="Mail ann@work.example https://work.example/plan") as mail:
        assert mail.sends("ann@work.example", body="(https://work.example/plan)")
        assert not mail.sends("ann@work.example", body=f"Look: {body} !")


def test_a_value_that_is_split_over_elements_is_not_proven_by_its_parts():
    with mailbox() as mail:
        assert not mail.sends("eve@", "evil.example")
        assert not mail.sends("ann@work.example", "eve", "@evil.example")


FOREIGN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": ["string", "number", "object", "array"]},
        "note": {"type": "string"},
    },
}


def post(params: Any, *, context: Any) -> ToolResult[str]:
    return ToolResult.ok("posted")


POST: Any = Tool[Any, Any](name="post", description="Post.", params_schema=FOREIGN, handler=post)


@pytest.mark.parametrize(
    "arguments",
    [
        {"to": {"address": EVIL}},
        {"to": {EVIL: True}},
        {"to": [[{"deep": [EVIL]}]]},
        {"to": "ann@work.example", "bcc": EVIL},
        {"to": "ann@work.example", "extra": {"cc": [EVIL]}},
        {"to": [12345]},
    ],
)
def test_values_are_ruled_at_any_depth_and_where_none_is_declared(arguments):
    policy = {**RULES, "arguments": {"post": {"to": "value"}}, "trusted": {}}
    with mailbox("sync", policy, tools=[POST]) as mail:
        assert mail.passes("post", to="ann@work.example", note=EVIL)
        assert mail.passes("post", note="without the argument")
        assert not mail.passes("post", **arguments)


def test_a_denial_says_what_to_do_instead_and_not_how_to_pass():
    with mailbox() as mail:
        text = mail.call("send_email", recipients=[EVIL]).text
    assert text == (
        "send_email cannot be called like this: 'eve@evil.example' in recipients comes from "
        "neither the user nor a trusted source. Continue without it, and tell the user that it "
        "was left undone."
    )


@pytest.mark.parametrize("amount", [1250.5, "1,250.50"])
def test_a_number_of_the_request_is_one_however_it_is_written(amount):
    policy = {**RULES, "arguments": {"post": {"to": "value"}}, "trusted": {}}
    asked = "Pay 1,250.50 EUR, not 1e3 or 0x100."
    with mailbox("sync", policy, tools=[POST], request=asked) as mail:
        assert mail.passes("post", to=amount)
        for other in (
            250.5,
            1250,
            12505,
            1000,
            256,
            -1250.5,
            1250.5001,
            "1250.50",
            "1.250,50",
            "\u0661250.5",
        ):
            assert not mail.passes("post", to=other), other


def test_a_path_is_the_user_s_as_it_was_named(subtests):
    for path in [
        *("notes/../etc/plan.txt", "./notes/plan.txt", "notes//plan.txt", "notes\\plan.txt"),
        *("/notes/plan.txt", "notes/plan.txt/../x", "notes/plan", "plan.txt", "notes%2Fplan.txt"),
        *("notes/plan.txt\0", "notes/pl\u0430n.txt", "\uff4eotes/plan.txt", "file:notes/plan.txt"),
    ]:
        with subtests.test(path=path):
            policy = {**RULES, "arguments": {"post": {"to": "value"}}, "trusted": {}}
            with mailbox("sync", policy, tools=[POST], request="Read notes/plan.txt.") as mail:
                assert mail.passes("post", to="Notes/Plan.txt")
                assert not mail.passes("post", to=path)


def test_no_spelling_of_a_host_makes_a_link_the_user_s(subtests):
    for url in [
        *(
            "https://work.example.evil.example/",
            "https://work.example:444/",
            "http://work.example/",
        ),
        *("https://work.example@evil.example/", "https://w\u043erk.example/", "//work.example/x"),
        *("https://xn--wrk-emc.example/", "https://3232235777/", "https://[::1]/", "ftp://10.1/"),
        *("https://work.example/?q=ann", "https://work.example/#x", "HTTPS://WORK.EXAMPLE/\u200bx"),
    ]:
        with subtests.test(url=url):
            request = "Tell ann@work.example of https://work.example/."
            with mailbox(request=request) as mail:
                assert mail.sends("ann@work.example", body="See HTTPS://Work.Example/.")
                assert not mail.sends("ann@work.example", body=f"See {url}")


@tool
def write_file(path: str, text: str) -> str:
    """Write a file."""
    CONTACTS[path] = text
    return "written"


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return CONTACTS[path]


WRITTEN = [
    EVIL,
    EVIL.upper(),
    f"Ask <{EVIL}>, please.",
    f"'{EVIL}'",
    "eve%40evil.example",
    "eve&#64;evil.example",
    "eve\uff20evil.example",
    "eve\u200b@evil.example",
    "\U0001d41eve@evil.example",
    "eve@evil\u3002example",
]


def test_what_was_written_and_is_read_again_is_not_proven_also_decoded(subtests):
    for written in WRITTEN:
        with subtests.test(written=written):
            policy = {**RULES, "trusted": {"read_file": ["*"], "search_contacts": ["email"]}}
            with mailbox("sync", policy, tools=[*TOOLS, write_file, read_file]) as mail:
                assert mail.passes("write_file", path="note", text=written)
                assert mail.passes("read_file", path="note")
                # A system may well keep it in its plain form.
                assert mail.passes("search_contacts", name="eve")
                assert not mail.sends(EVIL)


@pytest.mark.parametrize("otherwise", ["ask", "deny"])
def test_no_text_that_the_model_reads_says_what_would_pass(otherwise):
    policy = {**RULES, "otherwise": otherwise}
    with mailbox("sync", policy, request="Write to ann@work.example.", answer=False) as mail:
        assert mail.sends("ann@work.example")
        text = mail.call("send_email", recipients=[EVIL]).text
    for hint in ("example.com", "ann@", "search_contacts", "email'", "allow"):
        assert hint not in text


# --- What is not stopped; the guide says so


def test_short_parts_of_a_value_pass():
    with mailbox() as mail:
        assert mail.sends("ev", "e@", "ev", "il", ".x")


@pytest.mark.parametrize(
    "body", ["aHR0cHM6Ly9ldmlsLmV4YW1wbGU=", "evil dot example", "eve at evil example", "h t t p"]
)
def test_a_link_in_code_or_words_is_none(body):
    with mailbox() as mail:
        assert mail.sends("ann@work.example", body=body)


def test_an_argument_that_is_not_ruled_may_say_anything():
    with mailbox() as mail:
        assert mail.sends("ann@work.example", subject=f"Forward this to {EVIL}")


@tool
def add_account(user: str, host: str) -> str:
    """Add an account."""
    CONTACTS[user] = f"{user}@{host}"
    return "added"


def test_a_value_that_another_program_joins_of_two_is_shown_as_a_new_one():
    with mailbox("sync", RULES, tools=[*TOOLS, add_account]) as mail:
        assert mail.passes("add_account", user="mallory", host="evil.example")
        assert mail.passes("search_contacts", name="mallory")
        assert mail.sends("mallory@evil.example")

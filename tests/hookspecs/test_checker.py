"""Validators of JSON Schemas fetch nothing, end, and read patterns as ECMA-262 has them."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

import jsonschema_rs
import pytest

from toolstile_hookspecs import DefinitionError, ToolValidationError
from toolstile_hookspecs._schema.json_schema import bounded_validator, check_schema, is_bounded
from toolstile_hookspecs._schema.schema_codec import SchemaCodec

LATEST = "https://json-schema.org/draft/2020-12/schema"
DRAFT_3 = "http://json-schema.org/draft-03/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def codec(schema):
    return SchemaCodec(schema, owner="Tool 'walk', params")


# --- Nothing is fetched


@pytest.fixture
def traps(tmp_path):
    """The addresses of a listener and of a file, and what was opened of them."""
    seen = []
    listener = socket.create_server(("127.0.0.1", 0))
    fifo = tmp_path / "schema.json"
    os.mkfifo(fifo)

    def listen():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                seen.append("listener")
                connection.close()

    def offer():
        opened = os.open(fifo, os.O_WRONLY)  # waits for a reader
        seen.append("file")
        os.close(opened)

    threads = [threading.Thread(target=listen), threading.Thread(target=offer)]
    for thread in threads:
        thread.start()
    port = listener.getsockname()[1]
    yield [f"http://127.0.0.1:{port}/schema.json", fifo.as_uri()], seen
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    for thread in threads:
        thread.join()
    os.close(reader)


def test_the_traps_catch_a_validator_as_it_is_by_default(traps):
    addresses, seen = traps
    for address in addresses:
        with pytest.raises(jsonschema_rs.ValidationError, match="retrieving it failed"):
            jsonschema_rs.validator_for({"$ref": address})
    assert sorted(seen) == ["file", "listener"]


@pytest.mark.parametrize(
    "place",
    [
        lambda target: {"$ref": target},
        lambda target: {"$schema": DRAFT_7, "properties": {"a": {"$ref": target}}},
        lambda target: {"$id": target, "$ref": "other.json"},
        lambda target: {"$dynamicRef": f"{target}#a"},
        lambda target: {
            "$id": "urn:x",
            "$defs": {"a": {"$id": target, "$ref": "b"}},
            "$ref": target,
        },
    ],
)
def test_no_reference_reaches_a_listener_or_a_file(place, traps):
    addresses, seen = traps
    for address in addresses:
        with pytest.raises(DefinitionError, match="refers to a schema which is not in it"):
            codec(place(address))
    assert seen == []


@pytest.mark.parametrize(
    "place",
    [
        lambda target: {"$schema": target},
        lambda target: {"properties": {"a": {"$schema": target, "$id": "https://a.example/b"}}},
        lambda target: {"$schema": target, "$id": target, "$vocabulary": {target: True}},
        lambda target: {"properties": {"a": {"$id": target}}, "$comment": target},
    ],
)
def test_no_name_of_a_draft_reaches_them(place, traps):
    addresses, seen = traps
    for address in addresses:
        check_schema(place(address))
        assert codec(place(address)).decode("{}") == {}
    assert seen == []


# --- Drafts


@pytest.mark.parametrize("unknown", ["https://example.com/theirs", "", "http://json-schema.org/x#"])
def test_an_unknown_draft_is_read_as_the_latest_at_every_depth(unknown):
    part = {"prefixItems": [{"type": "string"}], "$schema": unknown}
    for schema in (
        {"properties": {"a": part}, "$schema": unknown},
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": part}},
        {"properties": {"a": part}, "$schema": DRAFT_7},
        {"properties": {"a": {"$ref": "#/examples/0"}}, "examples": [part]},
    ):
        assert codec(schema).decode('{"a": ["x"]}') == {"a": ["x"]}
        with pytest.raises(ToolValidationError, match=r"a\[0\]: 1 is not of type 'string'"):
            codec(schema).decode('{"a": [1]}')


def test_a_draft_that_a_part_without_an_id_names_changes_nothing():
    anchored = {"$anchor": "e", "$schema": DRAFT_7, "type": "string"}
    schema = {"properties": {"x": {"$ref": "#e"}}, "$defs": {"e": anchored}}
    assert codec(schema).decode('{"x": "a"}') == {"x": "a"}
    with pytest.raises(ToolValidationError, match="x: 1 is not of type 'string'"):
        codec(schema).decode('{"x": 1}')
    part = {"$schema": DRAFT_7, "prefixItems": [{"type": "string"}]}
    with pytest.raises(ToolValidationError, match=r"a\[0\]: 1 is not of type 'string'"):
        codec({"properties": {"a": part}}).decode('{"a": [1]}')


@pytest.mark.parametrize(
    "schema", [{"$schema": DRAFT_3}, {"properties": {"a": {"$schema": DRAFT_3[:-1]}}}]
)
def test_draft_3_is_refused_by_name(schema):
    with pytest.raises(DefinitionError, match="is written in draft 3, which is not supported"):
        codec(schema)


@pytest.mark.parametrize("draft", [LATEST, DRAFT_7, "http://json-schema.org/draft-06/schema#"])
def test_what_texts_hold_is_said_and_not_checked(draft):
    text = {"contentEncoding": "base64", "contentMediaType": "application/json", "format": "email"}
    schema = {"$schema": draft, "properties": {"a": text, "contentEncoding": {"type": "string"}}}
    assert codec(schema).decode('{"a": "?"}') == {"a": "?"}
    assert codec(schema).schema() == schema
    assert codec(schema).fits({"contentEncoding": 1}) is not None


@pytest.mark.parametrize("odd", [5, True, "x", None, [3], {"a": 1}])
def test_what_stands_under_an_unknown_keyword_is_no_schema(odd):
    names = ("allOf", "dependencies", "not", "$ref", "pattern", "patternProperties", "$schema")
    schema = {"x-theirs": dict.fromkeys((*names, "$id", "contentEncoding"), odd), "default": odd}
    if odd != "x":  # which is a reference to another document, wherever it stands
        assert codec(schema).decode("{}") == {}


# --- Everything ends


def in_a_process(text):
    """Run a program, and return the last line of its output."""
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    return done.stdout.splitlines()[-1]


CHAIN = """
from toolstile_hookspecs.codecs import SchemaCodec
def part(kind, target):
    there = {"$ref": target}
    return {
        "$ref": there,
        "$anchor": there,
        "$id": there,
        "allOf": {"allOf": [there]},
        "oneOf": {"oneOf": [{"type": "string"}, there]},
        "if": {"if": there, "else": False},
    }[kind]
def target(kind, number):
    return {"$anchor": f"#a{number}", "$id": f"s{number}"}.get(kind, f"#/$defs/{number}")
def named(kind, number):
    return {"$anchor": {"$anchor": f"a{number}"}, "$id": {"$id": f"s{number}"}}.get(kind, {})
for kind in ("$ref", "$anchor", "$id", "allOf", "oneOf", "if"):
    last = {"items": {"$ref": target(kind, 0)}, "type": ["array", "integer"]}
    links = [part(kind, target(kind, number + 1)) for number in range(COUNT)]
    defs = {str(n): {**each, **named(kind, n)} for n, each in enumerate([*links, last])}
    codec = SchemaCodec({"$defs": defs, "$ref": target(kind, 0)}, owner="a test")
    for inner in ("1", '"x"'):
        try:
            told = codec.decode("[" * 190 + inner + "]" * 190) and "fits"
        except ValueError as error:
            told = str(error).splitlines()[0][:40]
        print(kind, told)
"""


@pytest.mark.slow
@pytest.mark.parametrize("count", [9, 100, 3_000])
def test_no_chain_of_references_ends_the_process(count):
    in_a_process(CHAIN.replace("COUNT", str(count)))


@pytest.mark.slow
def test_no_value_of_a_handler_ends_the_process():
    text = """
import os
from toolstile_hookspecs.codecs import SchemaCodec
value = []
for _ in range(1_000_000):
    value = [value]
print(SchemaCodec({"items": {"$ref": "#"}, "enum": [1]}, owner="a test").fits(value), flush=True)
os._exit(0)  # to free it takes as much of the stack
"""
    assert "depth" in in_a_process(text)


@pytest.mark.parametrize(
    "pattern", [r"\w{1,1999}", "(?:x{1,40}){1,40}", "((a|b)*c){1,300}", "(x?){1,1500}y"]
)
def test_a_pattern_with_counts_is_searched_for_in_time(pattern):
    validator = bounded_validator({"pattern": pattern})
    began = time.process_time()
    for text in ("x" * 100_000, "ab" * 50_000):
        validator.is_valid(text)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "pattern", [r"\w{10000}", "x{65529}", "(?:x{1,100}){1,100}", "((x{99}){9}y){9}", "x{5}{5}{99}"]
)
def test_one_that_counts_too_far_is_refused(pattern):
    assert not is_bounded(pattern)
    with pytest.raises(DefinitionError, match="cannot be searched for in bounded time"):
        codec({"patternProperties": {pattern: {}}})


# --- Patterns mean what they mean to ECMA-262


def test_a_pattern_is_searched_for_as_ecma_262_says(subtests):
    for pattern, text, fits in [
        (r"^[^[\s]+\/\u{1F600}$", "a/\U0001f600", True),
        (r"^\uD83D\uDE00$", "\U0001f600", True),
        (r"^[\uD83D\uDE00x]$", "\U0001f600", True),
        (r"^\u00e9\x41$", "\u00e9A", True),
        (r"^\p{Letter}\p{Script=Greek}\P{Lu}$", "\u00e9\u03b1a", True),
        (r"^\d$", "\u0663", False),
        (r"^\w$", "\u00e9", False),
        (r"^[\s]\s\S$", "\u00a0\ufeffx", True),
        (r"^[\s\S]{2}$", "a\n", True),
        ("^.$", "\n", False),
        ("^.$", "\u2028", False),
        ("a$", "a\n", False),
        ("^[[:alpha:]]$", "a", False),
        (r"^\cJ\0[\0]$", "\n\0\0", True),
        ("^[^]$", "\n", True),
        ("[]", "a", False),
        (r"^(?<year>\d{4})\-\_\@\\$", "2020-_@\\", True),
        ("^{.*}$", "{a}", True),
        ("^a{,3}$", "a{,3}", True),
        ("^a{,3}$", "aa", False),
        (r"^[\w-.]+@[-\w]+[+-\d]$", "a-b.c@d-", True),
        (r"^\é[\é]$", "éé", True),
    ]:
        with subtests.test(pattern=pattern, text=text, fits=fits):
            assert bounded_validator({"pattern": pattern}).is_valid(text) is fits
            named = codec({"patternProperties": {pattern: False}})
            assert (named.fits({text: 1}) is not None) is fits


def test_patterns_that_are_written_in_two_ways_both_count():
    both = {"^a{": {"type": "integer"}, r"^a\{": {"minimum": 3}}
    assert codec({"patternProperties": both}).fits({"a{": 3}) is None
    for wrong in ("x", 2):
        assert codec({"patternProperties": both}).fits({"a{": wrong}) is not None


def test_one_that_ecma_262_or_bounded_time_does_not_allow_is_refused(subtests):
    for pattern in [
        "(?=(a*)*b)",
        "(?!x)",
        "(?<=a)b",
        r"(a)\1",
        r"\k<x>",
        r"a\Z",
        "(",
        "\\",
        r"\u12",
        r"\p",
    ]:
        with subtests.test(pattern=pattern):
            assert not is_bounded(pattern)


def test_a_message_shows_the_pattern_as_it_was_written():
    with pytest.raises(ToolValidationError, match=r"\"b\" does not match '\^a\{,3}'"):
        codec({"pattern": "^a{,3}"}).decode('"b"')

"""Keys of calls, and fingerprints of their params."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, Final

import pydantic_core
from pydantic import TypeAdapter

from toolstile_hookspecs import Tool, ToolContext
from toolstile_hookspecs.codecs import HIDING, Codec, SchemaCodec, may_lose
from toolstile_hookspecs.execution.children import root_session_id

Encode = Callable[[Any], bytes]

# As `Any`, because type checkers do not know the items of a value of unknown type.
_MAPPING: Final[Any] = Mapping
_SET: Final[Any] = AbstractSet
_SEQUENCE: Final[Any] = Sequence
_DICT: Final[Any] = dict
_LIST: Final[Any] = list

LONGEST_PART: Final = 256
"""The most characters of an id or a scope in a key; a longer one is replaced by its hash."""
_BETWEEN_HALVES: Final = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")
# Nothing else that makes a key has these: Python writes neither in JSON.
_APART: Final = r"\-"
_SLASH: Final = r"\/"


@lru_cache(maxsize=1024)
def _adapter(type_: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(type_)


# Not as text, which bytes need not be.
_plain: Final = partial(
    pydantic_core.to_jsonable_python,
    bytes_mode="base64",
    fallback=lambda value: _adapter(value.__class__).dump_python(value, mode="json"),
)


@lru_cache(maxsize=1024)
def encoder(tool: Tool[Any, Any]) -> Encode:
    """Return a function that writes params of a tool as canonical JSON.

    The function raises `TypeError` if other params could have the same JSON.
    """
    codec = tool.params_codec
    write: Encode = codec.encode
    # Because a value of a JSON Schema keeps the order of the fields that it came with.
    if isinstance(codec, SchemaCodec) or not _is_fixed(codec.schema()):
        write = lambda params: recorded_form(codec.encode(params))  # noqa: E731 - in its place
    if isinstance(codec, Codec) and may_lose(codec.adapter.core_schema):
        return partial(_write_whole, tool, write)
    return write


def _write_whole(tool: Tool[Any, Any], write: Encode, params: Any) -> bytes:
    codec = tool.params_codec
    try:
        is_whole = codec.copy(codec.encode(params)) == params
    except ValueError:
        is_whole = False
    if not is_whole:
        raise TypeError(
            f"the params of {tool.name} do not equal the params that are read from their JSON, by "
            "which the ledger distinguishes calls; remove a field_serializer or an excluded field "
            "from their types"
        )
    return write(params)


def as_recorded(params: object) -> bytes:
    """Return params as canonical JSON with secrets, or raise `ValueError`."""
    if params is None:
        return b"{}"
    plain = _adapter(object).dump_python(params, by_alias=True, round_trip=True)
    return canonical_json(_ordered(plain, pydantic_core.to_jsonable_python))


def recorded_form(written: bytes) -> bytes:
    """Return encoded params in the form of `as_recorded`."""
    return canonical_json(json.loads(written, parse_float=_as_json_means))


def canonical_json(value: Any) -> bytes:
    """Return plain data as compact JSON with sorted keys."""
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    ).encode("utf-8", "surrogatepass")


def _as_json_means(written: str | float) -> float:
    """Return a number as in JSON, where 1.0 is 1."""
    number = float(written)
    return int(number) if number.is_integer() else number


def _ordered(value: Any, plain: Callable[[Any], Any] = _plain) -> Any:
    """Return data as plain lists and mappings, with sets in order."""
    if isinstance(value, _MAPPING):
        return {_as_key(key, plain): _ordered(item, plain) for key, item in value.items()}
    if isinstance(value, _SET):
        return sorted((_ordered(item, plain) for item in value), key=canonical_json)
    if isinstance(value, _SEQUENCE) and not isinstance(value, (str, bytes, bytearray)):
        return [_ordered(item, plain) for item in value]
    if isinstance(value, HIDING):
        return _ordered(value.get_secret_value(), plain)
    if isinstance(value, float):
        return _as_json_means(value)
    return plain(value)


def _as_key(key: Any, plain: Callable[[Any], Any]) -> str:
    text = plain(key)
    return text if isinstance(text, str) else json.dumps(text)


def _is_fixed(schema: Any) -> bool:
    """Tell whether JSON of a schema is one text only: no mappings, sets, free values, fractions."""
    if isinstance(schema, _LIST):
        return all(_is_fixed(part) for part in schema)
    return not isinstance(schema, _DICT) or _is_fixed_node(schema)


def _is_fixed_node(node: dict[str, Any]) -> bool:
    # 3 and 3.0 are the same number.
    if "uniqueItems" in node or "patternProperties" in node or node.get("type") == "number":
        return False
    if not node.keys() & {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}:
        return False
    if node.get("type") == "object" and node.get("additionalProperties") is not False:
        return False
    if node.get("type") == "array" and "items" not in node and "prefixItems" not in node:
        return False
    inside = [
        *node.get("properties", {}).values(),
        *node.get("$defs", {}).values(),
        *(
            node[name]
            for name in ("items", "prefixItems", "anyOf", "oneOf", "allOf")
            if name in node
        ),
    ]
    return all(_is_fixed(part) for part in inside)


def keys_of(
    tool: Tool[Any, Any], params: Any, context: ToolContext, call_id: str
) -> tuple[str, str]:
    """Return the key of a call and the hash of its params; `key_fn` may cause a `TypeError`."""
    config = tool.idempotency
    assert config is not None  # noqa: S101 - others are not asked for
    written = encoder(tool)(params)
    params_hash = sha256(written).hexdigest()
    chosen: Any = written
    if config.strategy != "auto" and config.key_fn is not None:
        chosen = config.key_fn(params)
        if not isinstance(chosen, str):
            raise TypeError(
                f"the key_fn of {tool.name} returned {type(chosen).__name__}, not a string"
            )
        chosen = chosen.encode("utf-8", "surrogatepass")
    elif config.strategy != "auto":
        fields = json.loads(written)
        chosen = canonical_json({name: fields.get(name) for name in config.param_keys})
    name = tool.name
    if config.version and tool.version:
        name = f"{name}@{tool.version.partition('.')[0]}"
    chosen_hash = params_hash if chosen is written else sha256(chosen).hexdigest()
    return f"{_scope(config.scope, context, call_id)}:{name}:{chosen_hash}", params_hash


def recorded_hash(tool: Tool[Any, Any], params: Any) -> str:
    """Return the hash of params whose effect a program has recorded."""
    return sha256(recorded_form(encoder(tool)(params))).hexdigest()


def _scope(scope: str, context: ToolContext, call_id: str) -> str:
    if scope == "session":
        return _of_session(root_session_id(context))
    if scope == "call":
        return f"{_of_calls(root_session_id(context))}/{_brief(call_id)}"
    return "global" if scope == "global" else f"name/{_brief(printable(scope))}"


@lru_cache(maxsize=256)
def _of_session(session_id: str) -> str:
    return f"session/{_brief(printable(session_id))}"


@lru_cache(maxsize=256)
def _of_calls(session_id: str) -> str:
    # Because the id of a call follows after a slash, slashes of the session are escaped.
    return f"call/{_brief(printable(session_id)).replace('/', _SLASH)}"


@lru_cache(maxsize=256)
def printable_session(session_id: str) -> str:
    """Return a session's id as `printable` does, cached."""
    return printable(session_id)


def printable(text: str) -> str:
    """Return a text escaped for every store and terminal; different texts stay different."""
    if text.isprintable() and "\\" not in text:
        return text
    # JSON writes two halves of a character as it writes the character.
    return _APART.join(json.dumps(part)[1:-1] for part in _BETWEEN_HALVES.split(text))


def _brief(shown: str) -> str:
    """Return printable text, short enough for the index of any database."""
    if len(shown) <= LONGEST_PART:
        return shown
    # Nothing that `printable` returns begins so.
    return f"\\sha256-{sha256(shown.encode()).hexdigest()}"

"""The line of a call, made from its event, without its secrets.

Each field is written as JSON at once: arguments and values that are JSON already are not parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final, cast

from pydantic_core import from_json, to_jsonable_python

from toolstile_hookspecs import (
    DeadlineExceededError,
    Interrupt,
    PromptEvaluationError,
    SnapshotError,
    Stage,
    Status,
    Tool,
    ToolInvoked,
    VisibilityExpansionRequired,
    hide,
    hide_within,
    masked,
    secrets_in,
    secrets_of,
)
from toolstile_hookspecs.calls import (
    APPROVAL,
    APPROVAL_REASON,
    APPROVAL_TOKEN,
    DIFF,
    NO_CHANGES,
    REPLAYED_EFFECT,
)
from toolstile_hookspecs.codecs import MASK
from toolstile_hookspecs.execution.principal import APPLICATION, MAIN_AGENT
from toolstile_hookspecs.support.text import wire_time
from toolstile_plugins.record.schema import RecordedCall

_OWN: Final = {own.__name__: own for own in (PromptEvaluationError, Interrupt)}
_STOPPING: Final = frozenset({"KeyboardInterrupt", "SystemExit", "CancelledError", "GeneratorExit"})
_KEPT_OUT: Final = frozenset({APPROVAL, APPROVAL_REASON, APPROVAL_TOKEN})
"""Attributes with their own field, or that would let a reader resume the call."""
written: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
"""Returns a value as compact JSON, in ASCII."""
NOTHING: Final = "[]"
"""The changes of a call that has none."""
Fields = list[str]
"""The fields of a line, with their names, as JSON."""
Secrets = tuple[str, ...]
_ENDINGS: Final = {
    (status, stage): f'"status":"{status}","stage":"{stage}"'
    for status in Status
    for stage in Stage
}
_NO_PARAMS: Final = "null"
_NONE: Final[Mapping[str, Any]] = {}
"""The schema of data without secrets."""


def raised_by(call: RecordedCall) -> Exception | None:
    """Return the exception that left `dispatch` when the call was recorded, None without one.

    An exception of another framework becomes an `Interrupt` with its name and text. A Ctrl-C during
    the recording does not stop the replay.
    """
    error = call.error
    if call.status is Status.DEADLINE:
        late = DeadlineExceededError("The deadline had passed when the call was recorded.")
        if error is None or error.type != PromptEvaluationError.__name__:
            return late
        ended = PromptEvaluationError(error.text)
        ended.__cause__ = late
        return ended
    if call.status is not Status.RAISED or error is None or error.type in _STOPPING:
        return None
    if error.type == VisibilityExpansionRequired.__name__:
        return VisibilityExpansionRequired(error.section_keys, error.text)
    class_ = _OWN.get(error.type)
    return class_(error.text) if class_ is not None else Interrupt(f"{error.type}: {error.text}")


def name_of(error: BaseException) -> str:
    """Return the name of an exception's class; Python's name if it stops a program."""
    if isinstance(error, Exception):
        return type(error).__name__
    names = [base.__name__ for base in type(error).__mro__]
    return next((name for name in names if name in _STOPPING), names[0])


def fields_of(event: ToolInvoked, changes: str | SnapshotError, diff: str = "") -> Fields:  # noqa: C901, PLR0912 - a case for each field
    """Return the fields of the line of a call."""
    secrets = _secrets(event)
    call = event.call
    arguments, params = _arguments(event, secrets), _NO_PARAMS
    fields = [
        f'"kind":"call","session":{quoted(event.session_id)},"id":{quoted(call.id)}',
        f'"arguments":{arguments}',
        _ENDINGS[event.status, event.stage],
        f'"at":"{event.timestamp.isoformat()}","seconds":{event.duration!r}',
    ]
    tool = event.tool
    if tool is not None and event.stage is not Stage.PARSE:
        if call.name != tool.name:
            fields.append(f'"name":{quoted(call.name)}')
        codec, given = tool.params_codec, event.arguments
        # Bytes are written by the codec for the host; a text comes from an event made by hand.
        encoded = given if isinstance(given, bytes) else codec.encode(event.params)
        if (schema := codec.secret_schema()) or secrets:
            params = _shown(json.loads(encoded), schema, secrets)
        else:
            params = encoded.decode()
        fields.append(f'"params":{params}')
    if (MASK in arguments or MASK in params) and _say_all(event, arguments, params):
        fields.append('"masked":false')
    _add_result(fields, event, secrets)
    _add_circumstances(fields, event)
    if event.decisions or event.error is not None or event.attributes:
        if event.decisions:
            decisions = [
                {
                    "policy": decision.policy,
                    "verdict": decision.verdict,
                    "reason": _hidden(decision.reason, secrets),
                }
                for decision in event.decisions
            ]
            fields.append(f'"decisions":{written(decisions)}')
        if (answer := event.attributes.get(APPROVAL)) is not None:
            reason = _hidden(event.attributes.get(APPROVAL_REASON), secrets)
            fields.append(f'"approval":{written({"answer": str(answer), "reason": reason})}')
        kept = {name: value for name, value in event.attributes.items() if name not in _KEPT_OUT}
        if kept:
            plain = to_jsonable_python(kept, fallback=lambda value: f"a {type(value).__name__}")
            plain = hide_within(plain, secrets)
            try:
                said = written(plain)
            except ValueError:
                # JSON has no infinite number.
                said = written(json.loads(json.dumps(plain), parse_constant=str))
            fields.append(f'"attributes":{said}')
        if event.error is not None:
            fields.append(f'"error":{written(_raised(event.error, secrets))}')
    if isinstance(changes, SnapshotError):
        fields.append(f'"changes_lost":{written(hide(str(changes), secrets))}')
    elif changes != NOTHING:
        if secrets:
            changes = written(hide_within(json.loads(changes), secrets))
        fields.append(f'"changes":{written(changes)}')
    return fields + _diff_of(event, diff, secrets)


def request_of(event: ToolInvoked) -> str:
    """Return the request that a call saw, as JSON without the secrets of the call."""
    secrets = _secrets(event)
    turns = to_jsonable_python(list(event.request), exclude_none=True)
    return written(hide_within(turns, secrets))


def joined(fields: Fields) -> str:
    """Return fields as a JSON object."""
    return f"{{{','.join(fields)}}}"


def _secrets(event: ToolInvoked) -> Secrets:
    found = event.result_secrets
    if event.auth is not None:
        found = (*found, *secrets_in(event.auth))
    schema = event.tool.params_codec.secret_schema() if event.tool is not None else _NONE
    if event.tool is None or not schema:
        return found
    # A person may have edited the arguments; the original ones are recorded all the same.
    found = (*found, *secrets_given(event.tool, event.call.arguments))
    if event.arguments is None:
        return (*found, *secrets_in(event.held_params))
    return (*found, *secrets_given(event.tool, event.arguments))


def secrets_given(tool: Tool[Any, Any], arguments: str | bytes | Mapping[str, Any]) -> Secrets:
    """Return the secrets in the arguments of a tool that has some, undeclared names included."""
    value = value_of(arguments)
    found = [*secrets_of(value, tool.params_codec.secret_schema())]
    if isinstance(value, dict):
        # A name that the tool does not declare may be a secret in the wrong place.
        declared = tool.params_codec.schema().get("properties", {})
        found += [name for name in cast("dict[str, Any]", value) if name not in declared]
    return tuple(found)


def _arguments(event: ToolInvoked, secrets: Secrets) -> str:
    """Return the arguments as they came, unless they may hold a secret."""
    given, tool = event.call.arguments, event.tool
    schema = tool.params_codec.secret_schema() if tool is not None else _NONE
    if tool is None or (schema and event.stage is Stage.PARSE):
        # Because the meaning of each argument is unknown, mask all of them.
        value = value_of(given)
        is_object = isinstance(value, dict)
        names = (hide(name, secrets) for name in cast("Any", value)) if is_object else ()
        return written(dict.fromkeys(names, MASK) if is_object else MASK)
    if event.status is Status.INVALID:
        # As text, which is refused again for the same faults.
        return written(hide(_text(given), secrets))
    if isinstance(given, str) and not (schema or secrets or "\n" in given):
        with suppress(ValueError):  # a plugin may accept other text than JSON
            from_json(given, allow_inf_nan=False)
            return given
    value = value_of(given)
    if isinstance(value, str):
        return written(MASK if schema else hide(value, secrets))
    return _shown(value, schema, secrets)


def _shown(value: Any, schema: Mapping[str, Any], secrets: Secrets) -> str:
    return written(shown(value, schema, secrets))


def shown(value: Any, schema: Mapping[str, Any], secrets: Secrets) -> Any:
    """Return a JSON value without secrets: by the codec's schema of secrets, and anywhere in it."""
    if schema:
        value = masked(value, schema)
    return hide_within(value, secrets) if secrets else value


def value_of(given: str | bytes | Mapping[str, Any]) -> Any:
    """Return arguments as a JSON value, or as text if they are not JSON."""
    text = _text(given)
    try:
        return _READER.decode(text)
    except (ValueError, RecursionError):
        return text


def _text(given: str | bytes | Mapping[str, Any]) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, bytes):
        return given.decode(errors="replace")
    try:
        return json.dumps(dict(given))
    except (ValueError, TypeError, RecursionError):
        return "arguments that JSON cannot say"


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


_READER: Final = json.JSONDecoder(parse_constant=_refuse)


def _say_all(event: ToolInvoked, arguments: str, params: str) -> bool:
    """Tell whether the recorded arguments and params are the original ones: none is masked."""
    given, said = event.call.arguments, json.loads(arguments)
    if said not in (value_of(given), _text(given)):
        return False
    if params == _NO_PARAMS or event.tool is None:
        return True
    return bool(json.loads(params) == json.loads(event.tool.params_codec.encode(event.params)))


def _add_result(fields: Fields, event: ToolInvoked, secrets: Secrets) -> None:
    text = hide(event.text, secrets) if secrets else event.text
    success, data = event.success, event.data
    said = quoted(text) if text or not success else "null"
    if data is not None:
        schema = event.tool.result_codec.secret_schema() if event.tool is not None else _NONE
        on_wire = _shown(json.loads(data), schema, secrets) if schema or secrets else data.decode()
        fields.append('"value":"wire"' if on_wire == said else f'"value":"wire","text":{said}')
        said = on_wire
    moment = wire_time(event.timestamp, event.duration)
    which = "data" if success else "error"
    if event.tool is not None and event.tool.version is not None:
        said += f',"version":{quoted(event.tool.version)}'
    said += ',"replayed":true' if REPLAYED_EFFECT in event.attributes else ""
    name = quoted(event.tool_name)
    fields.append(f'"envelope":{{"tool":{name},"fetchedAt":"{moment}","{which}":{said}}}')
    if not success:
        return
    # Because an event that keeps only JSON would decode the value, its message is not asked for.
    message: str | None = vars(event).get("message")
    if message is None:
        message = event.result.message
    if message:
        fields.append(f'"message":{written(hide(message, secrets))}')
    if data is None and event.result.exclude_value_from_context:
        fields.append('"value":"kept"')


def _add_circumstances(fields: Fields, event: ToolInvoked) -> None:  # noqa: C901 - as above
    if event.parent_id is not None:
        fields.append(f'"parent":{quoted(event.parent_id)}')
    if event.agent != MAIN_AGENT:
        fields.append(f'"agent":{quoted(event.agent)}')
    if event.user_id is not None:
        fields.append(f'"user":{quoted(event.user_id)}')
    asks = event.principal
    if asks is not None and (asks.source != APPLICATION or asks.groups):
        said = {"source": asks.source, "groups": sorted(asks.groups)}
        fields.append(f'"principal":{written(said)}')
    if event.handler_duration is not None:
        fields.append(f'"handler_seconds":{event.handler_duration!r}')
    if event.rolled_back:
        fields.append('"rolled_back":true')
    if event.pending_parent:
        fields.append('"pending_parent":true')
    if event.batch is not None:
        fields.append(f'"batch":{quoted(event.batch)}')
    if event.transaction is not None:
        fields.append(f'"transaction":{quoted(event.transaction)}')
    if event.replayed:
        fields.append('"replayed":true')
    if event.reruns:
        fields.append(f'"reruns":{event.reruns}')


def _diff_of(event: ToolInvoked, diff: str, secrets: Secrets) -> Fields:
    # An approver's diff is an attribute already.
    is_new = diff not in {"", NO_CHANGES, event.attributes.get(DIFF)}
    return [f'"diff":{quoted(hide(diff, secrets))}'] if is_new else []


def _hidden(text: object, secrets: Secrets) -> str | None:
    return None if text is None else hide(str(text), secrets)


def _raised(error: BaseException, secrets: Secrets) -> dict[str, Any]:
    name = name_of(error)
    if isinstance(error, VisibilityExpansionRequired):
        return {
            "type": name,
            "text": hide(error.reason, secrets),
            "section_keys": error.section_keys,
        }
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a foreign exception; its class must do
        text = ""
    return {"type": name, "text": hide(text, secrets)}

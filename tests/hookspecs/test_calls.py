"""A call, its event and its outcome."""

import copy
import dataclasses
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from toolstile_hookspecs import Outcome, Stage, Status, Tool, ToolCall, ToolInvoked, ToolResult
from toolstile_hookspecs.support.text import wire_time

MOMENT = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)


def pickled(call):
    return pickle.loads(pickle.dumps(call))


def outcome(result, status=Status.SUCCEEDED, text="", data=None, tool=None):
    event = ToolInvoked(
        call=ToolCall("asked_for", id="c1"),
        tool=tool,
        arguments=None,
        result=result,
        status=status,
        stage=Stage.TELEMETRY,
        session_id="s",
        parent_id=None,
        timestamp=MOMENT,
        duration=0.25,
        text=text,
        data=data,
    )
    return Outcome(event)


def test_calls_without_an_id_get_one_each():
    assert ToolCall("a").id != ToolCall("a").id
    assert ToolCall("a", id="c1").id == "c1"
    assert ToolCall("a").arguments == "{}"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("fields", [{}, {"id": "c1", "meta": {"traceparent": "00-1"}}])
def test_a_call_can_be_kept_and_sent_to_another_process(copied, fields):
    call = ToolCall("add", {"a": 1}, **fields)
    again = copied(call)
    assert again == call
    assert again.id.__class__ is call.id.__class__


def test_a_success_has_data_and_no_error():
    made = outcome(ToolResult.ok([1]), text="1", data=b"[1]")
    assert made.envelope() == {
        "tool": "asked_for",
        "fetchedAt": "2026-01-15T10:30:00.250Z",
        "data": [1],
    }
    assert (made.success, made.is_error) == (True, False)


def test_a_success_without_a_value_has_its_text_as_data():
    assert outcome(ToolResult.ok(message="Done."), text="Done.").envelope()["data"] == "Done."
    assert outcome(ToolResult.ok()).envelope()["data"] is None
    assert outcome(ToolResult.ok(), data=b"null").envelope()["data"] is None


def test_a_failure_has_an_error_and_no_data():
    made = outcome(ToolResult.error("No."), Status.FAILED, "No.", b"1")
    assert made.envelope()["error"] == "No."
    assert "data" not in made.envelope()
    json.dumps(made.envelope())


def test_a_handler_s_own_failure_is_no_error_of_the_host(subtests):
    for status in Status:
        with subtests.test(status=status):
            made = outcome(ToolResult.error("No."), status)
            assert made.is_error is (status not in {Status.SUCCEEDED, Status.FAILED})


def test_the_event_names_the_tool_that_was_found():
    tool = Tool[None, None](name="found", description="F.")
    made = outcome(ToolResult.ok(), tool=tool)
    assert (made.event.tool_name, made.tool) == ("found", tool)
    assert outcome(ToolResult.ok()).event.tool_name == "asked_for"
    assert (made.event.call_id, made.call.id, made.event.success) == ("c1", "c1", True)
    assert (made.status, made.stage) == (Status.SUCCEEDED, Stage.TELEMETRY)
    assert made.result is made.event.result


def test_params_are_shared_where_nothing_in_them_can_change_and_copied_elsewhere():
    event = outcome(ToolResult.ok()).event
    assert event.params is None
    assert dataclasses.replace(event, held_params="held").params == "held"


@dataclasses.dataclass
class Basket:
    """A value that can be changed."""

    items: list[str]


def fill(params: Basket, *, context: object) -> ToolResult[Basket]:
    return ToolResult.ok(params)


def test_every_reader_of_the_event_gets_params_and_a_result_of_its_own():
    tool = Tool[Basket, Basket](name="fill", description="F.", handler=fill)
    event = outcome(ToolResult.ok(), tool=tool, data=b'{"items":["a"]}').event
    event = dataclasses.replace(event, arguments='{"items": ["a"]}')
    del event.__dict__["result"]
    event.__dict__["message"] = "Filled."
    event.result.value.items.append("b")
    event.params.items.append("b")
    assert event.params == Basket(["a"])
    assert event.result == ToolResult.ok(Basket(["a"]), message="Filled.")


def test_a_value_that_its_type_does_not_take_again_is_plain_json():
    tool = Tool[Basket, Basket](name="fill", description="F.", handler=fill)
    event = outcome(ToolResult.ok(), tool=tool, data=b'{"items":[1]}').event
    del event.__dict__["result"]
    event.__dict__["message"] = ""
    assert event.result == ToolResult.ok({"items": [1]})


def test_stages_stand_in_the_order_of_a_call_s_life():
    order = "lookup parse deadline check approve reserve snapshot execute render validate"
    assert [*Stage] == [*order.split(), "on_result", "prepare", "commit", "telemetry"]


def test_wire_times_are_in_utc_with_milliseconds():
    assert wire_time(MOMENT, 1.0005) == "2026-01-15T10:30:01.000Z"
    east = MOMENT.astimezone(timezone(timedelta(hours=2)))
    assert wire_time(east) == "2026-01-15T10:30:00.000Z"


def test_events_and_outcomes_cannot_be_changed():
    made = outcome(ToolResult.ok())
    for each in (made, made.event, made.call, made.result):
        for name in (field.name for field in dataclasses.fields(each)):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(each, name, None)


def test_a_call_is_filled_at_once_as_its_dataclass_would_fill_it():
    call = ToolCall("add", "{}", "c1", provider_id="p1")
    assert vars(call) == {
        field.name: getattr(call, field.name) for field in dataclasses.fields(call)
    }
    assert dataclasses.replace(call, name="sum") == ToolCall("sum", "{}", "c1", provider_id="p1")
    assert ToolCall("add").id != ToolCall("add").id
    with pytest.raises(dataclasses.FrozenInstanceError):
        call.name = "sum"
    with pytest.raises(TypeError, match="name"):
        ToolCall()
    with pytest.raises(TypeError, match="names"):
        ToolCall("add", names="sum")

"""Calls from the official client, over both transports, in both eras."""

from __future__ import annotations

import json

import anyio
import jsonschema
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from .conftest import LEGACY, LONGEST, appears

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.long_if(transport="stdio"),
]


async def test_a_value_comes_structured_and_as_text(connect):
    async with connect() as client:
        result = await client.call_tool("add_up", {"parts": [1, 2]})
    assert not result.is_error
    assert result.structured_content == {"total": 3, "parts": [1, 2]}
    assert json.loads(result.content[0].text) == {"total": 3, "parts": [1, 2]}


async def test_a_value_that_is_no_object_is_wrapped(connect):
    async with connect() as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured_content == {"result": 3}
    assert result.content[0].text == "3"


async def test_failures_are_results_that_a_model_can_act_on(connect):
    async with connect() as client:
        said = await client.call_tool("fail", {})
        broken = await client.call_tool("breaks", {})
        refused = await client.call_tool("refuse", {})
        wrong = await client.call_tool("add", {"a": "x", "c": 1})
    assert all(each.is_error for each in (said, broken, refused, wrong))
    assert said.content[0].text == "It did not work. Try another way, then retry."
    assert broken.content[0].text == "Internal error in breaks: broken"
    assert refused.content[0].text == "Not like this. Ask first, then retry."
    text = wrong.content[0].text
    assert all(fault in text for fault in ("- a: ", "- b: required", "- c: not known"))


async def test_a_value_that_does_not_fit_the_output_schema_is_told_of_and_left_out(connect):
    async with connect() as client:
        result = await client.call_tool("miscount", {})
    assert result.is_error
    assert result.structured_content is None
    assert "returned something else than it declares" in result.content[0].text


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("squares", {"sides": [2]}, {"result": [{"side": 2, "area": 4}]}),
        ("price", {}, {"price": "3 EUR"}),
        ("secretive", {}, {"shown": 1}),
        ("open_ended", {}, {"size": 1, "colour": "red"}),
        ("contain", {}, {"total": 1}),
    ],
)
async def test_what_is_sent_fits_the_output_schema(connect, name, arguments, expected):
    async with connect() as client:
        (shown,) = [each for each in (await client.list_tools()).tools if each.name == name]
        result = await client.call_tool(name, arguments)
    assert result.structured_content == expected
    jsonschema.validate(expected, shown.output_schema)


async def test_the_output_schema_describes_what_is_sent(connect):
    async with connect() as client:
        tools = {each.name: each.output_schema for each in (await client.list_tools()).tools}
    square = tools["squares"]["properties"]["result"]["items"]
    shape = tools["squares"]["$defs"]["Square"] if "$ref" in square else square
    assert set(shape["properties"]) == {"side", "area"}
    assert tools["price"]["properties"]["price"]["type"] == "string"
    assert set(tools["secretive"]["properties"]) == {"shown"}


@pytest.mark.parametrize("name", ["misdate", "miscontain"])
async def test_whatever_does_not_fit_the_output_schema_is_told_of(connect, name):
    async with connect() as client:
        result = await client.call_tool(name, {})
    assert result.is_error
    assert result.structured_content is None
    assert "returned something else than it declares" in result.content[0].text


async def test_what_is_structured_and_no_object_is_left_out_of_the_older_era(connect, mode):
    async with connect() as client:
        result = await client.call_tool("list_structured", {})
    assert not result.is_error
    assert result.content[0].text == "one, two"
    assert result.structured_content == (None if mode == LEGACY else [1, 2])


async def test_an_unknown_tool_is_an_error_of_the_protocol(connect):
    async with connect() as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("ad", {})
    assert caught.value.error.code == INVALID_PARAMS
    assert "add" in caught.value.error.message


@pytest.mark.parametrize(
    "name", ["leave", "interrupt", "interrupt_loop", "stop_evaluation", "pause"]
)
async def test_what_leaves_a_dispatch_is_a_failed_result_and_the_server_goes_on(connect, name):
    async with connect() as client:
        ended = await client.call_tool(name, {})
        after = await client.call_tool("add", {"a": 1, "b": 1})
    assert ended.is_error
    assert "cannot" in ended.content[0].text or "human" in ended.content[0].text
    assert after.content[0].text == "2"


async def test_nothing_that_is_printed_disturbs_the_protocol(connect):
    async with connect() as client:
        result = await client.call_tool("chatter", {})
        after = await client.call_tool("add", {"a": 1, "b": 1})
    assert result.content[0].text == "done"
    assert after.content[0].text == "2"


async def test_progress_is_reported_in_order_before_the_result(connect):
    heard = []

    async def hear(progress, total, message):
        heard.append((progress, total, message))

    async with connect() as client:
        result = await client.call_tool("steps", {"count": 3}, progress_callback=hear)
    assert result.content[0].text == "3"
    assert heard == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_what_is_excluded_is_on_no_wire(connect):
    async with connect() as client:
        result = await client.call_tool("hide_value", {})
        always = await client.call_tool("hide_all_values", {})
        tools = {each.name: each for each in (await client.list_tools()).tools}
    assert "never shown" not in result.model_dump_json()
    assert result.content[0].text == "Done."
    assert "never shown" not in always.model_dump_json()
    assert tools["hide_all_values"].output_schema is None


async def test_what_came_along_reaches_the_handler_and_nothing_reserved_does(connect):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with connect() as client:
        result = await client.call_tool(
            "came_along", {}, meta={"traceparent": trace, "example.org/a": "b"}
        )
    assert result.structured_content is not None
    assert result.structured_content["example.org/a"] == "b"
    assert not any(name.startswith("io.model") for name in result.structured_content)
    # A client that traces itself puts its own span there, of the same trace.
    assert result.structured_content["traceparent"].split("-")[1] == trace.split("-")[1]


async def test_a_client_may_say_how_long_it_waits(connect, tmp_path):
    began = tmp_path / "began"
    async with connect() as client:
        result = await client.call_tool(
            "sleep_on", {"began": str(began)}, meta={"toolstile/deadline": 0.2}
        )
        with pytest.raises(MCPError) as caught:
            await client.call_tool("add", {"a": 1, "b": 1}, meta={"toolstile/deadline": -1})
    assert result.is_error
    assert "The time for this call ended before the call was done" in result.content[0].text
    assert caught.value.error.code == INVALID_PARAMS


async def test_a_cancelled_call_stops_and_nothing_of_it_is_committed(connect, tmp_path):
    began, ended = tmp_path / "began", tmp_path / "ended"
    async with connect() as client:
        await client.call_tool("keep_note", {"text": "before"})
        with anyio.fail_after(LONGEST), anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                arguments = {"began": str(began), "ended": str(ended)}
                group.start_soon(client.call_tool, "wait_for_cancellation", arguments)
                await appears(began)
                scope.cancel()
        await appears(ended)
        notes = await client.call_tool("read_notes", {})
    assert "never" not in notes.content[0].text

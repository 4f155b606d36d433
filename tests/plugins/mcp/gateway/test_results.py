"""The answer of a server is kept to its limits, in whatever part of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

types = pytest.importorskip("mcp_types")

from toolstile_hookspecs import Contents  # noqa: E402 - only where the SDK is there
from toolstile_plugins.mcp.gateway.call import contents_of  # noqa: E402


def taken(*content: dict[str, Any], **more: Any) -> Contents:
    result = types.CallToolResult.model_validate({"content": list(content), **more})
    return contents_of(result, max_binary=1000)


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def image(data: str, mime: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": mime}


LONG = "x" * 200_000


def test_empty_parts_have_an_end() -> None:
    contents = taken(*[text("")] * 5000)

    assert len(contents.parts) == 1001
    assert contents.render().strip() == "[4,000 parts left out, beyond the limit of a result]"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "resource_link", "uri": f"x:/{LONG}", "name": "n"},
        {"type": "resource_link", "uri": "x:/", "name": LONG},
        {"type": "resource_link", "uri": "x:/", "name": "n", "title": LONG},
        {"type": "resource_link", "uri": "x:/", "name": "n", "mimeType": LONG},
        {"type": "resource", "resource": {"uri": f"x:/{LONG}", "text": "a"}},
        {"type": "resource", "resource": {"uri": "x:/", "text": "a", "mimeType": LONG}},
        {"type": "text", "text": "a", "annotations": {"lastModified": LONG}},
        image("", LONG),
    ],
)
def test_names_and_the_like_have_a_limit_too(part: dict[str, Any]) -> None:
    contents = taken(part, text("more"))

    assert contents.render().strip() == "more\n[1 part left out, beyond the limit of a result]"
    assert LONG not in repr(contents)


@pytest.mark.parametrize("data", ["!!!", "AAA", "AA\nAA", "é"])
def test_what_is_no_base64_reaches_no_provider(data: str) -> None:
    resource = {"uri": "x:/a", "blob": data}
    contents = taken(image(data), {"type": "resource", "resource": resource})

    assert [each.type for each in contents.parts] == ["text", "text"]
    assert contents.render().strip() == (
        "[image left out, since it is not written in base64]\n"
        "[x:/a left out, since it is not written in base64]"
    )


def test_a_structured_result_that_is_no_json_is_left_out() -> None:
    contents = taken(text("a"), structuredContent=json.loads('{"a": NaN}'))
    assert contents.structured is None
    assert contents.render().strip() == (
        "a\n[structured result left out: it holds a number that JSON has not]"
    )

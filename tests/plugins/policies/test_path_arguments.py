"""Paths in arguments are found wherever a schema lets them stand, or the call is denied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host
from toolstile_hookspecs import Status, Tool, ToolCall, ToolResult, tool
from toolstile_plugins.policies import ReadBeforeWritePolicy

PATH = {"type": "string", "format": "path"}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
PLACES: list[tuple[str, dict[str, Any], Any]] = [
    ("a property of a pattern", {"patternProperties": {"^o": PATH}}, {"out": "a.txt"}),
    ("any other property", {"additionalProperties": PATH}, {"out": "a.txt"}),
    ("one that is not evaluated", {"unevaluatedProperties": PATH}, {"out": "a.txt"}),
    ("the names of properties", {"propertyNames": PATH}, {"a.txt": "x"}),
    ("a condition", {"if": {"properties": {"out": PATH}}}, {"out": "a.txt"}),
    ("what another needs", {"dependentSchemas": {"k": {"properties": {"out": PATH}}}}, "out"),
    ("the same in draft 7", {"dependencies": {"k": {"properties": {"out": PATH}}}}, "out"),
    ("a tuple of draft 7", {"items": [{"type": "integer"}, PATH]}, [1, "a.txt"]),
    ("what follows one of draft 7", {"items": [{}], "additionalItems": PATH}, [1, "a.txt"]),
    ("what an array contains", {"contains": PATH}, [1, "a.txt"]),
    ("an anchor", {"$ref": "#out"}, "a.txt"),
    ("a dynamic anchor", {"$dynamicRef": "#within"}, "a.txt"),
]
TEXTS = ['["a.txt"]', ' [ "a.txt" ]', '{"path": "a.txt"}', '["sub/../a.txt"]', "[]"]
NAMES = ["path2", "file_1", "path_", "file_", "PATH1", "targetPath2", "filename_2"]


def outcome(root: Path, tools: list[Tool[Any, Any]], arguments: dict[str, Any]) -> Any:
    (root / "a.txt").write_text("one")
    (root / "7").write_text("seven")
    policy = ReadBeforeWritePolicy(write_tools=frozenset({"save"}), root=root, name="files")
    with Host(discover=False, policies=[policy], tools=tools) as host, host.executor() as executor:
        return executor.dispatch(ToolCall("save", arguments))


def saving(properties: dict[str, Any], **more: Any) -> list[Tool[Any, Any]]:
    definitions = {"out": {"$anchor": "out", **PATH}, "in": {"$dynamicAnchor": "within", **PATH}}
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}, **properties},
        "$defs": definitions,
        **more,
    }
    made: Tool[Any, Any] = Tool(
        name="save",
        description="Save something.",
        params_schema=schema,
        handler=lambda _params, *, context: ToolResult.ok("saved"),
    )
    return [made]


def test_a_path_is_found_by_its_format_in(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for place, schema, value in PLACES:
        with subtests.test(place=place, schema=schema, value=value):
            given = {"k": 1, "out": "a.txt"} if value == "out" else value
            older = DRAFT_7 if "draft 7" in place else {}
            tools = saving({"more": schema}, **older)
            denied = outcome(tmp_path, tools, {"path": "new.txt", "more": given})
            assert denied.status is Status.DENIED
            assert "the file a.txt exists and was not read" in denied.text
            other = json.loads(json.dumps(given).replace("a.txt", "b.txt"))
            right = outcome(tmp_path, tools, {"path": "new.txt", "more": other})
            assert right.status is Status.SUCCEEDED


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_in_which_a_server_may_find_paths_is_not_a_path(tmp_path: Path, text: str) -> None:
    denied = outcome(tmp_path, saving({}), {"path": text})
    assert denied.status is Status.DENIED
    assert "its argument path may hold paths" in denied.text
    assert denied.text.endswith("or leave it out. Correct that, then retry save.")


@pytest.mark.parametrize("path", ["[id].tsx", "[id]", "{a}.txt", "[[...slug]].tsx"])
def test_a_path_with_brackets_is_one(tmp_path: Path, path: str) -> None:
    assert outcome(tmp_path, saving({}), {"path": path}).status is Status.SUCCEEDED


@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_a_number_or_an_underscore_at_its_end_counts(tmp_path: Path, name: str) -> None:
    tools = saving({name: {"type": "string"}})
    assert outcome(tmp_path, tools, {"path": "new.txt", name: "a.txt"}).status is Status.DENIED


def test_a_number_is_a_path_where_a_path_belongs(tmp_path: Path) -> None:
    tools = saving({"target": {}})
    assert outcome(tmp_path, tools, {"path": "new.txt", "target": 7}).status is Status.DENIED
    assert outcome(tmp_path, tools, {"path": "new.txt", "target": True}).success


def test_names_beside_the_declared_ones_are_looked_at(tmp_path: Path) -> None:
    item = {"type": "object", "properties": {"mode": {"type": "string"}}}
    tools = saving({"files": item})
    denied = outcome(tmp_path, tools, {"path": "new.txt", "files": {"mode": "w", "a.txt": "x"}})
    assert denied.status is Status.DENIED


def test_paths_that_are_the_keys_or_values_of_a_typed_mapping_are_found(tmp_path: Path) -> None:
    @tool(name="save")
    def save(path: str, texts: dict[Path, str], places: dict[str, Path]) -> str:
        """Save something."""
        return "saved"

    ways: list[tuple[dict[str, str], dict[str, str]]] = [({"a.txt": "x"}, {}), ({}, {"k": "a.txt"})]
    (tmp_path / "source").write_text("two")
    ways.append(({"source": "x"}, {}))
    for texts, places in ways:
        arguments = {"path": "new.txt", "texts": texts, "places": places}
        denied = outcome(tmp_path, [save], arguments)
        assert "exists and was not read" in denied.text

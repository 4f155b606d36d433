"""The workspace as resources."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitResult, ResourceTemplateReference

from toolstile_plugins.mcp.workspace_read import WorkspaceRead

from .conftest import LEGACY, MODERN, serving

pytestmark = [pytest.mark.anyio, pytest.mark.long_if(transport="stdio", mode="legacy")]

PICTURE = b"\x89PNG\r\n\x1a\n\0"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for name, content in {
        "files/notes/a b.md": b"# Notes",
        "files/picture.png": PICTURE,
        "files/large": b"x" * 2000,
        "outside.txt": b"not for clients",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "files" / "link").symlink_to("../outside.txt")
    (folder / "files" / "up").symlink_to("..")
    (folder / "toolstile.toml").write_text(
        '[plugins.vfs]\nroot = "files"\n[plugins.mcp.serve]\npage_size = 2\nmax_resource = 1000\n'
        '[plugins.sandbox]\nbackend = "none"\noutput = 1024\nwhole_output = 900\n'
    )
    with serving(cwd=folder) as served:
        yield served


@pytest.mark.slow
async def test_files_are_listed_in_pages_and_read(served, mode):
    async with served.client(mode) as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
        listed = [*first.resources, *second.resources]
        read = [await client.read_resource(each.uri) for each in listed[1:]]
    assert second.next_cursor is None
    assert [(each.uri, each.name, each.mime_type, each.size) for each in listed] == [
        ("workspace:///large", "large", None, 2000),
        ("workspace:///notes/a%20b.md", "notes/a b.md", "text/markdown", 7),
        ("workspace:///picture.png", "picture.png", "image/png", len(PICTURE)),
    ]
    notes, picture = (each.contents[0] for each in read)
    assert notes.text == "# Notes"
    assert base64.b64decode(picture.blob) == PICTURE


@pytest.mark.slow
async def test_a_long_output_is_a_link_that_can_be_read(served, mode):
    async with served.client(mode) as client:
        ran = await client.call_tool("shell_execute", {"command": ["seq", "1000"]})
        text, link = ran.content
        read = await client.read_resource(link.uri)
        listed = await client.list_resources()
    assert "the first 900 of 3,893 in .outputs/" in text.text
    assert (link.type, link.name, link.size) == ("resource_link", "stdout", 900)
    assert link.uri.startswith("workspace:///.outputs/")
    assert read.contents[0].text.splitlines()[:3] == ["1", "2", "3"]
    assert len(read.contents[0].text) == 900
    assert [each.uri for each in listed.resources if "outputs" in str(each.uri)] == []


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "code"), [(LEGACY, -32002), (MODERN, INVALID_PARAMS)])
@pytest.mark.parametrize(
    "uri",
    [
        "workspace:///nothing",
        "workspace:///notes",
        "workspace:///../outside.txt",
        "workspace:///%2e%2e/outside.txt",
        "workspace:////etc/passwd",
        "workspace:///a%00b",
        "workspace:///link",
        "workspace:///up/outside.txt",
        "file:/etc/passwd",
    ],
)
async def test_nothing_else_can_be_read(served, mode, code, uri):
    async with served.client(mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    assert caught.value.error.code == code
    assert caught.value.error.data == {"uri": uri}


@pytest.mark.slow
async def test_what_is_too_large_says_so(served, mode):
    async with served.client(mode) as client:
        with pytest.raises(MCPError, match=r"2,000 bytes; at most 1,000"):
            await client.read_resource("workspace:///large")


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """A workspace whose policies deny one file to `read_file`, and ask about all others."""
    folder = tmp_path_factory.mktemp("ruled")
    (folder / "files").mkdir()
    for name in ("secret.txt", "open.txt"):
        (folder / "files" / name).write_bytes(f"what {name} holds".encode())
    (folder / "guards.py").write_text(GUARDS)
    (folder / "toolstile.toml").write_text(
        'plugin_files = ["guards.py"]\n[plugins.vfs]\nroot = "files"\n'
        '[plugins.record]\nfile = "calls.jsonl"\n'
    )
    with serving(cwd=folder) as served:
        yield served, folder / "calls.jsonl"


GUARDS = """
from toolstile_hookspecs import PolicyDecision, hookimpl

@hookimpl
def toolstile_check(tool, params, context):
    if tool.name != "read_file":
        return None
    if params.path == "secret.txt":
        return PolicyDecision.deny("Never that one.")
    return PolicyDecision.ask("All others a person decides on.")
"""


async def _accept(context, params):
    return ElicitResult(action="accept", content={})


@pytest.mark.long
async def test_what_read_file_is_denied_no_resource_gives(ruled, mode):
    served, _ = ruled
    async with served.client(mode, elicitation_callback=_accept) as client:
        denied = await client.call_tool("read_file", {"path": "secret.txt"})
        with pytest.raises(MCPError, match="Never that one") as caught:
            await client.read_resource("workspace:///secret.txt")
    assert denied.content[0].text == caught.value.error.message
    assert caught.value.error.data == {"uri": "workspace:///secret.txt"}


async def test_a_person_is_asked_about_a_resource_as_about_a_call(ruled, mode):
    served, _ = ruled
    asked = []

    async def accept(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={})

    async with served.client(mode, elicitation_callback=accept) as client:
        read = await client.read_resource("workspace:///open.txt")
    assert read.contents[0].text == "what open.txt holds"
    (question,) = asked
    assert '"path": "open.txt"' in question
    async with served.client(mode) as client:
        with pytest.raises(MCPError, match="cannot ask a person"):
            await client.read_resource("workspace:///open.txt")


@pytest.mark.slow
async def test_a_resource_that_is_read_stands_in_the_record(ruled, mode):
    served, record = ruled
    async with served.client(mode, elicitation_callback=_accept) as client:
        before = record.read_text().count("\n") if record.exists() else 0
        await client.read_resource("workspace:///open.txt")
        with pytest.raises(MCPError):
            await client.read_resource("workspace:///secret.txt")
    lines = [json.loads(line) for line in record.read_text().splitlines()[before:]]
    calls = [line for line in lines if line["kind"] == "call"]
    assert {call["envelope"]["tool"] for call in calls} == {"read_file"}
    assert [(call["arguments"], call["status"]) for call in calls][-2:] == [
        ({"path": "open.txt"}, "succeeded"),
        ({"path": "secret.txt"}, "denied"),
    ]


@pytest.mark.slow
async def test_paths_are_completed(served, mode):
    async with served.client(mode) as client:
        (template,) = (await client.list_resource_templates()).resource_templates
        completed = await client.complete(
            ResourceTemplateReference(type="ref/resource", uri=template.uri_template),
            {"name": "path", "value": "no"},
        )
    assert completed.completion.values == ["notes/a b.md"]


async def test_nothing_is_completed_that_is_no_part_of_the_template(served, mode):
    async with served.client(mode) as client:
        known = ResourceTemplateReference(type="ref/resource", uri="workspace:///{+path}")
        other = await client.complete(known, {"name": "colour", "value": ""})
        assert other.completion.values == []
        with pytest.raises(MCPError, match="The template 'other:///"):
            await client.complete(
                ResourceTemplateReference(type="ref/resource", uri="other:///{name}"),
                {"name": "path", "value": ""},
            )


async def test_a_cursor_from_elsewhere_is_refused(served, mode):
    async with served.client(mode) as client:
        with pytest.raises(MCPError, match="List from the start"):
            await client.list_resources(cursor="bm90aGluZw==")
        with pytest.raises(MCPError, match="List from the start"):
            await client.list_tools(cursor="\x00")


def test_a_read_that_runs_again_forgets_what_it_found_before(tmp_path):
    files = SimpleNamespace(
        stat=lambda path: SimpleNamespace(kind="file", size=(tmp_path / path).stat().st_size),
        read_bytes=lambda path: (tmp_path / path).read_bytes(),
    )
    context = SimpleNamespace(resources=SimpleNamespace(get=lambda *_: files))
    read = WorkspaceRead("call", 100)
    assert not read.handler({"path": "a"}, context=context).success
    (tmp_path / "a").write_bytes(b"there")
    assert read.handler({"path": "a"}, context=context).success
    assert (read.content, read.is_missing) == (b"there", False)
    (tmp_path / "a").unlink()
    assert not read.handler({"path": "a"}, context=context).success
    assert (read.content, read.is_missing) == (None, True)

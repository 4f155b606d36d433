"""The shop of the comparison: one counter, by Toolstile and by pydantic-ai."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("pydantic_ai")

from fastapi.testclient import TestClient
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from tests.docs.code_lines import lines_of

from toolstile.testing import ScriptedModel

pytestmark = pytest.mark.docs

SHOPS = Path(__file__).parents[2] / "docs" / "examples" / "shop"
MOST = 75
SCRIPT: list[list[tuple[str, dict[str, Any]]] | str] = [
    [("stock", {"product": "kettle"}), ("stock", {"product": "mug"})],
    [("reserve", {"product": "kettle", "number": 2})],
    [("pay", {"customer": "Ada", "euros": 90})],
    "Ada has two kettles.",
]


def scripted(shop: str) -> Any:
    if shop == "toolstile_shop":
        return ScriptedModel(*SCRIPT)
    replies = iter(SCRIPT)

    def reply(*_: Any) -> ModelResponse:
        answer = next(replies)
        if isinstance(answer, str):
            return ModelResponse([TextPart(answer)])
        return ModelResponse([ToolCallPart(name, json.dumps(given)) for name, given in answer])

    return FunctionModel(reply)


class Shop:
    def __init__(self, name: str, folder: Path) -> None:
        spec = importlib.util.spec_from_file_location(name, SHOPS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.folder = folder
        self.spans = InMemorySpanExporter()
        traces = TracerProvider()
        traces.add_span_processor(SimpleSpanProcessor(self.spans))
        self.app = module.create_app(folder, scripted(name), traces)

    def rows(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.folder / "shop.db")) as database:
            return database.execute(sql).fetchall()


@pytest.fixture(params=["toolstile_shop", "pydantic_ai_shop"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    # A process has its provider once; each of these applications stands for a process.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    return Shop(request.param, tmp_path)


@pytest.fixture
def client(shop: Shop) -> Iterator[TestClient]:
    with TestClient(shop.app) as client:
        with closing(sqlite3.connect(shop.folder / "shop.db")) as database, database:
            database.execute("INSERT INTO stock VALUES ('kettle', 5), ('mug', 9)")
        yield client


def test_a_person_approves_by_a_second_request_and_pays_once(
    shop: Shop, client: TestClient
) -> None:
    asked = client.post("/orders/s1", params={"text": "Two kettles for Ada"}).json()
    assert len(asked["asks"]) == 1
    assert shop.rows("SELECT * FROM payment") == []
    assert shop.rows("SELECT number FROM stock WHERE product = 'kettle'") == [(3,)]

    told = client.post("/answers/s1", params={"approve": True}).json()

    assert told == {"text": "Ada has two kettles."}
    assert shop.rows("SELECT * FROM payment") == [("Ada", 90)]
    names = [span.name for span in shop.spans.get_finished_spans()]
    assert any("pay" in name for name in names), names


def test_an_answer_that_comes_twice_pays_once(shop: Shop, client: TestClient) -> None:
    client.post("/orders/s1", params={"text": "Two kettles for Ada"})
    client.post("/answers/s1", params={"approve": True})
    with suppress(StopIteration, RuntimeError):  # of the script, which has no more to say
        client.post("/answers/s1", params={"approve": True})
    assert shop.rows("SELECT * FROM payment") == [("Ada", 90)]


def test_toolstiles_shop_has_no_more_lines_than_it_may() -> None:
    mine, theirs = (lines_of(SHOPS / f"{name}_shop.py") for name in ("toolstile", "pydantic_ai"))
    assert mine <= MOST
    assert mine <= theirs


def test_the_page_tells_the_lines_that_there_are() -> None:
    page = (SHOPS.parents[1] / "compare.md").read_text(encoding="utf-8")
    for name in ("toolstile", "pydantic_ai"):
        path = SHOPS / f"{name}_shop.py"
        assert f"[{lines_of(path)} lines](examples/shop/{path.name})" in page

"""The web service of the documentation, over both frameworks, by two processes each."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("starlette")

from .desk_server import KEY, SHOP, Clerk, Desk, served

pytestmark = [pytest.mark.docs, pytest.mark.slow]
BOB = {"x-person": "bob"}
TWO = {"id": "r-1", "text": "2 kettle"}
PAID = "Paid 2 x kettle, 90 euros."


@pytest.fixture(scope="module", params=["starlette", "fastapi"])
def url(request, tmp_path_factory):
    with served(tmp_path_factory.mktemp(request.param), request.param) as url:
        yield url


@pytest.fixture
def http(url):
    # Each request on a connection of its own reaches either worker.
    limits = httpx2.Limits(max_keepalive_connections=0)
    with httpx2.Client(base_url=url, limits=limits, timeout=60) as http:
        yield http


def test_a_request_waits_for_a_person_and_is_answered_by_another_request(http):
    waits = http.post("/users/ada/requests", json=TWO).json()
    (asked,) = waits["asks"]
    assert asked["arguments"] == {"number": 2, "product": "kettle"}
    assert asked in http.get("/questions").json()

    told = http.post(f"/questions/{asked['ticket']}", json={"approve": True}, headers=BOB)
    assert told.json() == {"text": PAID}
    said = http.get("/users/ada/conversation").json()
    assert said == [["user", "2 kettle"], ["assistant", PAID]]
    # Whoever comes second is told who was first; what comes again is answered again.
    late = http.post(f"/questions/{asked['ticket']}", json={"approve": False}, headers=BOB)
    assert late.status_code == 409
    assert "question" in late.json()["error"] or "first" in late.json()["error"]
    assert http.post("/users/ada/requests", json=TWO).json() == {"text": PAID}
    unknown = http.post("/questions/q-none", json={"approve": True}, headers=BOB)
    assert (unknown.status_code, "q-none" in unknown.json()["error"]) == (404, True)


def test_a_denial_reaches_the_customer(http):
    (asked,) = http.post("/users/eve/requests", json=TWO).json()["asks"]
    told = http.post(f"/questions/{asked['ticket']}", json={"approve": False}, headers=BOB).json()
    assert "did not approve pay" in told["text"]


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/questions/q-1", {"json": {"approve": True}}),
        ("/questions/q-1", {"json": {}, "headers": BOB}),
        ("/users/ada/requests", {"json": {"id": "r-9"}}),
        ("/users/ada/requests", {"json": ["r-9"]}),
        ("/users/ada/requests", {"content": "{"}),
    ],
)
def test_a_request_that_lacks_something_is_told_so(http, path, more):
    assert http.post(path, **more).status_code == 422


def test_a_run_that_waits_goes_on_waiting_until_it_is_answered(http):
    waits = http.post("/users/mia/requests", json=TWO).json()
    assert [http.post("/users/mia/requests", json=TWO).json() for _ in range(4)] == [waits] * 4
    mug = {"id": "r-2", "text": "1 mug"}
    for other in [http.post("/users/mia/requests", json=mug).json() for _ in range(2)]:
        assert "answered after the question" in other["note"]
        assert other["asks"] == waits["asks"]
    path = f"/questions/{waits['asks'][0]['ticket']}"
    (asked,) = http.post(path, json={"approve": True}, headers=BOB).json()["asks"]
    assert asked["arguments"] == {"number": 1, "product": "mug"}
    assert http.post("/users/mia/requests", json=mug).json()["asks"] == [asked]
    told = http.post(f"/questions/{asked['ticket']}", json={"approve": True}, headers=BOB).json()
    assert told["text"] == "Paid 1 x mug, 12 euros."
    assert http.post("/users/mia/requests", json=mug).json() == told
    said = http.get("/users/mia/conversation").json()
    assert [text for role, text in said if role == "user"] == ["2 kettle", "1 mug"]


def test_one_request_of_many_connections_at_once_asks_one_question(http, url):
    """Each worker gets several of them, as from a client that does not wait."""

    def ask(_):
        with httpx2.Client(base_url=url, timeout=60) as own:
            return own.post("/users/ivy/requests", json=TWO)

    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(ask, range(8)))
    assert {reply.status_code for reply in replies} <= {200, 503}
    asks = [reply.json()["asks"] for reply in replies if reply.status_code == 200]
    (asked,) = http.post("/users/ivy/requests", json=TWO).json()["asks"]
    assert asks == [[asked]] * len(asks)
    assert [each for each in http.get("/questions").json() if each["ticket"] == asked["ticket"]]
    http.post(f"/questions/{asked['ticket']}", json={"approve": True}, headers=BOB)
    with ThreadPoolExecutor(8) as pool:
        replies = [reply.json() for reply in pool.map(ask, range(8))]
    assert {"text": PAID} in replies
    said = http.get("/users/ivy/conversation").json()
    assert said == [["user", "2 kettle"], ["assistant", PAID]]


def events_of(http, user, asked):
    headers = {"accept": "text/event-stream"}
    with http.stream("POST", f"/users/{user}/requests", json=asked, headers=headers) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        blocks = reply.read().decode().strip().split("\n\n")
    lines = [block.split("\n") for block in blocks]
    return [(name.removeprefix("event: "), json.loads(data[6:])) for name, data in lines]


def test_a_run_is_streamed_until_it_waits_and_after_it(http):
    call, waits, (end, told) = events_of(http, "tom", TWO)
    assert (call, waits) == (("call", "pay"), ("result", ["pay", "pending"]))
    assert end == "end"
    http.post(f"/questions/{told['asks'][0]['ticket']}", json={"approve": True}, headers=BOB)
    assert events_of(http, "tom", TWO)[-1] == ("end", {"text": PAID})


def test_a_client_that_leaves_a_stream_cancels_the_run_and_may_ask_again(http):
    headers = {"accept": "text/event-stream"}
    with http.stream("POST", "/users/kim/requests", json=TWO, headers=headers) as reply:
        next(reply.iter_raw())
    # Which is first: that the client has left, or that the run waits.
    told = http.post("/users/kim/requests", json=TWO).json()
    if "asks" not in told:
        said = told.get("text") or told["error"]
        assert any(each in said for each in ("cancelled", "interrupted", "under way"))
    assert http.get("/users/kim/conversation").json()[0] == ["user", "2 kettle"]


class Thinking(Clerk):
    """A model that answers once it may."""

    def __init__(self):
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def asend(self, request, listen=None):
        self.asked.set()
        await self.may_answer.wait()
        return self.send(request, listen)


def test_a_stream_beside_another_run_of_its_user_ends_with_the_reason(tmp_path):
    async def both():
        model = Thinking()
        desk = Desk(tmp_path, model, KEY)
        async with desk.host:
            first = asyncio.ensure_future(desk.ask("ada", "r-1", "2 kettle"))
            await model.asked.wait()
            told = [event async for event in desk.stream("ada", "r-2", "1 mug")]
            model.may_answer.set()
            await first
        return told

    (end,) = asyncio.run(both())
    assert end.startswith("event: end\n")
    assert "has a run under way" in end


def test_the_page_tells_the_files_that_there_are():
    page = (SHOP / "README.md").read_text(encoding="utf-8")
    for file in SHOP.glob("*.py"):
        assert f"]({file.name})" in page

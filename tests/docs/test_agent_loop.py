"""The loops of the guide, as they stand there, with the real clients and a model on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from executing.fences import fences
from tests.agents.model import ScriptedModel, Turn, played, scripted
from tests.node import Npm

from toolstile import Executor, ToolInvoked
from toolstile_cli.examples.orders import Desk, Order

# Only the documentation's environment has them, and takes the time to import them.
anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

pytestmark = [
    pytest.mark.docs,
    # A model that the guide names may have got old; the loop is the same with the next.
    pytest.mark.filterwarnings("ignore:The model '.*' is deprecated:DeprecationWarning"),
]

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "agent-loop.md"

ENDLESS = "Look until there is an order."
QUESTION = "Ship ten kettles to Grace, Main Street 1."
ANSWER = "Ten kettles are on their way to Grace."
KETTLES = {"customer": "Grace", "product": "kettle", "quantity": 10}
ADDRESS = {"number": 1, "address": "Main Street 1"}

#: What the model says, first to last; where two fit, the one that stands above the other.
TURNS = [
    Turn(QUESTION, "place_order", KETTLES, beside={"list_orders": {}}, first=True),
    Turn("Call check_credit first", "check_credit", {"customer": "Grace"}),
    Turn("Grace is good for orders of any size", "place_order", KETTLES),
    Turn("The carrier sent #1 back", "change_address", ADDRESS, beside={"list_orders": {}}),
    Turn("To be sent to Main Street 1", "ship_order", {"number": 1}),
    Turn("#1 Grace: 10 x kettle, open", "ship_order", {"number": 1}),
    Turn("#1 Grace: 10 x kettle, shipped", say=ANSWER),
    Turn(ENDLESS, "list_orders", {}, first=True),
    Turn("There are no orders", "list_orders", {}),
]

#: What became of each call.
CALLS = [
    ("list_orders", "succeeded"),
    ("place_order", "denied"),
    ("check_credit", "succeeded"),
    ("place_order", "succeeded"),
    ("ship_order", "failed"),
    ("list_orders", "succeeded"),
    ("change_address", "succeeded"),
    ("ship_order", "succeeded"),
]

DENIED = (
    "580 euros is a large order, and the credit of Grace was not checked. "
    "Call check_credit first, then retry."
)

#: What the model was told of them.
TOLD = [
    "There are no orders.",
    DENIED,
    "Grace is good for orders of any size.",
    "#1 Grace: 10 x kettle, open",
    "The carrier sent #1 back: it has no address. Use change_address, then retry.",
    # The order was marked as shipped when the carrier sent it back, and that is gone.
    "#1 Grace: 10 x kettle, open",
    "To be sent to Main Street 1.\n#1 Grace: 10 x kettle, open",
    "#1 Grace: 10 x kettle, shipped",
]


@pytest.fixture(scope="module")
def guide() -> SimpleNamespace:
    """The names that the guide's blocks define, one after the other."""
    names: dict[str, object] = {}
    for block in fences(GUIDE.read_text("utf-8")):
        if block.language == "python":
            exec(compile(block.text, str(GUIDE), "exec"), names)
    return SimpleNamespace(**names)


@pytest.fixture(scope="module")
def model(npm: Npm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedModel]:
    with scripted(npm, tmp_path_factory.mktemp("model"), "", TURNS) as model:
        yield model


@pytest.fixture(autouse=True)
def keys(model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that a reader has, for whom the clients are made without arguments."""
    lead_to(model, monkeypatch)


def lead_to(model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)


def statuses(tools: Executor) -> list[tuple[str, str]]:
    return sorted((event.tool_name, event.status) for event in tools.session[ToolInvoked].all())


def check(model: ScriptedModel, tools: Executor, answer: str) -> None:
    """Check that the conversation took its course, in the process and on the wire."""
    assert answer == ANSWER
    assert statuses(tools) == sorted(CALLS)
    order = Order(1, "Grace", "kettle", 10, "Main Street 1", "shipped")
    assert tools.session[Desk].latest() == Desk((order,), frozenset({"Grace"}))
    last = model.requests()[-1]
    assert last["messages"][0]["role"] == "system"
    assert "Check a customer's credit" in last["messages"][0]["content"]
    assert [each["content"] for each in last["messages"] if each["role"] == "tool"] == TOLD
    assert {each["function"]["name"] for each in last["tools"]} == {name for name, _ in CALLS}


@pytest.mark.parametrize(
    ("loop", "client"),
    [("chat", openai.OpenAI), ("respond", openai.OpenAI), ("message", anthropic.Anthropic)],
)
def test_sync(
    loop: str,
    client: Callable[[], openai.OpenAI | anthropic.Anthropic],
    guide: SimpleNamespace,
    model: ScriptedModel,
) -> None:
    with client() as opened, guide.open_host() as host, host.executor() as tools:
        answer = getattr(guide, loop)(opened, host, tools, QUESTION)
        check(model, tools, answer)


@pytest.mark.parametrize(
    ("loop", "client"),
    [
        ("chat_async", openai.AsyncOpenAI),
        ("respond_async", openai.AsyncOpenAI),
        ("message_async", anthropic.AsyncAnthropic),
    ],
)
def test_async(
    loop: str,
    client: Callable[[], openai.AsyncOpenAI | anthropic.AsyncAnthropic],
    guide: SimpleNamespace,
    model: ScriptedModel,
) -> None:
    async def converse() -> None:
        async with client() as opened, guide.open_host() as host:
            with host.executor() as tools:
                answer = await getattr(guide, loop)(opened, host, tools, QUESTION)
                check(model, tools, answer)

    asyncio.run(converse())


def test_what_is_streamed_can_be_read_along(
    guide: SimpleNamespace, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    async def converse() -> None:
        async with anthropic.AsyncAnthropic() as client, guide.open_host() as host:
            with host.executor() as tools:
                await guide.message_async(client, host, tools, QUESTION)

    asyncio.run(converse())

    assert capsys.readouterr().out == ANSWER


def test_the_whole_program_prints_the_answer(
    guide: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    guide.main()

    assert capsys.readouterr().out == f"{ANSWER}\n"


def test_the_script_of_the_guide_plays_the_model(
    guide: SimpleNamespace,
    npm: Npm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = tmp_path / "script.json"
    page = GUIDE.read_text("utf-8")
    (text,) = (block.text for block in fences(page) if block.language == "json")
    script.write_text(text, "utf-8")

    with played(npm, script) as model:
        lead_to(model, monkeypatch)
        asyncio.run(guide.main_async())

    assert capsys.readouterr().out == "Grace has ordered nothing yet.\n"


def test_a_model_that_never_answers_ends_the_loop(guide: SimpleNamespace) -> None:
    with openai.OpenAI() as client, guide.open_host() as host, host.executor() as tools:
        with pytest.raises(RuntimeError, match=f"No answer in {guide.TURNS} turns"):
            guide.chat(client, host, tools, ENDLESS)
        assert statuses(tools) == [("list_orders", "succeeded")] * guide.TURNS

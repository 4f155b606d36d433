"""The ledger as the specification has it: lookup, record, invalidate, prune; strategies; expiry."""

from __future__ import annotations

import dataclasses
import math
from contextlib import ExitStack
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SecretStr,
    field_serializer,
)

from toolstile_hookspecs import (
    IdempotencyConfig,
    LedgerError,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_hookspecs.services.ledger import Claim, LedgerStore, RecordedResult
from toolstile_plugins.leases import now_of
from toolstile_plugins.ledger import EffectLedger, MemoryStore, ToolEffect
from toolstile_plugins.ledger.api import decision_key
from toolstile_plugins.ledger.keys import encoder, keys_of, printable
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

from .conftest import HeldClock

KEY = "session:create_order:abc123"
HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def ledger(store: LedgerStore, clock: HeldClock) -> EffectLedger:
    return EffectLedger(store, clock=clock)


def record(ledger: EffectLedger, key: str = KEY, tool_name: str = "create_order", **options: Any):
    given = {"params": {"item": "tea"}, "result": ToolResult.ok({"number": 7}, "Ordered.")}
    return ledger.record(idempotency_key=key, tool_name=tool_name, **{**given, **options})


def test_an_effect_whose_key_was_taken_meanwhile_is_not_recorded(clock, monkeypatch):
    store = MemoryStore()
    finish = store.finish

    def late(key: str, effect_id: str, *rest: Any) -> bool:
        store.release(key, effect_id)
        return finish(key, effect_id, *rest)

    monkeypatch.setattr(store, "finish", late)
    with pytest.raises(LedgerError, match=f"The key {KEY} was released or taken by another"):
        record(EffectLedger(store, clock=clock))


class TestDecisions:
    """The answer about a call whose journals ask after a crash."""

    def test_only_what_is_done_was_committed(self, ledger, clock):
        claim = Claim("k", "order", "hash", f"{7:032x}", "s", "c", clock.now())
        asked = decision_key(claim)
        assert ledger.decided(asked) is None
        ledger.store.claim(claim, now=clock.now())
        assert ledger.decided(asked) is None
        ledger.store.mark_unknown("k", claim.effect_id, "killed")
        assert ledger.decided(asked) is False
        ledger.store.finish("k", claim.effect_id, RecordedResult("Ordered."), None)
        assert ledger.decided(asked) is True

    def test_another_effect_of_the_key_is_another_one(self, ledger, clock):
        claim = Claim("k", "order", "hash", f"{7:032x}", "s", "c", clock.now())
        assert record(ledger, key="k") is not None
        assert ledger.decided(decision_key(claim)) is False

    def test_what_others_decide_is_not_told(self, ledger):
        effect = record(ledger)
        assert ledger.decided(f"others:{effect.effect_id.hex}:{KEY}") is None
        assert ledger.decided(f"ledger:{effect.effect_id.hex}:{KEY}") is True


class TestOperations:
    def test_what_is_not_recorded_is_not_found(self, ledger):
        assert ledger.lookup(KEY) is None

    @pytest.mark.parametrize("value", [math.inf, {"a": [math.nan]}, {"a": object()}])
    def test_a_value_that_json_cannot_say_is_refused_and_keeps_no_claim(self, ledger, value):
        with pytest.raises(LedgerError, match=r"cannot be recorded: it holds"):
            record(ledger, result=ToolResult.ok(value))
        assert record(ledger) is not None

    @pytest.mark.parametrize("params", [{"a": math.nan}, {"a": object()}, {object(): 1}])
    def test_params_that_json_cannot_say_are_refused_and_keep_no_claim(self, ledger, params):
        with pytest.raises(LedgerError, match=r"the params cannot be recorded: it holds"):
            record(ledger, params=params)
        assert record(ledger) is not None

    def test_what_is_recorded_is_found_in_full(self, ledger, clock):
        effect = record(ledger, ttl=HOUR)
        assert ledger.lookup(KEY) == effect
        assert effect == ToolEffect(
            idempotency_key=KEY,
            tool_name="create_order",
            params_hash=effect.params_hash,
            result_message="Ordered.",
            result_value={"number": 7},
            result_success=True,
            created_at=clock.time,
            expires_at=now_of(ledger.store, clock) + HOUR,
            effect_id=effect.effect_id,
        )
        assert isinstance(effect.effect_id, UUID)
        assert [each.name for each in dataclasses.fields(effect)] == [
            "idempotency_key",
            "tool_name",
            "params_hash",
            "result_message",
            "result_value",
            "result_success",
            "created_at",
            "expires_at",
            "effect_id",
        ]

    @pytest.mark.slow
    @pytest.mark.parametrize("value", [None, [1, "a"], {"a": None}, "text", 7, 1.5, True])
    def test_any_json_value_is_kept(self, ledger, value):
        record(ledger, result=ToolResult.ok(value))
        assert ledger.lookup(KEY).result_value == value

    def test_equal_params_have_one_hash_whatever_their_order(self, ledger):
        one = record(ledger, params={"a": 1, "b": {"c": 2, "d": 3}})
        other = record(ledger, params={"b": {"d": 3, "c": 2}, "a": 1})
        assert one.params_hash == other.params_hash
        assert one.params_hash != record(ledger, params={"a": 2}).params_hash

    def test_secrets_of_the_value_are_masked_also_in_the_message(self, ledger):
        value = {"token": SecretStr("battery")}
        effect = record(ledger, result=ToolResult.ok(value, "It is battery."))
        assert (effect.result_value, effect.result_message) == ({"token": "*" * 10}, "It is ***.")
        assert not ledger.store.get(KEY).result.secret

    @pytest.mark.parametrize(
        "result",
        [ToolResult.ok({"with": "battery"}), ToolResult.ok(7, "In with battery.")],
        ids=["value", "message"],
    )
    def test_what_tells_a_secret_of_the_params_is_shown_to_nobody(self, ledger, result):
        effect = record(ledger, params={"password": SecretStr("battery")}, result=result)
        assert ledger.lookup(KEY) == effect
        assert ledger.store.get(KEY).result.secret

    def test_failures_are_not_recorded(self, ledger):
        assert record(ledger, result=ToolResult.error("No.")) is None
        assert ledger.lookup(KEY) is None

    def test_the_newest_record_of_a_key_counts(self, ledger):
        record(ledger)
        newer = record(ledger, result=ToolResult.ok(8))
        assert ledger.lookup(KEY) == newer

    def test_nothing_is_recorded_over_a_running_call(self, ledger, clock):
        claim = Claim(KEY, "create_order", "hash", "0" * 32, "s", "c", clock.time)
        ledger.store.claim(claim, now=clock.time)
        with pytest.raises(LedgerError, match="under way"):
            record(ledger)
        assert ledger.lookup(KEY) is None
        assert not ledger.invalidate(KEY)

    def test_one_entry_all_of_a_tool_or_everything_is_removed(self, ledger):
        for key, name in (("a", "order"), ("b", "order"), ("c", "pay"), ("d", "send")):
            record(ledger, key, name)
        assert ledger.invalidate("d")
        assert not ledger.invalidate("d")
        assert ledger.invalidate_by_tool("order") == 2
        assert ledger.lookup("a") is None
        assert ledger.lookup("c") is not None
        assert ledger.clear() == 1
        assert ledger.lookup("c") is None


class TestExpiry:
    def test_it_is_a_day_unless_said_otherwise(self, ledger, clock):
        assert record(ledger).expires_at == now_of(ledger.store, clock) + timedelta(hours=24)

    def test_without_it_an_entry_stays(self, ledger, clock):
        assert record(ledger, ttl=None).expires_at is None
        clock.move(days=100_000)
        assert ledger.lookup(KEY) is not None

    def test_with_one_beyond_all_dates_an_entry_stays(self, ledger):
        assert record(ledger, ttl=timedelta.max).expires_at is None
        assert ledger.lookup(KEY) is not None

    @pytest.mark.slow
    def test_what_has_expired_is_removed_when_it_is_looked_up(self, ledger, clock):
        record(ledger, ttl=HOUR)
        clock.move(hours=1)
        assert ledger.lookup(KEY) is None
        assert ledger.store.get(KEY) is None

    def test_or_all_at_once(self, ledger, clock):
        for key, ttl in (("a", HOUR), ("b", 2 * HOUR), ("c", 3 * HOUR), ("d", None)):
            record(ledger, key, ttl=ttl)
        clock.move(hours=2)
        assert ledger.prune_expired() == 2
        assert sorted(each.claim.key for each in ledger.store.entries()) == ["c", "d"]


def a_tool(function: Any, **config: Any) -> Tool[Any, Any]:
    return tool(idempotency=IdempotencyConfig(**config))(function)


def key(made: Tool[Any, Any], context: ToolContext, arguments: str) -> str:
    call = context.tool_call
    call_id = "e" * 32 if call is None else printable(call.id)
    return keys_of(made, made.parse(arguments), context, call_id)[0]


class Told(BaseModel):
    secret: SecretStr
    labels: frozenset[str] = frozenset()
    extra: dict[str, Any] = {}


class Marked(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    marks: frozenset[int] = Field(alias="m")
    raw: bytes = b""


class Counted(BaseModel):
    counts: dict[str, int]


class Masked(BaseModel):
    number: str

    @field_serializer("number")
    def masked(self, number: str) -> str:
        return "*" * len(number)


class Omitting(BaseModel):
    number: str = Field("", exclude_if=lambda number: number.startswith("4"))


class Unreadable(BaseModel):
    number: Annotated[str, PlainSerializer(len)]


class Written(BaseModel):
    number: Annotated[Fraction, PlainValidator(Fraction), PlainSerializer(str)]


ONE, OTHER = '{"c": 1, "d": 2}', '{"d": 2, "c": 1}'


ODD_TEXTS = st.text("a/:\\-\n\ud83d\ude00😀", min_size=1, max_size=3)
TEXTS = ODD_TEXTS | ODD_TEXTS.map(lambda text: text * 200)
PLACES = st.tuples(
    st.sampled_from(["session", "global", "call"]) | TEXTS.filter(str.strip),
    TEXTS,
    TEXTS,
    st.sampled_from(["take", "give"]),
)
"""A scope, a session, a call and a tool."""


def key_in(scope: str, session: str, call: str, name: str) -> str:
    from toolstile import Session

    def take() -> None:
        """Take something."""

    made = tool(name=name, idempotency=IdempotencyConfig(scope=scope))(take)
    return key(
        made, ToolContext(session=Session(id=session), tool_call=ToolCall(name, id=call)), "{}"
    )


def meant_by(scope: str, session: str, call: str, name: str) -> tuple[str, ...]:
    within = {"session": (session,), "call": (session, call)}
    return (name, scope, *within.get(scope, ()))


class TestKeys:
    @pytest.fixture
    def context(self) -> ToolContext:
        from toolstile import Session

        return ToolContext(session=Session(id="s1"))

    def test_equal_params_have_one_key_however_they_are_written(self, context):
        def take(a: int, extra: dict[str, Any], b: str = "x") -> None:
            """Take something."""

        made = a_tool(take)
        one = key(made, context, '{"a": 1, "extra": {"c": 1, "d": [{"e": 1, "f": 2}]}}')
        other = key(made, context, '{"b": "x", "extra": {"d": [{"f": 2, "e": 1}], "c": 1}, "a": 1}')
        assert one == other
        assert one.startswith("session/s1:take:")
        assert len(one.rpartition(":")[2]) == 64

    @pytest.mark.parametrize(
        ("annotation", "one", "other"),
        [
            (dict[str, int], ONE, OTHER),
            (Any, ONE, OTHER),
            ("dict[str, int] | None", ONE, OTHER),
            # JSON does not tell these apart, nor does every provider write a number as it came.
            (Any, '{"c": 1}', '{"c": 1.0}'),
            (tuple[Any, set[int]], "[1, [0, 8]]", "[1.0, [8, 0]]"),
            (list[dict[str, int]], f"[{ONE}]", f"[{OTHER}]"),
            (tuple[dict[str, int], int], f"[{ONE}, 1]", f"[{OTHER}, 1]"),
            (Counted, f'{{"counts": {ONE}}}', f'{{"counts": {OTHER}}}'),
            # Python tells of these in the order in which they were put in.
            (set[int], "[0, 8]", "[8, 0]"),
            ("set[int] | None", "[0, 8]", "[8, 0]"),
            (frozenset[frozenset[int]], "[[0, 8]]", "[[8, 0]]"),
            (tuple[set[int], ZoneInfo], '[[0, 8], "UTC"]', '[[8, 0], "UTC"]'),
            (Marked, '{"m": [0, 8], "raw": "/w=="}', '{"m": [8, 0], "raw": "/w=="}'),
        ],
        ids=str,
    )
    def test_what_has_no_order_is_written_in_one(self, annotation, one, other):
        def take(a: int) -> None:
            """Take something."""

        take.__annotations__["a"] = annotation
        made = a_tool(take)
        first, second = (encoder(made)(made.parse(f'{{"a": {each}}}')) for each in (one, other))
        assert first == second

    def test_chosen_params_are_found_by_the_names_they_are_given_by(self, context):
        made = Tool[Marked, None](
            name="take",
            description="Take something.",
            handler=lambda params, context: ToolResult.ok(None),
            idempotency=IdempotencyConfig(strategy="params", param_keys=("m",)),
        )
        assert key(made, context, '{"m": [1]}') != key(made, context, '{"m": [2]}')

    @pytest.mark.parametrize("more", [{}, {"c": {"type": "array", "uniqueItems": True}}])
    def test_params_of_a_json_schema_have_one_key_in_any_order(self, context, more):
        fields = {"a": {"type": "integer"}, "b": {"type": "integer"}, **more}
        made = Tool[dict[str, Any], None](
            name="take",
            description="Take something.",
            handler=lambda params, context: ToolResult.ok(None),
            params_schema={"type": "object", "properties": fields, "additionalProperties": False},
            idempotency=IdempotencyConfig(),
        )
        assert key(made, context, '{"a": 1, "b": 2}') == key(made, context, '{"b": 2, "a": 1}')

    def test_a_chosen_param_that_is_not_given_counts_as_none(self, context):
        made = Tool[dict[str, Any], None](
            name="take",
            description="Take something.",
            handler=lambda params, context: ToolResult.ok(None),
            params_schema={"type": "object", "properties": {"a": {}, "b": {}}},
            idempotency=IdempotencyConfig(strategy="params", param_keys=("a",)),
        )
        assert key(made, context, '{"b": 1}') == key(made, context, '{"a": null}')
        assert key(made, context, '{"b": 1}') != key(made, context, '{"a": 1}')

    def test_any_string_can_be_chosen_as_the_key(self, context):
        def take(a: int) -> None:
            """Take something."""

        made = a_tool(take, strategy="custom", key_fn=lambda params: chr(0xD800 + params.a))
        assert key(made, context, '{"a": 0}') != key(made, context, '{"a": 1}')

    @pytest.mark.slow
    def test_sets_have_one_order_in_every_process(self, context):
        import subprocess
        import sys

        code = (
            "from toolstile_hookspecs import tool, IdempotencyConfig\n"
            "from toolstile_plugins.ledger.keys import encoder\n"
            "@tool(idempotency=IdempotencyConfig())\n"
            "def take(labels: frozenset[str]) -> None:\n"
            "    'Take some.'\n"
            "params = take.parse({'labels': ['b', 'a', 'd', 'c', 'e']})\n"
            "print(encoder(take)(params).decode())\n"
        )
        told = {
            subprocess.run(
                [sys.executable, "-c", code],
                env={"PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("1", "2", "3")
        }
        assert told == {'{"labels":["a","b","c","d","e"]}\n'}

    def test_secrets_count_and_are_not_stored(self, context, tmp_path):
        def send(told: Told) -> None:
            """Send a secret."""

        made = a_tool(send)
        keys = {
            key(made, context, f'{{"told": {{"secret": "{secret}", "labels": ["x"]}}}}')
            for secret in ("hunter2", "hunter3")
        }
        assert len(keys) == 2
        assert not any("hunter" in each for each in keys)

    def test_odd_scopes_and_ids_do_not_meet(self):
        from toolstile import Session

        def take() -> None:
            """Take something."""

        made = a_tool(take)
        ids = ["a", "a\0", "a\\u0000", "ü", "\ud800", "a\n", "a\t", "a/b", "a:b"]
        keys = {key(made, ToolContext(session=Session(id=each)), "{}") for each in ids}
        assert len(keys) == len(ids)
        assert all(each.isprintable() for each in keys)

    @pytest.mark.slow
    @example(("call", "a/b", "c", "take"), ("call", "a", "b/c", "take"))
    @example(("session", "\ud83d\ude00\n", "", "take"), ("session", "😀\n", "", "take"))
    @given(PLACES, PLACES)
    def test_calls_in_different_places_have_different_keys(self, one, other):
        assert (key_in(*one) == key_in(*other)) is (meant_by(*one) == meant_by(*other))

    def test_a_call_of_a_usual_session_has_its_key_as_ever(self):
        assert key_in("call", "s:1", "b/c", "take").startswith("call/s:1/b/c:take:")

    def test_a_scope_that_is_named_as_a_session_s_keys_begin_is_another_one(self, context):
        def take() -> None:
            """Take something."""

        named = key(a_tool(take, scope=f"session/{context.session.id}"), context, "{}")
        assert named != key(a_tool(take), context, "{}")

    def test_a_scope_of_any_text_makes_a_key_that_every_store_takes(self, context):
        def take() -> None:
            """Take something."""

        assert key(a_tool(take, scope="a\0\ud800"), context, "{}").isprintable()

    @pytest.mark.parametrize("scope", ["session", "call", "name of one" * 500])
    def test_long_scopes_and_ids_make_keys_that_every_database_takes(self, scope):
        from toolstile import Session

        def take() -> None:
            """Take something."""

        made = a_tool(take, scope=scope)
        contexts = [
            ToolContext(session=Session(id="語" * 5000 + end), tool_call=ToolCall("take", id=call))
            for end in ("a", "b")
            for call in ("語" * 5000, "語" * 5000 + "c")
        ]
        keys = {key(made, each, "{}") for each in contexts}
        assert len(keys) == {"session": 2, "call": 4}.get(scope, 1)
        # An index of PostgreSQL takes 2,704.
        assert all(len(each.encode()) < 2000 for each in keys)

    @pytest.mark.parametrize("kind", [Masked, Omitting, Unreadable])
    def test_params_that_their_json_does_not_tell_apart_have_no_key(self, context, kind):
        def take(a: int) -> None:
            """Take something."""

        take.__annotations__["a"] = kind
        made = a_tool(take)
        with pytest.raises(TypeError, match="the params of take do not equal the params"):
            key(made, context, '{"a": {"number": "4111"}}')

    def test_those_that_their_author_writes_in_full_have_one(self, context):
        def take(a: Written) -> None:
            """Take something."""

        made = a_tool(take)
        keys = {key(made, context, f'{{"a": {{"number": "{each}"}}}}') for each in ("1/2", "1/3")}
        assert len(keys) == 2

    @pytest.mark.parametrize(
        "annotation", [int, str, list[int], tuple[int, str], "int | None"], ids=str
    )
    def test_plain_params_are_written_once(self, annotation):
        def take(a: int) -> None:
            """Take something."""

        take.__annotations__["a"] = annotation
        made = a_tool(take)
        assert encoder(made) == made.params_codec.encode


KEYS = st.sampled_from(["a", "b", "c"])
TOOLS = st.sampled_from(["order", "pay"])
TTLS = st.one_of(st.none(), st.integers(1, 48).map(lambda hours: timedelta(hours=hours)))


class LedgerAndModel(RuleBasedStateMachine):
    """Does the same to a ledger and to a dictionary, with a clock that goes on and back."""

    store: LedgerStore

    def make_store(self) -> LedgerStore:
        return MemoryStore()

    @initialize()
    def begin(self) -> None:
        self.clock = HeldClock()
        self.ledger = EffectLedger(self.make_store(), clock=self.clock)
        self.model: dict[str, ToolEffect] = {}

    def alive(self, key: str) -> ToolEffect | None:
        effect = self.model.get(key)
        if effect is None or effect.expires_at is None or effect.expires_at > self.clock.time:
            return effect
        return None

    @rule(key=KEYS, name=TOOLS, ttl=TTLS, value=st.one_of(st.none(), st.integers()))
    def record(self, key: str, name: str, ttl: timedelta | None, value: int | None) -> None:
        effect = record(self.ledger, key, name, ttl=ttl, result=ToolResult.ok(value))
        assert effect.result_value == value
        self.model[key] = effect

    @rule(key=KEYS)
    def record_a_failure(self, key: str) -> None:
        assert record(self.ledger, key, result=ToolResult.error("No.")) is None

    @rule(key=KEYS)
    def look_up(self, key: str) -> None:
        expected = self.alive(key)
        assert self.ledger.lookup(key) == expected
        if expected is None:
            self.model.pop(key, None)

    @rule(key=KEYS)
    def invalidate(self, key: str) -> None:
        assert self.ledger.invalidate(key) is (self.model.pop(key, None) is not None)

    @rule(name=TOOLS)
    def invalidate_by_tool(self, name: str) -> None:
        gone = [key for key, each in self.model.items() if each.tool_name == name]
        assert self.ledger.invalidate_by_tool(name) == len(gone)
        for key in gone:
            del self.model[key]

    @rule()
    def prune(self) -> None:
        gone = [key for key in self.model if self.alive(key) is None]
        assert self.ledger.prune_expired() == len(gone)
        for key in gone:
            del self.model[key]

    @precondition(lambda self: len(self.model) > 1)
    @rule()
    def clear(self) -> None:
        assert self.ledger.clear() == len(self.model)
        self.model.clear()

    @rule(hours=st.integers(-2, 30))
    def let_time_pass(self, hours: int) -> None:
        self.clock.move(hours=hours)

    @invariant()
    def they_hold_the_same(self) -> None:
        held = {each.claim.key: each.claim.effect_id for each in self.ledger.store.entries()}
        assert held == {key: each.effect_id.hex for key, each in self.model.items()}


class SqliteAndModel(LedgerAndModel):
    """The same over SQLite."""

    def make_store(self) -> LedgerStore:
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(TemporaryDirectory()))
        store = SqliteStore(folder / "ledger.db", durability="process")
        self.stack.callback(store.close)
        return store

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()


SETTINGS = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLedgerAndModel = pytest.mark.slow(LedgerAndModel.TestCase)
TestLedgerAndModel.settings = SETTINGS
TestSqliteAndModel = pytest.mark.slow(SqliteAndModel.TestCase)
TestSqliteAndModel.settings = SETTINGS

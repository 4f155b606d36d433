"""Whoever asks, settles and claims: stores agree with a model, and one finding counts."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from toolstile_hookspecs.services.ledger import Claim, EffectState, RecordedResult
from toolstile_plugins.ledger.stores.memory import MemoryStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DONE = RecordedResult("Done.", b"7")
hosts = st.sampled_from(["a", "b"])
jumps = st.integers(-10_000, 10_000)


class Settling(RuleBasedStateMachine):
    """One key in two stores: in memory, and in a file that two hosts have open."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "ledger.db"
        self.memory = MemoryStore()
        self.files = {host: SqliteStore(path) for host in ("a", "b")}
        self.effect = ""
        self.state = "free"
        self.holder: str | None = None
        self.is_deferred = False
        self.findings: Counter[str] = Counter()

    def teardown(self) -> None:
        for store in self.files.values():
            store.close()
        self.folder.cleanup()

    def both(self, host: str, name: str, *arguments: object, **options: object) -> bool:
        """Do it in both stores, which have to say the same."""
        said = {
            bool(getattr(store, name)("k", self.effect, *arguments, **options))
            for store in (self.memory, self.files[host])
        }
        assert len(said) == 1
        return said.pop()

    @rule(host=hosts, jump=jumps)
    def claim(self, host: str, jump: int) -> None:
        effect = os.urandom(16).hex()
        claim = Claim("k", "order", "0" * 64, effect, "s", "c", NOW, b"{}")
        now = NOW + timedelta(hours=jump)
        stands = {store.claim(claim, now=now) is None for store in (self.memory, self.files[host])}
        assert stands == {self.state in ("free", "not")}
        if stands == {True}:
            self.effect, self.state = effect, "claimed"

    @rule(host=hosts)
    def end_without_a_record(self, host: str) -> None:
        if self.state == "claimed":
            assert self.both(host, "mark_unknown", "It was cut off.")
            self.state, self.holder, self.is_deferred = "unknown", None, False

    @rule(host=hosts, at_once=st.booleans())
    def hold(self, host: str, at_once: bool) -> None:
        is_free = self.state == "unknown" and self.holder is None
        held = self.both(host, "hold", f"token of {host}", at_once=at_once)
        assert held == (is_free and (at_once or not self.is_deferred))
        if held:
            self.holder = host

    @rule(host=hosts, seconds=st.sampled_from([0.0, 3600.0]))
    def defer(self, host: str, seconds: float) -> None:
        is_held = self.state == "unknown" and self.holder == host
        assert self.both(host, "defer", f"token of {host}", seconds) == is_held
        if is_held:
            self.holder, self.is_deferred = None, seconds > 0

    @rule(host=hosts, found=st.sampled_from([DONE, "It has not."]))
    def settle_under_a_hold(self, host: str, found: RecordedResult | str) -> None:
        is_held = self.state == "unknown" and self.holder == host
        settled = self.both(host, "settle", found, None, token=f"token of {host}")
        assert settled == is_held
        self.note(settled, found)

    @rule(host=hosts, found=st.sampled_from([DONE, "It has not."]))
    def settle_by_hand(self, host: str, found: RecordedResult | str) -> None:
        settled = self.both(host, "settle", found, None)
        assert settled == (self.state == "unknown")
        self.note(settled, found)

    def note(self, settled: bool, found: RecordedResult | str) -> None:
        if settled:
            self.findings[self.effect] += 1
            self.state = "done" if isinstance(found, RecordedResult) else "not"

    @invariant()
    def one_finding_counts(self) -> None:
        assert set(self.findings.values()) <= {1}

    @invariant()
    def stores_say_what_the_model_says(self) -> None:
        for store in (self.memory, self.files["a"]):
            entry = store.get("k")
            if entry is None:
                assert self.state == "free"
                continue
            unsettled = [each.claim.effect_id for each in store.unsettled()]
            assert unsettled == ([self.effect] if self.state == "unknown" else [])
            assert entry.claim.effect_id == self.effect
            assert (entry.state is EffectState.DONE) == (self.state == "done")
            assert (entry.state is EffectState.CLAIMED) == (self.state == "claimed")


TestSettling = Settling.TestCase
TestSettling.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)

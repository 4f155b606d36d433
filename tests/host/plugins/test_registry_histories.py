"""Whatever is registered, refused, renewed and removed: the catalog is what the plugins offer."""

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from toolstile.plugins.registry import Plugins
from toolstile.settings import Settings
from toolstile_hookspecs import MarkdownSection, PluginError, hookimpl, tool

pytestmark = pytest.mark.slow

PLUGINS = st.sampled_from("abcd")
OFFERS = st.lists(st.sampled_from(["one", "two", "three", "four"]), unique=True, max_size=3)
PREFIXES = {"a": "", "b": "", "c": "c_", "d": "d_"}


def make_tool(name):
    def function() -> None:
        """Do nothing."""

    return tool(name=name, wire_name=name.upper())(function)


class Offering:
    def __init__(self, name):
        self.name = name
        self.offer = []

    @hookimpl
    def toolstile_sections(self):
        if self.offer is None:
            msg = "nothing to offer"
            raise LookupError(msg)
        tools = [make_tool(name) for name in self.offer]
        return [MarkdownSection(key=f"of-{self.name}", title="Offer", tools=tools)]

    @hookimpl
    def toolstile_telemetry(self, event): ...


class Histories(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        tables = {name: {"prefix": prefix} for name, prefix in PREFIXES.items() if prefix}
        self.plugins = Plugins(settings=Settings(plugins=tables, optional_plugins=tuple(tables)))
        self.objects = {name: Offering(name) for name in PREFIXES}
        self.model = {}
        self.generation = 0

    def free(self, name, offer):
        if offer is None:
            return False
        taken = {
            each
            for other, names in self.model.items()
            if other != name and not PREFIXES[other]
            for each in names
        }
        return bool(PREFIXES[name]) or not taken & set(offer)

    @rule(name=PLUGINS, offer=st.none() | OFFERS)
    def register(self, name, offer):
        if name not in self.model:
            self.objects[name].offer = offer
        if name not in self.model and self.free(name, offer):
            self.plugins.register(self.objects[name], name)
            self.model[name] = offer
        else:
            with pytest.raises(PluginError):
                self.plugins.register(self.objects[name], name)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), offer=st.none() | OFFERS)
    def renew(self, data, offer):
        name = data.draw(st.sampled_from(sorted(self.model)))
        self.objects[name].offer = offer
        if self.free(name, offer):
            self.plugins.catalog.invalidate(name)
            self.model[name] = offer
        else:
            with pytest.raises(PluginError, match="keeps the tools it had"):
                self.plugins.catalog.invalidate(name)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def unregister(self, data):
        name = data.draw(st.sampled_from(sorted(self.model)))
        self.plugins.unregister(name)
        del self.model[name]

    @invariant()
    def the_catalog_is_what_the_plugins_offer(self):
        expected = {
            f"{PREFIXES[name]}{each}": name for name, offer in self.model.items() for each in offer
        }
        catalog = self.plugins.catalog
        assert list(catalog.names()) == list(expected)
        assert {each: catalog.plugin_of(each) for each in expected} == expected

    @invariant()
    def sections_reports_and_implementations_tell_the_same(self):
        there = list(self.model)
        assert [each.key.rpartition("of-")[2] for each in self.plugins.view.sections] == there
        reports = [each.name for each in self.plugins.reports if each.status != "absent"]
        assert reports == there
        order = [each.plugin for each in self.plugins.implementations("toolstile_telemetry")]
        assert order == there[::-1]

    @invariant()
    def a_wire_name_belongs_to_the_plugin_without_prefix_if_there_is_one(self):
        for wire in ("ONE", "TWO", "THREE", "FOUR"):
            owners = [name for name, offer in self.model.items() if wire.lower() in offer]
            owners.sort(key=lambda name: bool(PREFIXES[name]))
            found = self.plugins.catalog.plugin_of(wire)
            assert found == (owners[0] if owners else None)

    @invariant()
    def the_generation_never_falls(self):
        assert self.plugins.view.generation >= self.generation
        self.generation = self.plugins.view.generation


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)

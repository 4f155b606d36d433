"""Bindings, and the resources that they open."""

import asyncio
from typing import Any

import pytest

from toolstile import Session
from toolstile.resources.bindings import ResourceRegistry
from toolstile_hookspecs import Binding, DefinitionError, Scope, ToolContext, UnboundResourceError


class Url(str):
    __slots__ = ()


class Client:
    def __init__(self, url: str = "") -> None:
        self.url = url
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_holds_what_it_was_given():
    registry = ResourceRegistry.of(Binding(Client, lambda _: Client()))
    assert Client in registry
    assert Url not in registry
    assert list(registry) == [Client]
    assert len(registry) == 1
    assert repr(registry) == "ResourceRegistry(Client)"


def test_refuses_two_bindings_of_one_type():
    with pytest.raises(DefinitionError, match="Client is bound twice"):
        ResourceRegistry.of(
            Binding(Client, lambda _: Client()), Binding(Client, lambda _: Client())
        )


def test_builds_from_instances_and_bindings_under_the_type_they_stand_under():
    class Api(Client):
        pass

    registry = ResourceRegistry.build(
        {Url: Url("x"), Client: Binding(Api, lambda r: Api(r.get(Url)))}
    )
    with registry.open() as resources:
        assert resources.get(Client).url == "x"
        assert Api not in resources


def test_an_instance_is_not_closed_by_the_host():
    client = Client()
    with ResourceRegistry.build({Client: client}).open() as resources:
        assert resources.get(Client) is client
    assert not client.closed


def test_a_binding_that_passes_an_instance_on_does_not_own_it():
    class Api:
        pass

    client = Client()
    registry = ResourceRegistry.build({Client: client, Api: Binding(Api, lambda r: r.get(Client))})
    with registry.open() as resources:
        assert resources.get(Api) is client
    assert not client.closed


def test_of_merged_registries_the_later_binding_counts_and_the_merged_ones_stay():
    first = ResourceRegistry.build({Url: Url("1"), Client: Client()})
    second = ResourceRegistry.build({Url: Url("2")})
    third = ResourceRegistry.build({Url: Url("3")})
    assert first.merge(second, third).open().get(Url) == "3"
    assert Client in first.merge(second)
    assert first.open().get(Url) == "1"


def test_each_opening_has_singletons_of_its_own():
    registry = ResourceRegistry.of(Binding(Client, lambda _: Client()))
    assert registry.open().get(Client) is not registry.open().get(Client)


@pytest.mark.parametrize(("given", "told"), [(dict, "<class 'dict'>"), (5, "5")])
def test_what_is_no_binding_is_refused_with_what_to_write(given: Any, told: str) -> None:
    with pytest.raises(DefinitionError, match=rf"{told} is not a Binding; write Binding\(Type"):
        ResourceRegistry.of(given)


def test_what_is_no_mapping_is_refused_with_what_to_write() -> None:
    given: Any = [Client]
    with pytest.raises(DefinitionError, match=r"is not a Binding; write Binding\(Type"):
        ResourceRegistry.build(given)


def test_a_context_made_by_hand_takes_it_as_it_is():
    registry = ResourceRegistry.of(
        Binding.instance(Url, Url("x"), portable=True),
        Binding(Client, lambda r: Client(r.get(Url)), Scope.TOOL_CALL),
    )
    context = ToolContext(session=Session(), resources=registry)
    client = context.resources.get(Client)
    assert client.url == "x"
    assert context.resources.get(Client) is client
    assert asyncio.run(context.resources.aget(Client)) is client
    assert context.filesystem is None
    assert context.resources.get(int, 3) == 3
    assert context.resources.is_portable(Url)
    assert not context.resources.is_portable(Client)
    with pytest.raises(UnboundResourceError, match="Bound are: Client, Url"):
        context.resources.get(int)
    with registry.open() as opened, opened.tool_scope() as call:
        assert call.get(Client) is not client

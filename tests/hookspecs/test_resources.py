"""Resources are bound, and take part by the methods that they have."""

from functools import cache, partial, wraps
from unittest.mock import Mock

import pytest

from toolstile_hookspecs import (
    Binding,
    Branchable,
    Closeable,
    DefinitionError,
    Exclusive,
    PostConstruct,
    Scope,
)
from toolstile_hookspecs.resources import is_borrowed


def test_a_binding_is_a_singleton_unless_it_says_otherwise():
    assert Binding(dict, lambda resources: {}).scope is Scope.SINGLETON
    assert not Binding(dict, lambda resources: {}).portable


def test_an_instance_belongs_to_whoever_made_it():
    value = {}
    binding = Binding.instance(dict, value, portable=True)
    assert binding.provider(None) is value
    assert binding.portable
    assert is_borrowed(binding)
    assert not is_borrowed(Binding(dict, lambda resources: {}))


def test_a_provider_that_cannot_be_called_is_refused_with_the_remedy():
    with pytest.raises(DefinitionError, match=r"Binding\.instance\(Type, value\)"):
        Binding(dict, {})


class _Alone:
    def __init__(self) -> None:
        pass


@pytest.mark.parametrize("provider", [_Alone, lambda resources, more: {}])
def test_a_provider_that_does_not_take_the_resolver_is_refused_with_the_remedy(provider):
    with pytest.raises(DefinitionError, match="not a function of the resolver; write lambda res"):
        Binding(dict, provider)


def _without(function):
    """Let a function that needs no resolver be called with one."""

    @wraps(function)
    def taking(resources):
        return function()

    return taking


def _with_size(function):
    """Give a function more than the resolver."""

    @wraps(function)
    def taking(resources):
        return function(resources, 3)

    return taking


@pytest.mark.parametrize(
    "provider",
    [
        dict,
        max,
        Mock(),
        lambda resources, more=1: {},
        lambda *several: {},
        _without(lambda: {"size": 3}),
        _with_size(lambda resources, size: {}),
        cache(_without(lambda: {"size": 3})),
    ],
)
def test_any_other_can_be_called_with_it(provider):
    assert Binding(dict, provider).provider is provider


async def _awaited(resources, number=0):
    return {}


def _yielding(resources):
    yield {}


async def _both(resources):
    yield {}


@pytest.mark.parametrize("provider", [_awaited, partial(_awaited, number=1), _yielding, _both])
def test_a_provider_that_nobody_would_wait_for_is_refused_with_the_remedy(provider):
    with pytest.raises(DefinitionError, match=r"async or yields.*an async toolstile_lifespan"):
        Binding(dict, provider)


@pytest.mark.parametrize("kind", ["Database", None])
def test_what_is_no_type_is_bound_for_nothing(kind):
    with pytest.raises(DefinitionError, match="asked for by their type; write Binding"):
        Binding(kind, lambda resources: 1)


def test_a_scope_may_be_given_by_its_name_and_a_wrong_one_is_refused():
    assert Binding(dict, lambda resources: {}, scope="tool_call").scope is Scope.TOOL_CALL
    with pytest.raises(DefinitionError, match="scope is 'call': input should be an instance"):
        Binding(dict, lambda resources: {}, scope="call")


def test_roles_are_told_by_their_methods():
    class Store:
        def close(self):
            pass

        def post_construct(self):
            pass

        def branch(self, context, parent):
            pass

    class Database:
        def begin(self):
            pass

        def commit(self, savepoint):
            pass

        def rollback(self, savepoint):
            pass

    assert all(isinstance(Store(), role) for role in (Closeable, PostConstruct, Branchable))
    assert isinstance(Database(), Exclusive)
    assert not isinstance(Store(), Exclusive)
    assert not isinstance(Database(), Branchable)

"""What is bound as a protocol has all of it, or an author is told what is missing."""

from typing import Protocol

import pytest

from toolstile import Host
from toolstile_cli.lint.plugin import findings_in
from toolstile_hookspecs import Binding, hookimpl


class Named(Protocol):
    title: str


class InstanceCache(Named, Protocol):
    def put(self, thing: str) -> None: ...

    def take(self) -> str: ...


class Whole:
    title = "A shelf"

    def put(self, thing):
        pass

    def take(self):
        return ""


class Misspelt(Whole):
    take = property()
    takes = Whole.take


class Raising(Whole):
    @property
    def title(self):
        raise OSError("off")


def found(binding):
    class Plugin:
        @hookimpl
        def toolstile_resources(self):
            return [binding]

    host = Host(discover=False)
    host.register(Plugin(), "shelves")
    (report,) = host.plugins.reports
    return [(each.subject, each.text, each.remedy) for each in findings_in(host, report)]


@pytest.mark.parametrize(
    "binding",
    [
        Binding.instance(InstanceCache, Whole()),
        Binding.instance(InstanceCache, Raising()),
        Binding.instance(Whole, 5),
        Binding(InstanceCache, lambda resources: 1 / 0),
    ],
)
def test_what_has_all_of_it_or_cannot_be_known_is_left_alone(binding):
    assert found(binding) == []


@pytest.mark.parametrize(
    ("value", "cause", "remedy"),
    [
        (
            Misspelt(),
            "What is bound as InstanceCache, an instance of Misspelt, has no take.",
            "Write it, as InstanceCache says.",
        ),
        (
            5,
            "What is bound as InstanceCache, an instance of int, has no put, no take, no title.",
            "Write them, as InstanceCache says.",
        ),
        (Whole, "It is the class Whole.", "Give an instance of it."),
    ],
)
def test_what_an_instance_lacks_is_told(value, cause, remedy):
    assert found(Binding.instance(InstanceCache, value)) == [
        ("resource InstanceCache", cause, remedy)
    ]

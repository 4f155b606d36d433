"""Every hook says all there is to say of it."""

import inspect
import re

import pluggy
import pytest

from toolstile_hookspecs import hooks
from toolstile_hookspecs.markers import HOOK_PREFIX, PROJECT

HOOKS = {
    name: function
    for name, function in vars(hooks).items()
    if name.startswith(HOOK_PREFIX) and inspect.isfunction(function)
}

IN_CALL_ORDER = [
    "toolstile_trace",
    "toolstile_lookup",
    "toolstile_parse",
    "toolstile_check",
    "toolstile_approve",
    "toolstile_approve_turn",
    "toolstile_snapshot",
    "toolstile_execute",
    "toolstile_render",
    "toolstile_on_result",
    "toolstile_rollback",
    "toolstile_telemetry",
    "toolstile_transaction",
]

RETURNS_NOTHING = {"toolstile_rollback", "toolstile_telemetry", "toolstile_transaction"}

SECTION = re.compile(r"^(Args|Returns|Example):\n(.*?)(?=^\w|\Z)", re.MULTILINE | re.DOTALL)

SHARED = re.findall(r"^- `(\w+)`: \S", inspect.getdoc(hooks), re.MULTILINE)


def sections_of(function):
    return dict(SECTION.findall(inspect.getdoc(function)))


def arguments_of(function):
    return list(inspect.signature(function).parameters)


def test_there_are_the_hooks_of_set_up_and_of_every_stage():
    assert list(HOOKS)[-len(IN_CALL_ORDER) :] == IN_CALL_ORDER
    assert set(HOOKS) - set(IN_CALL_ORDER) == {
        "toolstile_settings",
        "toolstile_sections",
        "toolstile_policies",
        "toolstile_resources",
        "toolstile_commands",
        "toolstile_dialects",
        "toolstile_diagnose",
        "toolstile_lifespan",
        "toolstile_status",
    }


@pytest.mark.parametrize("name", HOOKS)
class TestHook:
    def test_is_specified(self, name):
        assert getattr(HOOKS[name], f"{PROJECT}_spec") is not None

    def test_has_no_default_arguments(self, name):
        parameters = inspect.signature(HOOKS[name]).parameters.values()
        assert all(each.default is each.empty for each in parameters)
        assert all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)

    def test_documents_exactly_its_arguments(self, name):
        text = sections_of(HOOKS[name]).get("Args", "")
        own = [each for each in arguments_of(HOOKS[name]) if each not in SHARED]
        assert re.findall(r"^    (\w+): \S", text, re.MULTILINE) == own

    def test_says_what_it_returns(self, name):
        assert ("Returns" in sections_of(HOOKS[name])) is (name not in RETURNS_NOTHING)

    def test_says_when_it_is_called_and_what_an_exception_does(self, name):
        text = inspect.getdoc(HOOKS[name])
        assert re.search(r"^Called", text, re.MULTILINE)
        # The rule for hooks that are called at registration stands above all hooks.
        assert "At registration an exception" in inspect.getdoc(hooks)
        assert re.search(r"exception|when the plugin is registered", text)

    def test_has_an_example_that_could_be_registered(self, name):
        example = sections_of(HOOKS[name])["Example"]
        code = "\n".join(re.findall(r"^    (?:>>>|\.\.\.) ?(.*)$", example, re.MULTILINE))
        compile(code, name, "exec")
        assert "@hookimpl" in code
        (arguments,) = re.findall(rf"def {name}\((.*)\):", code)
        given = [each.strip() for each in arguments.split(",") if each.strip()]
        assert set(given) <= set(arguments_of(HOOKS[name]))


def test_pluggy_takes_them_all():
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hooks)
    assert set(vars(manager.hook)) == set(HOOKS)

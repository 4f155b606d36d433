"""The policy: asks Cedar about every call."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cedarpy

from toolstile_cedar.entities import Called, Caller, World
from toolstile_cedar.statements import Statement, policy_set, read_statements
from toolstile_cedar.values import NoCedarValueError, cedar_value
from toolstile_hookspecs import (
    DefinitionError,
    PolicyDecision,
    Tool,
    ToolContext,
    ToolResult,
    hide,
    secrets_in,
    secrets_of,
)

_POLICY: Final = re.compile(r"policy `([^`]*)`: ")
REMEDY: Final = "This requires human intervention"


@dataclass(frozen=True, kw_only=True)
class CedarPolicy:
    """Allows, asks or denies as Cedar policies say; what none permits is denied.

    Args:
        policies: The policy files.
        entities: A JSON file of entities: users, groups, and what else policies speak of.
        schema: A Cedar schema that policies, entities and requests have to fit.
        groups_claim: The key of the user's credentials, where these are a mapping, that lists
            the user's groups.
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: Naming every fault of the files, with the lines.
    """

    policies: Sequence[Path]
    entities: Path | None = None
    schema: Path | None = None
    groups_claim: str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        """Read the files."""
        if not self.policies:
            raise DefinitionError("CedarPolicy: name a file, policies = ['rules.cedar'].")
        try:
            _ = self._rules, self._world
        except ValueError as error:
            raise DefinitionError(f"CedarPolicy: {error}") from None

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Decide as the policies say."""
        data = json.loads(tool.params_codec.encode(params))
        try:
            values = cedar_value(data or {})
        except NoCedarValueError as error:
            return PolicyDecision.deny(
                f"Cannot call {tool.name}: {error}, so no Cedar policy can decide on it. Give "
                "another value, then retry."
            )
        secrets = [*secrets_in(params), *secrets_of(data, tool.params_codec.secret_schema())]
        caller = Caller.of(context, self.groups_claim)
        try:
            return self._decide(caller, Called.of(tool), values)
        except ValueError as error:
            text = hide(str(error), secrets)
            return PolicyDecision.deny(f"Cannot call {tool.name}: {text}")

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Do nothing: it remembers nothing."""

    def _decide(self, caller: Caller, called: Called, params: Any) -> PolicyDecision:
        if called.passes_for_a_category:
            raise ValueError(
                "it is named like a category of tools, and would be taken for one by Cedar "
                f"policies. {REMEDY}: give its plugin a prefix."
            )
        request = {
            "principal": caller.uid,
            "action": called.action,
            "resource": called.resource,
            "context": {"params": params},
        }
        try:
            entities = self._world.around(caller, called)
        except ValueError as error:
            raise ValueError(
                f"its entities do not fit the Cedar schema ({error}). {REMEDY}."
            ) from None
        firm = self._evaluate(self._firm, request, entities)
        stand = self._determining(firm)
        if not firm.allowed:
            return PolicyDecision.deny(_denial(caller, called, stand))
        asking = [each for each in stand if each.ask is not None]
        asks = asking if len(asking) == len(stand) else []
        if self._whole is not None:
            whole = self._evaluate(self._whole, request, entities)
            asks += [each for each in self._determining(whole) if each.forbids]
        if not asks:
            return PolicyDecision.allow()
        return PolicyDecision.ask(" ".join(_question(each) for each in asks))

    def _evaluate(
        self, policies: cedarpy.PolicySet, request: dict[str, Any], entities: cedarpy.Entities
    ) -> cedarpy.AuthzResult:
        result = cedarpy.is_authorized(request, policies, entities, self._known_schema)
        errors = result.diagnostics.errors
        if result.decision is cedarpy.Decision.NoDecision:
            raise ValueError(
                "the call does not fit the Cedar schema: its action, principal or params are not "
                f"declared there, or otherwise. {REMEDY}."
                if self._known_schema is not None
                else f"Cedar cannot decide on it ({'; '.join(errors)}). {REMEDY}."
            )
        if errors:
            told = "; ".join(self._located(each) for each in errors)
            raise ValueError(
                f"{told}. {REMEDY}: a policy has to ask for what is not always there first, as in "
                "`context.params has NAME &&`."
            )
        return result

    def _located(self, error: str) -> str:
        found = _POLICY.search(error)
        if found is None or found[1] not in self._rules:
            return error
        return (
            f"the Cedar policy {self._rules[found[1]]} cannot be evaluated: {error[found.end() :]}"
        )

    def _determining(self, result: cedarpy.AuthzResult) -> list[Statement]:
        return [self._rules[key] for key in sorted(result.diagnostics.reasons)]

    @functools.cached_property
    def _known_schema(self) -> cedarpy.Schema | None:
        if self.schema is None:
            return None
        try:
            return cedarpy.Schema.from_str(self.schema.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"{self.schema}: {error.strerror}.") from None
        except ValueError as error:
            raise ValueError(f"{self.schema}: {error}.") from None

    @functools.cached_property
    def _world(self) -> World:
        return World(self.entities, self._known_schema)

    @functools.cached_property
    def _rules(self) -> dict[str, Statement]:
        return {each.key: each for each in read_statements(self.policies, self._known_schema)}

    @functools.cached_property
    def _firm(self) -> cedarpy.PolicySet:
        return policy_set([each for each in self._rules.values() if not _asks_to_forbid(each)])

    @functools.cached_property
    def _whole(self) -> cedarpy.PolicySet | None:
        """All policies, None where those that hold without asking are all."""
        if not any(_asks_to_forbid(each) for each in self._rules.values()):
            return None
        return policy_set(list(self._rules.values()))


def _asks_to_forbid(statement: Statement) -> bool:
    return statement.forbids and statement.ask is not None


def _denial(caller: Caller, called: Called, stand: Iterable[Statement]) -> str:
    forbids = list(stand)
    if not forbids:
        who = f"User {caller.user_id!r}" if caller.user_id is not None else "an unknown user"
        return (
            f"Cannot call {called.name}: no Cedar policy permits it to {who}, with these params. "
            "Do without it, or ask for human intervention."
        )
    told = " and ".join(str(each) for each in forbids)
    advice = [each.advice for each in forbids if each.advice]
    return (
        f"Cannot call {called.name}: the Cedar polic{'y' if len(forbids) == 1 else 'ies'} {told} "
        f"forbid{'s' if len(forbids) == 1 else ''} it. "
        f"{' '.join(advice) or 'Do without it, or ask for human intervention.'}"
    )


def _question(statement: Statement) -> str:
    return statement.ask or f"The Cedar policy {statement} lets a person decide."

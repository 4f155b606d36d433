"""The principal and the request: who asks for a call, and in which texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, cast

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from toolstile_hookspecs._schema.secrets import Secret
from toolstile_hookspecs._tools.field_checks import type_faults
from toolstile_hookspecs.errors import DefinitionError

APPLICATION: Final = "application"
"""The source of a principal that the application knows only by a `user_id`."""
MAIN_AGENT: Final = "main"
"""The path of the agent that no other has started; a child's path is `main/reader`."""
NO_CLAIMS: Final = Secret(MappingProxyType[str, Any]({}))


@dataclass(frozen=True, slots=True)
class Principal:
    """The user or the program for whom calls run.

    Principals with equal source and id are equal, so groups and claims are part of no key, token
    or digest. Copies and pickles have neither claims nor credentials, and no codec writes them.

    Args:
        source: The name of the authority for the id, such as an issuer.
        id: The id, which has no meaning without its source.
        groups: The groups, for policies; events and records have them, too.
        claims: A mapping of further facts from the source, for policies; never written.
        auth: The credentials, masked in every text.

    Raises:
        DefinitionError: For a field of another type.

    Example:
        >>> claims = Secret({"department": "sales"})
        >>> Principal("https://id.example.org", "ada", groups={"staff"}, claims=claims)
        Principal(source='https://id.example.org', id='ada', groups=frozenset({'staff'}))
    """

    source: str
    id: str
    groups: Collection[str] = field(default=frozenset(), compare=False)
    claims: Secret = field(default=NO_CLAIMS, compare=False, repr=False)
    auth: Secret | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        faults = type_faults(self, Principal, ("source", "id"))
        groups: Any = [] if isinstance(self.groups, str) else [*self.groups, ""]
        if not groups or not all(isinstance(name, str) for name in groups):
            faults.append("groups are several texts; write groups={...}")
        hidden: tuple[Any, ...] = (self.claims, self.auth or NO_CLAIMS)
        if not all(isinstance(value, Secret) for value in hidden):
            faults.append("claims and credentials are kept out of texts; write Secret(...)")
        if faults:
            raise DefinitionError(f"Principal: {'; '.join(faults)}.")
        object.__setattr__(self, "groups", frozenset(self.groups))

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Return the schema of the one JSON form: source, id and groups, if there are any."""
        text = core_schema.typed_dict_field(core_schema.str_schema())
        groups = core_schema.list_schema(core_schema.str_schema())
        form = core_schema.typed_dict_schema(
            {
                "source": text,
                "id": text,
                "groups": core_schema.typed_dict_field(groups, required=False),
            }
        )
        read = core_schema.no_info_after_validator_function(
            lambda fields: cls(**fields),
            core_schema.no_info_before_validator_function(_as_object, form),
        )
        return core_schema.union_schema(
            [core_schema.is_instance_schema(cls), read],
            mode="left_to_right",
            serialization=core_schema.plain_serializer_function_ser_schema(_as_form),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle only the public fields."""
        return Principal, (self.source, self.id, self.groups)

    def public(self) -> Principal:
        """Return the principal without claims and credentials, for events."""
        return Principal(self.source, self.id, self.groups)


def _as_object(given: Any) -> Any:
    # Because earlier versions wrote principals as lists, stores may hold some.
    if not isinstance(given, list):
        return given
    return dict(zip(("source", "id", "groups"), cast("list[object]", given), strict=False))


def _as_form(who: Principal) -> dict[str, Any]:
    form: dict[str, Any] = {"source": who.source, "id": who.id}
    return {**form, "groups": sorted(who.groups)} if who.groups else form


def one_principal(
    principal: Principal | None, user_id: str | None, auth: Secret | None
) -> dict[str, Any]:
    """Return the fields that show a principal: itself, and the views `user_id` and `auth`."""
    if principal is None and user_id is not None:
        principal = Principal(APPLICATION, user_id, auth=auth)
    if principal is not None:
        user_id, auth = principal.id, principal.auth or auth
    return {"principal": principal, "user_id": user_id, "auth": auth}


@dataclass(frozen=True, slots=True)
class RequestTurn:
    """One text of a request.

    Args:
        text: The text. Secrets may be in clear, so it is not part of the `repr`.
        at: The time of the text; aware.
        user_id: The id of the principal, None if unknown.
        source: The source of the principal.
    """

    text: str = field(repr=False)
    at: datetime
    user_id: str | None = None
    source: str | None = None


RequestTexts = str | RequestTurn | Iterable[str | RequestTurn]
"""A request: one text or several, in order."""

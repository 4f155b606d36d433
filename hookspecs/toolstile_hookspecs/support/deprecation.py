"""The version of the contract, and deprecation of its names."""

from __future__ import annotations

import re
from typing import Final

CONTRACT_VERSION: Final = "1.0"
"""The minor number grows with an addition, the major number with a removal."""

REQUIRES: Final = "toolstile_requires"
"""The attribute of a plugin with the lowest version of the contract that it needs."""

_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})", re.ASCII)


def parsed_version(text: object) -> tuple[int, int]:
    """Return a version of the contract, `MAJOR.MINOR`, as numbers, which compare as versions do.

    Raises:
        ValueError: For any other text.

    Example:
        >>> parsed_version("1.10") > parsed_version("1.9")
        True
    """
    found = _VERSION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f'{text!r} is not a version of the contract; write "MAJOR.MINOR".')
    return int(found[1]), int(found[2])


class ContractDeprecationWarning(DeprecationWarning):
    """A plugin uses a name that a later version of the contract removes."""


def deprecated(what: str, *, since: str, until: str, instead: str) -> ContractDeprecationWarning:
    """Return the warning for something that the contract is going to lose.

    Args:
        what: The hook, argument or name.
        since: The version of the contract that deprecates it.
        until: The first version without it, which must be a major one.
        instead: The remedy, a sentence.

    Raises:
        ValueError: If it would be gone before the next major version.

    Example:
        >>> from toolstile_hookspecs import hookspec
        >>> @hookspec(
        ...     warn_on_impl=deprecated(
        ...         "toolstile_old", since="1.3", until="2.0", instead="Use toolstile_new."
        ...     )
        ... )
        ... def toolstile_old(call):
        ...     "Do it the old way."
    """
    (major, minor), removal = parsed_version(since), parsed_version(until)
    if removal[1] != 0 or removal[0] <= major:
        raise ValueError(
            f"{what} is deprecated in {major}.{minor}, so it stays until {major + 1}.0 at least; "
            f"{until} is not a major version after that."
        )
    return ContractDeprecationWarning(
        f"{what} is deprecated since version {since} of Toolstile's contract, and will be gone in "
        f"{until}. {instead}"
    )

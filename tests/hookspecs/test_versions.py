"""The contract's version, and what is deprecated of it."""

import pytest

from toolstile_hookspecs import CONTRACT_VERSION
from toolstile_hookspecs.support.deprecation import deprecated, parsed_version


def test_versions_compare_as_numbers():
    assert parsed_version(CONTRACT_VERSION) >= (1, 0)
    assert parsed_version("1.9") < parsed_version("1.10") < parsed_version("2.0")


def test_what_is_no_version_is_refused(subtests):
    for text in ["", "1", "1.", "1.0.0", "01.0", ">=1.0", "1.x", "\u0661.0", 1.0, None]:
        with subtests.test(text=text), pytest.raises(ValueError, match=r"MAJOR\.MINOR"):
            parsed_version(text)


def test_a_warning_names_the_thing_both_versions_and_what_to_use():
    warning = deprecated("toolstile_old", since="1.3", until="2.0", instead="Use toolstile_new.")
    assert str(warning) == (
        "toolstile_old is deprecated since version 1.3 of Toolstile's contract, and will be gone "
        "in 2.0. Use toolstile_new."
    )


@pytest.mark.parametrize("until", ["1.4", "1.0", "2.1", "3.5"])
def test_nothing_can_go_before_the_next_major_version(until):
    with pytest.raises(ValueError, match=r"stays until 2\.0"):
        deprecated("toolstile_old", since="1.3", until=until, instead="")

"""A value that can change is copied for each reader."""

from __future__ import annotations

import pytest

from toolstile.state.persistent_list import private
from toolstile_hookspecs.errors import StateError


class Uncopied:
    def __deepcopy__(self, memo: object) -> Uncopied:
        raise TypeError("It holds a lock.")


def test_why_something_cannot_be_copied_is_quoted_without_its_full_stop():
    with pytest.raises(StateError, match=r"copying it failed \(It holds a lock\)\. Make Uncopied"):
        private(Uncopied())

"""Slots of processes, which share marks through files."""

from __future__ import annotations

import sys

import pytest

from toolstile.slots import MARKS, Slot


@pytest.mark.skipif(sys.platform == "win32", reason="Slots are not shared on Windows.")
def test_a_slot_has_its_room_on_the_disk_before_it_is_mapped(tmp_path):
    slot = Slot()
    slot.share(tmp_path)
    (file,) = tmp_path.glob("*.slot")
    assert file.stat().st_blocks * 512 >= file.stat().st_size == 8 * MARKS
    slot.close()
    assert not file.exists()

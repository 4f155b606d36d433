"""Whether arguments are those of a recorded call, in which secrets are masked."""

from __future__ import annotations

import json
from typing import Any

from toolyard_hookspecs.secrecy import MASK
from toolyard_plugins.record.lines import RecordedCall


def key_of(params: Any) -> str:
    """Return params as canonical JSON."""
    return json.dumps(params, sort_keys=True, separators=(",", ":"))


def hides_some(call: RecordedCall, recorded: object) -> bool:
    """Tell whether the arguments or params of a call, as they are recorded, lack a secret."""
    return call.masked and MASK in json.dumps(recorded)

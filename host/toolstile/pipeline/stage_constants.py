"""The marks that every call passes, by names of their own.

Before Python 3.12, reading a member off its enum takes five times as long, and each call
does so a dozen times.
"""

from __future__ import annotations

from typing import Final

from toolstile.pipeline.batch import Milestone
from toolstile_hookspecs import HandlerState, Stage, Status

LOOKUP: Final = Stage.LOOKUP
PARSE: Final = Stage.PARSE
DEADLINE: Final = Stage.DEADLINE
CHECK: Final = Stage.CHECK
RESERVE: Final = Stage.RESERVE
EXECUTE: Final = Stage.EXECUTE
RENDER: Final = Stage.RENDER
VALIDATE: Final = Stage.VALIDATE
ON_RESULT: Final = Stage.ON_RESULT
PREPARE: Final = Stage.PREPARE
COMMIT: Final = Stage.COMMIT
TELEMETRY: Final = Stage.TELEMETRY

SUCCEEDED: Final = Status.SUCCEEDED

NOT_BEGUN: Final = HandlerState.NOT_BEGUN
BEGUN: Final = HandlerState.BEGUN
RETURNED: Final = HandlerState.RETURNED

ADMITTED: Final = Milestone.ADMITTED
FORKED: Final = Milestone.FORKED
CLAIMED: Final = Milestone.CLAIMED
ENDED: Final = Milestone.ENDED

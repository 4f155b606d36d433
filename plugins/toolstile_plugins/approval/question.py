"""Questions as they are kept, made of the requests that approvers are given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

from toolstile_hookspecs import ApprovalRequest, hide, masked, secrets_of
from toolstile_hookspecs.services.approval_store import Question
from toolstile_plugins.approval.display import MASK


def question_of(request: ApprovalRequest, expires: timedelta = timedelta()) -> Question:
    """Return the question of a request, without secrets and not yet sealed."""
    tool, context = request.tool, request.context
    arguments: dict[str, Any] = json.loads(request.arguments)
    schema = tool.params_codec.secret_schema()
    secrets = [*secrets_of(arguments, schema)]
    run = None if context.adapter is None else context.run_context
    now = context.clock.now()
    # Everything that distinguishes two tools of one name, except the code of the handler.
    handler: Any = tool.handler
    code = [getattr(handler, name, None) for name in ("__module__", "__qualname__")]
    effect = [tool.category, tool.consequence, tool.contained, tool.isolation]
    of: Sequence[Any] = [*effect, tool.origin, tool.version, tool.description, *code]
    text = json.dumps([*of, tool.params_codec.schema()], sort_keys=True, default=str)
    return Question(
        ticket=uuid4().hex[:12],
        call_id=request.call.id,
        tool=tool.name,
        category=tool.category,
        consequence=tool.consequence,
        reasons=tuple(hide(reason, secrets) for reason in request.reasons),
        arguments=json.dumps(masked(arguments, schema, MASK), ensure_ascii=False),
        digest=request.digest,
        session_id=context.session.id,
        principal=None if context.principal is None else context.principal.public(),
        created=now,
        expires=now + expires,
        sealed=b"",
        owner="" if run is None else run.run_id,
        diff=None if request.diff is None else hide(request.diff, secrets),
        asked_by=request.asked_by,
        definition=sha256(text.encode()).hexdigest(),
    )

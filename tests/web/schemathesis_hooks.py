"""What made-up requests leave out: nobody waits long for work that will not come."""

from __future__ import annotations

from typing import Any

import schemathesis

_SHORT = 20  # milliseconds
_LONGEST = 300_000


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]
) -> None:
    body = case.body
    if case.path in ("/v1/poll", "/v1/tasks") and isinstance(body, dict):
        wait = body.get("wait_ms", 60_000)
        if type(wait) is int and 0 <= wait <= _LONGEST:
            body["wait_ms"] = min(wait, _SHORT)

"""What made-up requests leave out: nobody waits long for work that will not come. And what their
answers may not say: that a request does not obey the document, when it does."""

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


@schemathesis.check
def what_obeys_the_document_is_not_called_malformed(
    context: schemathesis.CheckContext,
    response: schemathesis.Response,
    case: schemathesis.Case[Any],
) -> None:
    """422 is also for what has the right shape and is wrong otherwise; this is its other half."""
    obeys = case.meta is not None and case.meta.generation.mode.is_positive
    if obeys and response.status_code == 422:
        assert response.json()["type"] != "malformed", response.json()["detail"]

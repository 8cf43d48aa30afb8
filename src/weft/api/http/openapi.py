"""The OpenAPI document, with the parts that all routes share: tokens, headers and problems."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Final

import msgspec
from fastapi import FastAPI

from weft.api.http.wire import FACE

DESCRIPTION: Final = """\
Agents join a swarm, take tasks and report what came of them; people and programs send tasks,
run plans, look and steer.

Every request but `/healthz` and `/readyz` carries `Authorization: Bearer …` (`weft token create`).
A `POST` may carry an `Idempotency-Key`: sent again with the same key, it is answered the same and
nothing happens twice. Errors are problems (RFC 9457) with a stable `type`.
"""

_OPEN: Final = ("/healthz", "/readyz")
_ANSWER: Final = "x-answer"
_KINDS: Final[dict[str, Any]] = {}  # types of answers, by name
_ANY: Final = {
    "400": "The request cannot be read.",
    "401": "The token is missing or not valid.",
    "403": "This token may not do that, or this page, or by that name of the server.",
    "404": "There is no such thing.",
    "408": "The body came too slowly.",
    "409": "Refused: a stale fence, a second end, no capacity, a repetition that is too early.",
    "413": "The body is too large.",
    "414": "The path is too long.",
    "415": "The body is not JSON.",
    "422": "Something in the request is not as it must be.",
    "429": "A queue is full.",
    "431": "There are too many headers.",
    "500": "A mistake of weft's own.",
    "503": "The store does not answer, or there is too much to do.",
}
_PROBLEM: Final = {
    "type": "object",
    "title": "Problem",
    "description": "What went wrong, why, and what to do next.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
_AGENT: Final = {
    "name": "X-Weft-Agent",
    "in": "header",
    "required": False,
    "description": "The agent that acts, by id or name, where a token has several.",
    "schema": {"type": "string"},
}
_ACTING: Final = ("/v1/me", "/v1/poll", "/v1/messages")
_TAKING: Final = ("/claim", "/accept", "/reject")


def answers(kind: Any) -> dict[str, Any]:
    """Name the type of a route's answer, for the document."""
    if _KINDS.setdefault(kind.__name__, kind) is not kind:
        raise _taken({kind.__name__})
    return {_ANSWER: kind.__name__}


def complete_document(app: FastAPI) -> None:
    """Complete the OpenAPI document of an application with the parts that all routes share."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = plain()
            for path, methods in document["paths"].items():
                for method, operation in methods.items():
                    _complete(path, method, operation)
            parts = document.setdefault("components", {})
            asked = parts.get("schemas", {})
            for unused in ("HTTPValidationError", "ValidationError"):
                asked.pop(unused, None)
            parts["schemas"] = by_name(asked, _describe(document), {"Problem": _PROBLEM})
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI wants it


def by_name(*components: Mapping[str, Any]) -> dict[str, Any]:
    """Join the schemas of requests and answers; raise if a name means two different things."""
    schemas: dict[str, Any] = {}
    for component in components:
        for name, schema in component.items():
            if name in schemas and set(schemas[name].get("enum", ())) != set(
                schema.get("enum", "?")
            ):
                raise _taken({name})
            schemas.setdefault(name, schema)
    return schemas


def _taken(names: Collection[str]) -> RuntimeError:
    return RuntimeError(
        f"The document would use one name for two schemas ({', '.join(sorted(names))}): give the "
        "request and the answer different names."
    )


def _describe(document: dict[str, Any]) -> dict[str, Any]:
    """Add the answer of each route to the document; return the schemas it refers to. msgspec, which
    encodes the answers, writes the schemas too: the two cannot differ."""
    names = sorted(_KINDS)
    described, parts = msgspec.json.schema_components(
        [FACE.describe(_KINDS[name]) for name in names], ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(names, described, strict=True))
    for methods in document["paths"].values():
        for operation in methods.values():
            name = operation.pop(_ANSWER, None)
            if name is not None:
                [done] = [code for code in operation["responses"] if code.startswith("2")]
                content = {"application/json": {"schema": schemas[name]}}
                operation["responses"][done]["content"] = content
    return parts


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """List the methods of a path, over all routes that match it."""
    return sorted(
        method.upper()
        for template, methods in app.openapi()["paths"].items()
        if re.fullmatch(_pattern(template), path)
        for method in methods
    )


@cache
def _pattern(template: str) -> str:
    parts = re.split(r"\{\w+\}", template)
    return "[^/]+".join(re.escape(part) for part in parts)


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    operation["operationId"] = f"{method} {path}".replace("/", " ").strip().replace(" ", "_")
    parameters = operation.setdefault("parameters", [])
    if method == "post":
        parameters.append(_KEY)
    if path in _ACTING or path.endswith(_TAKING):
        parameters.append(_AGENT)
    operation["security"] = [] if path in _OPEN else [{"token": []}]
    for status, description in _ANY.items():
        operation["responses"][status] = {
            "description": description,
            "content": {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            },
        }

"""The OpenAPI 3.1 document, made from the declarations of the operations."""

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.api.documents.common import ProblemDocument
from penstock.api.operations import JSON, Operation
from penstock.api.problems import MEDIA_TYPE
from penstock.trust.rules import Action

BASE = "/api/v1"
_REF = "#/components/schemas/{name}"

Schema = dict[str, Any]

_INTRODUCTION = (
    "What people and programs see of a broker, and how they steer it. Lists are cut: `next` of an"
    " answer is the `cursor` of the next request. Every refusal is a problem document (RFC 9457)."
)
_CHANGE_HEADERS: list[Schema] = [
    {
        "name": "X-Penstock",
        "in": "header",
        "description": "`1`; browsers must send it with a change.",
        "schema": {"type": "string", "enum": ["1"]},
    },
    {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The same key within 10 minutes gives the same answer, and changes nothing.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"},
    },
]


def openapi(operations: Iterable[Operation], version: str) -> Schema:
    operations = list(operations)
    schemas, components = _schemas(operations)
    paths: Schema = {}
    for operation in operations:
        path = paths.setdefault(f"/{operation.path}", {})
        path[operation.method.lower()] = _described(operation, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": version, "description": _INTRODUCTION},
        "servers": [{"url": BASE}],
        "security": [{"basic": []}, {"bearer": []}, {"session": []}, {}],
        "paths": paths,
        "components": {
            "schemas": _kept(components, schemas, operations),
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-penstock"},
            },
        },
    }


def _schemas(operations: list[Operation]) -> tuple[dict[Any, Schema], Schema]:
    kinds: list[Any] = [ProblemDocument]
    for operation in operations:
        kinds += [operation.query, operation.body, operation.answer]
    wanted = list(dict.fromkeys(kind for kind in kinds if kind not in {None, bytes}))
    refs, components = msgspec.json.schema_components(
        wanted, schema_hook=_anything, ref_template=_REF
    )
    return dict(zip(wanted, refs, strict=True)), components


def _anything(kind: type) -> Schema:
    """``object`` is any JSON; other types that msgspec does not know are mistakes."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "Any value."}  # an empty schema would count as none


def _kept(components: Schema, schemas: dict[Any, Schema], operations: list[Operation]) -> Schema:
    """Without those of queries: each parameter has its own schema."""
    queries = {_name(schemas[operation.query]) for operation in operations if operation.query}
    return {name: schema for name, schema in components.items() if name not in queries}


def _name(ref: Schema) -> str:
    return str(ref["$ref"]).rpartition("/")[2]


def _described(operation: Operation, schemas: dict[Any, Schema], components: Schema) -> Schema:
    parameters: list[Schema] = []
    if operation.query is not None:
        parameters += _parameters(components[_name(schemas[operation.query])])
    if operation.is_change:
        parameters += _CHANGE_HEADERS
    described: Schema = {
        "operationId": operation.id,
        "tags": [operation.family],
        "summary": operation.summary,
        "description": _description(operation),
        "parameters": parameters,
        "responses": {
            "200": _answer(operation, schemas),
            "default": {
                "description": "Refused",
                "content": {MEDIA_TYPE: {"schema": schemas[ProblemDocument]}},
            },
        },
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _body(operation, schemas)}
    return described


def _parameters(schema: Schema) -> Iterable[Schema]:
    required = schema.get("required", ())
    for name, found in schema["properties"].items():
        parameter = {"name": name, "in": "query", "schema": dict(found)}
        if "description" in found:
            parameter["description"] = parameter["schema"].pop("description")
        yield parameter | ({"required": True} if name in required else {})


def _body(operation: Operation, schemas: dict[Any, Schema]) -> Schema:
    if operation.body is bytes:
        return {"*/*": {"schema": {}}}
    return {JSON: {"schema": schemas[operation.body]}}


def _answer(operation: Operation, schemas: dict[Any, Schema]) -> Schema:
    schema = schemas[operation.answer] if operation.answer is not None else {}
    return {"description": "Done", "content": {operation.media_type: {"schema": schema}}}


def _description(operation: Operation) -> str:
    return "\n\n".join(filter(None, (operation.description, f"Needs: {needed(operation)}.")))


def needed(operation: Operation) -> str:
    """Which action the caller needs, in words."""
    if operation.is_public:
        return "nothing"
    if operation.action is None:
        return "a login; rights are checked for each topic"
    return " and ".join(f"`{action.word}`" for action in Action if action in operation.action)

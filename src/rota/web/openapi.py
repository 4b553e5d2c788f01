"""The OpenAPI document, and a page that shows it without anything from elsewhere."""

from functools import lru_cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic.json_schema import models_json_schema

from rota.web import documents

TITLE = "rota"
SUMMARY = "A multi-tenant, distributed job scheduler"
DESCRIPTION = """\
Schedules say what runs, when and what if; occurrences are their planned times; workers lease them.

Send `Authorization: Bearer <key>`. Errors are RFC 9457 problems with a stable `code`. Listings answer
`{"items", "next_cursor"}`: send `next_cursor` back as `cursor`, with the same filters. Times are RFC 3339 in UTC.
A POST that carries an `Idempotency-Key` has its effect once; the same key with another request is refused.
"""
# Described, but read by rota.catalog or by the route itself, so that the framework does not know them.
_EXTRA_MODELS = (
    documents.ProblemDocument,
    documents.ScheduleBody,
    documents.ScheduleChange,
    documents.BulkResult,
)
_OPEN_PATHS = ("/healthz", "/readyz", "/metrics")


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The document, made once for an application."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(
        title=TITLE, summary=SUMMARY, description=DESCRIPTION, version=app.version, routes=app.routes
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    _, extra = models_json_schema(
        [(model, "validation") for model in _EXTRA_MODELS], ref_template="#/components/schemas/{model}"
    )
    schemas.update(extra.get("$defs", {}))
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"key": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            if path in _OPEN_PATHS:
                operation["security"] = []
    app.openapi_schema = document
    return document


@lru_cache(maxsize=1)
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("rota.web", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )


def docs_page(document: dict[str, Any]) -> str:
    """The document as one page of HTML."""
    return _templates().get_template("docs.html").render(document=document, operations=_operations(document))


def _operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    shown = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {})
            shown.append(
                {
                    "method": method.upper(),
                    "path": path,
                    "text": operation.get("description") or operation.get("summary", ""),
                    "parameters": [
                        parameter for parameter in operation.get("parameters", []) if parameter["in"] != "path"
                    ],
                    "body": [_name(content.get("schema", {})) for content in body.values()],
                    "tag": (operation.get("tags") or ["cell"])[0],
                }
            )
    return sorted(shown, key=lambda entry: (entry["tag"], entry["path"], entry["method"]))


def _name(schema: dict[str, Any]) -> str:
    choices = [schema, *schema.get("anyOf", [])]
    return next((part["$ref"].rpartition("/")[2] for part in choices if "$ref" in part), "JSON")

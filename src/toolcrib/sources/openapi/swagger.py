"""Documents of version 2.0, in the words of version 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.sources.openapi.document import DocumentNode, OpenApiDocument

_STYLES = {"ssv": "spaceDelimited", "pipes": "pipeDelimited"}
_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
_FLOWS = {"application": "clientCredentials", "accessCode": "authorizationCode"}


def servers(root: Mapping[str, Any], address: str) -> list[dict[str, Any]]:
    """Where the service is."""
    path = str(root.get("basePath") or "/")
    if not root.get("host"):
        return [{"url": path}]
    schemes = root.get("schemes") or [address.partition(":")[0] if address.startswith("http") else "https"]
    scheme = next((one for one in ("https", "http") if one in schemes), "https")
    return [{"url": f"{scheme}://{root['host']}{path}"}]


def security(scheme: Mapping[str, Any]) -> dict[str, Any]:
    """One of the security definitions."""
    if scheme.get("type") == "basic":
        return {"type": "http", "scheme": "basic"}
    if scheme.get("type") != "oauth2":
        return dict(scheme)
    flow = str(scheme.get("flow", ""))
    return {"type": "oauth2", "flows": {_FLOWS.get(flow, flow): {"tokenUrl": scheme.get("tokenUrl")}}}


def parameter(node: DocumentNode) -> DocumentNode:
    """A parameter that stands in a path, a query or a header."""
    fields = node.value
    schema = {key: value for key, value in fields.items() if key not in ("name", "in", "required", "description")}
    made = {"name": fields.get("name"), "in": fields.get("in"), "required": fields.get("required"), "schema": schema}
    collection = fields.get("collectionFormat", "csv")
    if collection in _STYLES:
        made["style"] = _STYLES[collection]
    if fields.get("type") == "array":
        made["explode"] = collection == "multi"
    if fields.get("description"):
        made["description"] = fields["description"]
    return DocumentNode(made, node.base, node.where)


def body(document: OpenApiDocument, parameters: list[DocumentNode], operation: DocumentNode) -> DocumentNode | None:
    """The body that parameters in `body` or `formData` describe."""
    fields = [one for one in parameters if one.value.get("in") == "formData"]
    whole = next((one for one in parameters if one.value.get("in") == "body"), None)
    consumes = operation.value.get("consumes") or document.root.value.get("consumes") or ["application/json"]
    if whole is not None:
        content = {str(media): {"schema": whole.value.get("schema", {})} for media in consumes}
        converted = {"required": whole.value.get("required", False), "content": content}
        return DocumentNode(converted | {"description": whole.value.get("description")}, whole.base, whole.where)
    if not fields:
        return None
    files = any(one.value.get("type") == "file" for one in fields)
    media = _FORMS[0] if files else next((one for one in consumes if one in _FORMS), _FORMS[1])
    required = [one.value["name"] for one in fields if one.value.get("required")]
    properties = {one.value["name"]: _field(one.value) for one in fields}
    schema = {"type": "object", "properties": properties, "required": required}
    return DocumentNode(
        {"required": bool(required), "content": {media: {"schema": schema}}}, fields[0].base, fields[0].where
    )


def _field(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in ("name", "in", "required", "collectionFormat")}


def responses(document: OpenApiDocument, operation: DocumentNode, response: DocumentNode) -> DocumentNode:
    """A response, with its schema under every type that the operation produces."""
    if "schema" not in response.value:
        return response
    produces = operation.value.get("produces") or document.root.value.get("produces") or ["application/json"]
    content = {str(media): {"schema": response.value["schema"]} for media in produces}
    return DocumentNode({"content": content}, response.base, response.where)

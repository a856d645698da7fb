"""A service with an authorization server of its own on a loopback port, which speak the real protocol.

Whoever visits `/authorize` is asked nothing: the query `login` says who they are, `deny` that they refuse.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import jwt
import uvicorn
from jwt import PyJWK
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route


@dataclass
class Grant:
    login: str
    client: str
    scope: str
    resource: str | None
    thumbprint: str | None = None


@dataclass
class Service:
    """What it knows; a test changes the switches."""

    port: int
    lasts_s: int = 3600
    scopes: tuple[str, ...] = ("read", "write")
    cimd: bool = False
    dpop: bool = False
    nonces: bool = False
    codes: dict[str, tuple[Grant, dict[str, str]]] = field(default_factory=dict)
    access: dict[str, tuple[Grant, float]] = field(default_factory=dict)
    refresh: dict[str, Grant] = field(default_factory=dict)
    spent: set[str] = field(default_factory=set)
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    served: list[tuple[str, str]] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    tools: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    listed_for: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api(self) -> str:
        return f"{self.base}/api"

    @property
    def secrets(self) -> list[str]:
        """Every text that nobody may see."""
        return [*self.access, *self.refresh, *self.spent, *(c["client_secret"] for c in self.clients.values())]

    def revoke_all(self) -> None:
        """Take all access back, as a person does on the pages of the service."""
        self.access.clear()
        self.spent |= {*self.refresh}
        self.refresh.clear()

    def expire(self) -> None:
        """Let all access tokens expire; they can be renewed."""
        self.access.clear()

    # The service

    async def resource(self, request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        grant, until = self.access.get(token, (None, 0.0))
        where = f'resource_metadata="{self.base}/.well-known/oauth-protected-resource/api"'
        if grant is None or until < time.time():
            return Response(status_code=401, headers={"www-authenticate": f"Bearer {where}"})
        if grant.thumbprint is not None and (scheme != "DPoP" or self._proved(request, token) != grant.thumbprint):
            return Response(status_code=401, headers={"www-authenticate": f'DPoP error="invalid_token", {where}'})
        wanted = request.query_params.get("scope")
        if wanted and wanted not in grant.scope.split():
            told = f'Bearer error="insufficient_scope", scope="{wanted}", {where}'
            return Response(status_code=403, headers={"www-authenticate": told})
        self.served.append((grant.login, request.url.path))
        return JSONResponse({"login": grant.login})

    async def mcp(self, request: Request) -> Response:
        """An MCP server of the revision 2025-11-25 behind the same tokens: a tool for all, and the `tools` of each."""
        answer = await self.resource(request)
        if answer.status_code != 200 or request.method != "POST":
            return answer if answer.status_code != 200 else Response(status_code=405)
        asked = await request.json()
        login = json.loads(bytes(answer.body))["login"]
        told: dict[str, Any] = {"content": [{"type": "text", "text": login}]}
        match asked["method"]:
            case "initialize":
                told = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}}}
                told["serverInfo"] = {"name": "shop", "version": "1"}
            case "tools/list":
                told = {"tools": [{"name": "whoami", "description": "Who?", "inputSchema": {"type": "object"}}]}
                told["tools"] += self.tools.get(login, [])
                self.listed_for.append(login)
            case "tools/call":
                told["content"][0]["text"] = f"{login}" if asked["params"]["name"] == "whoami" else str(asked["params"])
            case "resources/list":
                told = {"resources": [{"uri": f"letters://{login}", "name": f"Letters of {login}"}]}
            case method if "id" in asked:
                error = {"code": -32601, "message": f"no {method}"}
                return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "error": error}, 200)
            case _:
                return Response(status_code=202)
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": told})

    def _proved(self, request: Request, token: str | None = None, nonce: str | None = None) -> str | None:
        """The thumbprint of the key that signed the proof of a request; None where it is none."""
        proof = request.headers.get("dpop", "")
        try:
            head = jwt.get_unverified_header(proof)
            claims = jwt.decode(proof, PyJWK(head["jwk"], "ES256"), algorithms=["ES256"])
        except (jwt.PyJWTError, KeyError):
            return None
        bare = f"{self.base}{request.url.path}"
        fits = (head["typ"], claims["htm"], claims["htu"]) == ("dpop+jwt", request.method, bare)
        if token is not None:
            fits = fits and claims.get("ath") == _digest(token)
        if nonce is not None:
            fits = fits and claims.get("nonce") == nonce
        jwk = head["jwk"]
        text = f'{{"crv":"{jwk["crv"]}","kty":"{jwk["kty"]}","x":"{jwk["x"]}","y":"{jwk["y"]}"}}'
        return _digest(text) if fits and "d" not in jwk else None

    # What is told

    async def about_resource(self, request: Request) -> Response:
        return JSONResponse(
            {
                "resource": self.api,
                "authorization_servers": [f"{self.base}/login"],
                "scopes_supported": [*self.scopes],
                "dpop_bound_access_tokens_required": self.dpop,
            }
        )

    async def about_server(self, request: Request) -> Response:
        data = {
            "issuer": f"{self.base}/login",
            "authorization_endpoint": f"{self.base}/authorize?theme=dark",
            "token_endpoint": f"{self.base}/token",
            "registration_endpoint": f"{self.base}/register",
            "revocation_endpoint": f"{self.base}/revoke",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            "client_id_metadata_document_supported": self.cimd,
            "authorization_response_iss_parameter_supported": True,
        }
        return JSONResponse(data)

    async def register(self, request: Request) -> Response:
        said = await request.json()
        id = f"client-{secrets.token_hex(4)}"
        self.clients[id] = {**said, "client_id": id, "client_secret": f"secret-{secrets.token_hex(16)}"}
        self.clients[id]["token_endpoint_auth_method"] = "client_secret_basic"
        return JSONResponse(self.clients[id], 201)

    async def authorize(self, request: Request) -> Response:
        given = dict(request.query_params)
        back = {"state": given["state"], "iss": f"{self.base}/login"}
        assert given["code_challenge_method"] == "S256"
        if "deny" in given:
            return RedirectResponse(f"{given['redirect_uri']}?{urlencode({**back, 'error': 'access_denied'})}", 302)
        code = secrets.token_urlsafe(16)
        grant = Grant(given.get("login", "?"), given["client_id"], given.get("scope", ""), given.get("resource"))
        self.codes[code] = (grant, given)
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode({**back, 'code': code})}", 302)

    # Tokens

    async def token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.asked.append(form["grant_type"])
        thumbprint = None
        if self.dpop:
            nonce = "nonce-1" if self.nonces else None
            thumbprint = self._proved(request, nonce=nonce)
            if thumbprint is None:
                headers = {"dpop-nonce": "nonce-1"} if self.nonces else {}
                return JSONResponse({"error": "use_dpop_nonce"}, 400, headers)
        client = self._client(request, form)
        if client is None:
            return JSONResponse({"error": "invalid_client"}, 401)
        grant = self._granted(form, client)
        if grant is None:
            return JSONResponse({"error": "invalid_grant"}, 400)
        grant.thumbprint = thumbprint
        return JSONResponse(self._given(grant, renewable=form["grant_type"] in ("authorization_code", "refresh_token")))

    def _client(self, request: Request, form: dict[str, str]) -> str | None:
        header = request.headers.get("authorization", "")
        if header.startswith("Basic "):
            id, _, secret = base64.b64decode(header[6:]).decode().partition(":")
            known = self.clients.get(id, {})
            return id if known.get("client_secret") == secret else None
        id = form.get("client_id", "")
        return id if id not in self.clients else None  # all that are registered have a secret

    def _granted(self, form: dict[str, str], client: str) -> Grant | None:
        match form["grant_type"]:
            case "authorization_code":
                grant, given = self.codes.pop(form["code"], (None, {}))
                fits = grant is not None and given["code_challenge"] == _digest(form["code_verifier"])
                fits = fits and given["redirect_uri"] == form["redirect_uri"] and given["client_id"] == client
                return grant if fits and form.get("resource") == given.get("resource") else None
            case "refresh_token":
                grant = self.refresh.pop(form["refresh_token"], None)
                if form["refresh_token"] in self.spent:  # somebody uses it a second time
                    self.revoke_all()
                self.spent.add(form["refresh_token"])
                return grant
            case "client_credentials":
                return Grant(client, client, form.get("scope", ""), form.get("resource"))
            case _:
                subject = form.get("subject_token") or form.get("assertion") or ""
                return Grant(f"for {subject}", client, form.get("scope", ""), form.get("resource"))

    def _given(self, grant: Grant, *, renewable: bool) -> dict[str, Any]:
        access, refresh = f"at-{secrets.token_hex(16)}", f"rt-{secrets.token_hex(16)}"
        self.access[access] = grant, time.time() + self.lasts_s
        told: dict[str, Any] = {"access_token": access, "token_type": "DPoP" if grant.thumbprint else "Bearer"}
        told |= {"expires_in": self.lasts_s, "scope": grant.scope}
        if renewable:
            self.refresh[refresh] = grant
            told["refresh_token"] = refresh
        return told

    async def revoke(self, request: Request) -> Response:
        token = str((await request.form())["token"])
        self.revoked.append(token)
        self.refresh.pop(token, None)
        return Response()

    def app(self) -> Starlette:
        """All of it."""
        return Starlette(
            routes=[
                Route("/api/mcp", self.mcp, methods=["GET", "POST", "DELETE"]),
                Route("/api", self.resource, methods=["GET", "POST"]),
                Route("/api/{path:path}", self.resource, methods=["GET", "POST"]),
                Route("/.well-known/oauth-protected-resource/api", self.about_resource),
                Route("/.well-known/oauth-authorization-server/login", self.about_server),
                Route("/register", self.register, methods=["POST"]),
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
                Route("/revoke", self.revoke, methods=["POST"]),
            ]
        )


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Service]:
    """A service that answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        service = Service(listener.getsockname()[1])
        config = uvicorn.Config(service.app(), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            while not server.started:  # noqa: ASYNC110 - uvicorn tells it in no other way
                await asyncio.sleep(0.01)
            yield service
        finally:
            server.should_exit = True
            await serving

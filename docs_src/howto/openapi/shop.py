"""A small service of pets, and a crib that uses it by its document."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from toolcrib import Crib
from toolcrib.sources.openapi import OpenApi

PETS = {1: "Rex"}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "security": [{"key": []}],
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    "paths": {
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "get": {"operationId": "getPet", "summary": "Get a pet", "tags": ["pets"], "responses": {}},
            "delete": {"operationId": "dropPet", "summary": "Take a pet out", "tags": ["pets"], "responses": {}},
        }
    },
}


class Service(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = PETS.get(int(self.path.rpartition("/")[2]))
        self.send_response(401 if self.headers["X-Key"] != "s3cret" else 200 if name else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"name": name, "you": self.headers["X-Key"]}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


async def use(url: str) -> None:
    pets = OpenApi(
        DOCUMENT,  # or a path, or an address
        base_url=url,
        trusted=True,
        include=["tag:pets"],
        credentials=lambda owner, scheme: {"ada": "s3cret"}.get(owner),
    )
    policy = {"grants": {"allow": [f"net:egress:{url}"]}, "rules": [{"ask": "pets.dropPet"}]}
    async with Crib([pets], policy=policy) as crib:
        ada = await crib.open(owner="ada", namespaces=["pets"])
        print([(tool.id, tool.does) for tool in ada.tools()])
        print((await ada.call("pets.getPet", {"id": 1})).data)
        print((await ada.call("pets.getPet", {"id": 7})).text)
        print((await ada.call("pets.getPet", {"id": "../admin"})).text)
        bob = await crib.open(owner="bob", namespaces=["pets"])
        print((await bob.call("pets.getPet", {"id": 1})).text)


with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    asyncio.run(use(f"http://127.0.0.1:{server.server_port}"))
    server.shutdown()
    thread.join()

"""A small service of pets, which stands for yours."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PETS = {1: "Rex", 2: "Tom"}


class Service(BaseHTTPRequestHandler):
    """Answer requests for pets; the key is looked at."""

    def do_GET(self) -> None:
        name = PETS.get(int(self.path.rpartition("/")[2]))
        self.answer(401 if self.headers["X-Key"] != "s3cret" else 200 if name else 404, {"name": name})

    def do_DELETE(self) -> None:
        self.answer(200, {"gone": PETS.pop(int(self.path.rpartition("/")[2]))})

    def answer(self, status: int, body: object) -> None:
        """Send one answer."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def start() -> ThreadingHTTPServer:
    """Return the service on a free port."""
    return ThreadingHTTPServer(("127.0.0.1", 0), Service)

"""A server that speaks S3, with one bucket, until its input ends; it prints its address."""

import logging
import os
import sys
import urllib.request

from moto.server import ThreadedMotoServer

from tests.archive.conftest import BUCKET


def main() -> None:
    """Serve."""
    logging.disable(logging.INFO)
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "test")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "test")
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{address}/{BUCKET}", method="PUT")).close()
    print(address, flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()

"""`python -m toolcrib.demo`: the order desk with its console; `--tour` shows it in the terminal instead."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from toolcrib.cli.command import perform
from toolcrib.demo import home, server
from toolcrib.demo.tour import Tour


def main() -> None:
    """Runs it and ends the process."""
    parser = argparse.ArgumentParser(prog="python -m toolcrib.demo", description="Toolcrib at an order desk.")
    parser.add_argument("--folder", type=Path, help="where its files are kept (default: %(default)s)", default=home())
    parser.add_argument("--port", type=int, help="of the console (default: %(default)s)", default=server.PORT)
    parser.add_argument("--tour", action="store_true", help="walk through it in the terminal instead")
    given = parser.parse_args()
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    if not given.tour:
        sys.exit(server.run(folder, given.port))
    tour = Tour(folder)
    sys.exit(perform(tour.terminal, tour.run))


if __name__ == "__main__":
    main()

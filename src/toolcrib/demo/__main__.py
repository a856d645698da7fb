"""`python -m toolcrib.demo`: the tour."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from toolcrib.cli.command import perform
from toolcrib.demo import home
from toolcrib.demo.tour import Tour


def main() -> None:
    """Runs the tour and ends the process."""
    parser = argparse.ArgumentParser(prog="python -m toolcrib.demo", description="A tour of Toolcrib at an order desk.")
    parser.add_argument("--folder", type=Path, help="where its files are kept (default: %(default)s)", default=home())
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    tour = Tour(folder)
    sys.exit(perform(tour.terminal, tour.run))


if __name__ == "__main__":
    main()

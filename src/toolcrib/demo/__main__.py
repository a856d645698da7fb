"""`python -m toolcrib.demo`: the tour."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from toolcrib.demo import home
from toolcrib.demo.tour import Tour


def main() -> None:
    """Runs the tour and ends the process."""
    parser = argparse.ArgumentParser(prog="python -m toolcrib.demo", description="A tour of Toolcrib at an order desk.")
    parser.add_argument("--folder", type=Path, help="where its files are kept (default: %(default)s)", default=home())
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(Tour(folder).run())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()

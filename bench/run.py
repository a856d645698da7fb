"""`make bench`: the speed of Toolcrib beside its peers. Timings never fail anything; only ratios of one run count."""

import sys
from pathlib import Path

# Run as a script, this folder is what Python searches first; the modules are imported as `bench.*`.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())

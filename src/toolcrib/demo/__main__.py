"""`python -m toolcrib.demo`: the same as `toolcrib demo`."""

from __future__ import annotations

import sys

from toolcrib.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["demo"]
    main()

"""`python -m toolcrib`: the command line."""

from __future__ import annotations

from toolcrib.cli import main

if __name__ == "__main__":
    main()

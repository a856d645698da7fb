"""Makes the clock of a process wrong by as many seconds as a file says, which may change at any time."""

import os
import time
from pathlib import Path

_PATH = Path(os.environ["TOOLCRIB_TEST_CLOCK"])
_time = time.time


def _wrong() -> float:
    try:
        return _time() + float(_PATH.read_text() or 0)
    except FileNotFoundError:
        return _time()


time.time = _wrong

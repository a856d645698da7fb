"""The `.env` beside a `crib.yaml`: variables of a project that its person does not want in the shell or in the file."""

from __future__ import annotations

import os
from pathlib import Path

from toolcrib.cli.trust import TRUST

NAME = ".env"
OWN = {TRUST, "TOOLCRIB_ALLOW_ROOT"}
"""What a folder may not say of itself."""


def set_variables(folder: Path) -> None:
    """Set what the `.env` of a folder that is trusted says; a variable that is set already stays as it is."""
    path = folder / NAME
    if not path.is_file():
        return
    from dotenv import dotenv_values

    for name, value in dotenv_values(path, interpolate=False, encoding="utf-8").items():
        if value and name not in OWN:
            os.environ.setdefault(name, value)

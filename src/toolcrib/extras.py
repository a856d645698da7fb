"""How an extra of Toolcrib is installed: the one place that spells the line, so that it works as it is printed.

A package index is one place to install from; a clone, a wheel or a repository are others. Installers write down which
it was (`direct_url.json`), and the line names the same place, for the same environment. Nothing is loaded before it is
asked for, since most programs never need the line.
"""

from __future__ import annotations

NAME = "toolcrib"


def install(*extras: str) -> str:
    """Return the command that adds these extras to the Toolcrib that runs."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        direct_url = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:  # its source is on the path, and nothing is installed
        direct_url = None
    return f"{_installer()} {requirement(direct_url, extras)}"


def requirement(direct_url: str | None, extras: tuple[str, ...]) -> str:
    """Return what to install, as words for a shell; `direct_url` is the text of that file, None for an index."""
    import json
    import shlex
    from urllib.parse import unquote, urlsplit

    origin = json.loads(direct_url or "{}")
    wanted = f"[{','.join(extras)}]" if extras else ""
    match origin:
        case {"dir_info": directory, "url": url}:
            place = shlex.quote(unquote(urlsplit(url).path) + wanted)
            return f"-e {place}" if directory.get("editable") else place
        case {"vcs_info": {"vcs": kind, "commit_id": commit}, "url": url}:
            return shlex.quote(f"{NAME}{wanted} @ {kind}+{url}@{commit}")
        case {"url": url}:
            return shlex.quote(f"{NAME}{wanted} @ {url}")
    return f"'{NAME}{wanted}'"


def _installer() -> str:
    """Return the command that installs into the environment of this interpreter."""
    import shlex
    import shutil
    import sys
    from importlib.util import find_spec
    from pathlib import Path

    here = Path(sys.executable).parent
    if find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(sys.executable)}"
    if (pip := shutil.which("pip")) and Path(pip).parent == here:
        return "pip install"
    return f"{shlex.quote(sys.executable)} -m pip install"

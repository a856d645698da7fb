"""Tools of a project with mistakes."""

from toolcrib import tool


@tool(namespace="ops", tags=["infra"], category="machines", capabilities=["exec:cmd:systemctl"])
def restart_host(host: str, mode: str = "fast", force: bool = False, count: int = 1) -> str:
    """Restart a machine."""
    return host


@tool(namespace="ops", read_only=True, capabilities=["fs:read:{path}"])
def read_log(path: str) -> str:
    """Read a log."""
    return path


@tool(namespace="ops", read_only=True, capabilities=["net:egress:status.example:8443"])
def status() -> str:
    """Tell how things are."""
    return "well"

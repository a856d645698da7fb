"""How long a validator of a file takes in the sandbox of its language."""

from bench.probe import probe
from bench.section import Section


def measure(quick: bool) -> Section:
    """One after another, and sixteen at once, each run from a clean state."""
    found = probe("sandbox", 320 if quick else 3_200)
    return Section(
        name="sandbox",
        title="A validator in the sandbox",
        columns=("language", "first", "median", "p99", "a second"),
        cells=tuple(
            (
                language,
                f"{row['first_ms']:.0f} ms",
                f"{row['p50_ms']:.2f} ms",
                f"{row['p99_ms']:.2f} ms",
                f"{row['per_s']:,.0f}",
            )
            for language, row in found.items()
        ),
        notes=(
            "1 KB of arguments; the first run starts the workers, and compiles the engine where no cache has it.",
            "Goal for JavaScript: 0.8 ms in the median, 3 ms at p99, 2,000 a second on two processors.",
        ),
        data=found,
    )

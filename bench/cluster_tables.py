"""The tables of `bench.cluster`."""

from collections.abc import Iterator
from typing import Any

from bench.section import Section

Found = dict[str, Any]
Cells = tuple[str, ...]

OURS = {
    "toolcrib, 256 in flight": ("toolcrib 256", "raw postgres 256"),
    "toolcrib, 64 in flight": ("toolcrib 64", "raw postgres 64"),
    "toolcrib, 256 in flight, one process": ("toolcrib together 256", "raw postgres 256"),
}
RAW = {
    "raw asyncpg, 256 in flight": ("raw postgres 256", "calls_s"),
    "raw asyncpg, 64 in flight": ("raw postgres 64", "calls_s"),
    "raw NATS JetStream, 256 in flight": ("raw nats 256", "messages_s"),
}
PROCESSES = {"api": "API node", "worker": "worker", "postgres": "Postgres", "nats": "NATS"}


def calls(found: Found, problems: tuple[str, ...] = ()) -> list[Section]:
    """Calls a second, and where their CPU goes."""
    best = max((row["calls_s"] for row in found["dbos"].values()), default=None)
    return [
        Section(
            name="calls",
            title="Durable calls a second over Postgres and NATS (effect `once`)",
            columns=("row", "calls/s", "a call, p50", "share of raw asyncpg", "times DBOS"),
            cells=(*_own_rates(found, best), *_raw_rates(found), *_dbos_rates(found)),
            notes=(
                "An API node makes the calls, over 32 sessions; one worker process with 256 slots runs them, in the "
                "third row the API node itself. Every call was counted afterwards: each is done, and each of its "
                f"events is there once. 256 in flight: the median of {len(found['toolcrib 256']['turns'])} turns.",
                "Raw asyncpg: the same rows of events and calls with unnest, three commits a call, by two connections, "
                "each with half of what is in flight in a batch. It has no sessions, no guards and tells nobody. "
                "Raw NATS: publish, pull and acknowledge in one process, in messages a second.",
                "DBOS: a workflow without steps, 256 in flight, one worker process, on the same server. Where somebody "
                "waits, each gets its result before the next, as ours do; the best of these rows counts. Where nobody "
                "waits, 256 are kept on their way and their ends are counted.",
                *problems,
                "Goal: at least 3,000 with 256 in flight on 2 cores, and at least 10 times DBOS.",
            ),
            data=found,
        ),
        _cpu(found),
    ]


def _own_rates(found: Found, best: float | None) -> Iterator[Cells]:
    for label, (name, raw) in OURS.items():
        row = found[name]
        share = f"{row['calls_s'] / found[raw]['calls_s']:.2f}"
        times = "-" if not best else f"{row['calls_s'] / best:.1f}"
        yield label, f"{row['calls_s']:,}", f"{row['call_ms']['p50']:.1f} ms", share, times


def _raw_rates(found: Found) -> Iterator[Cells]:
    for label, (name, key) in RAW.items():
        yield label, f"{found[name][key]:,}", "-", "-", "-"


def _dbos_rates(found: Found) -> Iterator[Cells]:
    for polling, row in found["dbos"].items():
        yield _dbos_label(polling, row), f"{row['calls_s']:,.0f}", "-", "-", "-"
        yield f"{_dbos_label(polling, row)}, nobody waits", f"{row['counted_s']:,.0f}", "-", "-", "-"


def _dbos_label(polling: str, row: Found) -> str:
    often = f"polls every {float(polling):g} s" + (" (default)" if float(polling) == 1 else "")
    return f"DBOS {row['version']}, {often}"


def _cpu(found: Found) -> Section:
    rows = {label: found[name]["cpu_us"] for label, (name, _) in OURS.items()}
    return Section(
        name="cpu",
        title="CPU of a durable call",
        columns=("row", *PROCESSES.values(), "together"),
        cells=tuple(
            (
                label,
                *(f"{row[name]:,} us" if name in row else "-" for name in PROCESSES),
                f"{sum(row.values()):,} us",
            )
            for label, row in rows.items()
        ),
        notes=("Of each process with its children, while the calls of the table above were counted.",),
        data=rows,
    )


def lags(found: Found, problems: tuple[str, ...] = ()) -> list[Section]:
    """How long things take, one at a time."""
    commit, hop = found["raw postgres"]["commit_ms"]["p50"], found["raw nats"]["hop_ms"]["p50"]
    notify, request = found["raw postgres"]["notify_ms"]["p50"], found["raw nats"]["request_ms"]["p50"]
    start = f"{2 * commit + hop:.2f} ms (2 commits, hop)"
    cancel = found["cancel"]
    rows: list[tuple[str, Found, str]] = [
        ("toolcrib: enqueue to start", found["start"], start),
        (f"toolcrib: the same beside {found['start, loaded']['load']:,} calls/s", found["start, loaded"], start),
        ("toolcrib: chunk to reader, 1 stream", found["chunk, 1 stream"], f"{notify:.2f} ms (commit, notify)"),
        ("toolcrib: chunk to reader, 20 streams", found["chunk, 20 streams"], f"{notify:.2f} ms (commit, notify)"),
        ("toolcrib: cancel to done", cancel["done"], f"{request + notify:.2f} ms (request, commit, notify)"),
        ("toolcrib: cancel to the body", cancel["body"], f"{request:.2f} ms (request)"),
    ]
    for polling, row in found["dbos"].items():
        rows.append((f"{_dbos_label(polling, row)}: enqueue to start", row["start"], "-"))
        rows.append((f"{_dbos_label(polling, row)}: cancel to the body", row["cancel"], "-"))
    return [
        Section(
            name="lags",
            title="Latency between two nodes",
            columns=("row", "p50", "p95", "highest", "count", "the raw steps, p50"),
            cells=tuple(_lag(*row) for row in rows),
            notes=(
                "From just before the submit, output or cancel to the body or reader in the other process. A stream "
                "makes a chunk every 20 ms, and each is committed before its reader sees it.",
                f"Raw steps, each alone with the plain driver: a commit of a call and an event ({commit:.2f} ms), one "
                f"that also reaches a listener ({notify:.2f} ms), a message by JetStream to whoever pulls ({hop:.2f} "
                f"ms), a request and its answer ({request:.2f} ms).",
                *problems,
                "Goal: p50 of enqueue to start at most 4 ms, chunk to reader 8 ms, cancel 5 ms.",
            ),
            data=found,
        )
    ]


def _lag(label: str, row: Found, raw: str) -> Cells:
    return label, *(f"{row[name]:.2f} ms" for name in ("p50", "p95", "max")), f"{row['count']:,}", raw


def waiting(found: Found, problems: tuple[str, ...] = ()) -> list[Section]:
    """What waits, and how it goes on."""
    commit, hop = found["raw postgres"]["commit_ms"]["p50"], found["raw nats"]["hop_ms"]["p50"]
    count = f"{found['waiting']:,}"
    return [
        Section(
            name="answers",
            title=f"Answer to resumed, with {count} waiting calls",
            columns=("row", "p50", "p95", "highest", "count", "the raw steps, p50"),
            cells=(_lag("toolcrib", found["answer"], f"{2 * commit + hop:.2f} ms (2 commits, hop)"),),
            notes=(
                "From just before the answer on the API node to the line after the question in the body, on the "
                "worker, one at a time. One call of each session had asked in its body, 99 wait for an approval; they "
                f"were made in {found['fill_s']:g} s.",
                *problems,
                "Goal: p50 at most 8 ms with 100,000 waiting calls.",
            ),
            data=found,
        ),
        _rest(found["rest"], count),
    ]


def _rest(rest: Found, count: str) -> Section:
    cpu, memory = rest["cpu_percent"], rest["memory_mb"]
    nodes = cpu["api"] + cpu["worker"]
    cells = [(label, f"{cpu[name]:.2f} %", f"{memory[name]:.0f} MB") for name, label in PROCESSES.items()]
    return Section(
        name="rest",
        title=f"{count} waiting calls at rest",
        columns=("row", "CPU", "memory"),
        cells=(("toolcrib: API node and worker", f"{nodes:.2f} %", "-"), *cells),
        notes=(
            "Shares of one core, while nothing happens. Memory is what no other process shares.",
            f"Tables with their indexes: calls {rest['calls_mb']:.0f} MB, calls and events {rest['table_mb']:.0f} MB.",
            "Goal: API node and worker under 1 % of a core.",
        ),
        data=rest,
    )

"""How the console does with much to show, measured in a browser: `python -m bench.console`.

It serves 10,000 tools, 10,000 sessions, a session of 100,000 events and one of 10,000 spans from a process of its own,
looks at them in a headless Chromium, and prints what the browser itself measured. Timings never fail anything.

    python -m bench.console waterfall  # the spans alone
    python -m bench.console screens    # every screen over a log of a week with 1,000,000 calls (`--calls`)
    python -m bench.console points     # plots of 10,000 points
    python -m bench.console live       # while 200 events a second come in

`--folder` keeps the log of a week, and the next run takes it as it is; `--prepare` makes it and nothing else.
"""

import argparse
import asyncio
import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from playwright.async_api import Browser, Page, async_playwright

TOOLS = 10_000
SESSIONS = 10_000
EVENTS = 100_000
SPANS = 10_000
CHILDREN = 9
BURST_S = 10.0
CALLS_S = 67  # each has three events
PATIENCE_MS = 300_000
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

# Frames, long tasks and inputs, as the browser counts them.
WATCH = """() => {
  const seen = window.seen = {frames: [], inputs: [], over: false};
  const note = (one) => one.name === "keydown" && seen.inputs.push(one.duration);
  new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({type: "event", durationThreshold: 16});
  let last = performance.now();
  const frame = (now) => { seen.frames.push(now - last); last = now; if (!seen.over) requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""
FOUND = """() => { window.seen.over = true; return window.seen; }"""
FIRST_ROW = """new MutationObserver((_, observer) => {
  if (!document.querySelector(".list .row")) return;
  observer.disconnect();
  requestAnimationFrame(() => (window.firstRow = performance.now()));
}).observe(document, {childList: true, subtree: true});"""
SCROLL = """async ([label, step, frames]) => {
  const box = document.querySelector(`.list[aria-label="${label}"]`);
  for (let n = 0; n < frames; n++) {
    box.scrollTop += step;
    await new Promise(requestAnimationFrame);
  }
  return box.scrollTop;
}"""
TO_THE_END = """async (label) => {
  const box = document.querySelector(`.list[aria-label="${label}"]`);
  const begun = performance.now();
  let grown = begun;
  for (let height = 0; performance.now() - grown < 4000; ) {
    box.scrollTop = box.scrollHeight;
    await new Promise(requestAnimationFrame);
    if (box.scrollHeight !== height) grown = performance.now();
    height = box.scrollHeight;
  }
  return [grown - begun, box.scrollHeight];
}"""


# The server


async def serve(port: int, folder: Path, *, alone: bool, spans: int = SPANS) -> None:
    from toolcrib import Context, Crib, tool
    from toolcrib.console import console
    from toolcrib.serve.http import Site, server

    def filler(number: int) -> Any:
        async def run(a: int = 0) -> int:
            return a

        said = f"Filler number {number}, which adds nothing to {number + 1}."
        return tool(name=f"tool_{number:05d}", namespace=f"space{number % 50:02d}", description=said, read_only=True)(
            run
        )

    @tool(namespace="space00", read_only=True)
    async def many(ctx: Context) -> int:
        """Make calls of its own."""
        for n in range(CHILDREN):
            await ctx.call("space00.tool_00000", {"a": n})
        return CHILDREN

    tools, sessions, events = (50, 1, 3) if alone else (TOOLS, SESSIONS, EVENTS)
    crib = Crib([many, *(filler(n) for n in range(tools))], store=f"sqlite:///{folder}/bench.db")
    async with crib:
        for n in range(sessions):
            await crib.store.open(f"session-{n:05d}", "anyone", time.time() - sessions + n)
        session = await crib.open("big", owner="anyone", namespaces=["*"])
        calls = events // 3
        for start in range(0, calls, 100):
            made = range(start, min(start + 100, calls))
            await asyncio.gather(*(session.call("space00.tool_00000", {"a": n}) for n in made))
        deep = await crib.open("spans", owner="anyone", namespaces=["*"])
        for _ in range(spans // (CHILDREN + 1) // 10):
            await asyncio.gather(*(deep.call("space00.many", {}) for _ in range(10)))
        site = Site(crib, namespaces=["*"])
        site.mount("/", console())
        await site.open()
        await server(site, lambda: print("ready", flush=True), host="127.0.0.1", port=port, lifespan="off").serve()


async def prepare_week(folder: Path, calls: int) -> str:
    """Writes the log of a week with so many calls and counts them all, unless it is there."""
    from bench.rollups import fill_file
    from toolcrib import Crib

    where = f"sqlite:///{folder}/week.db"
    if not (folder / "week.db").exists():
        async with Crib([], store=where):
            pass  # the tables are there
        fill_file(folder / "week.db", calls, time.time())
        async with Crib([], store=where) as crib:
            while await crib.store.roll_up():
                pass
    return where


async def serve_week(port: int, folder: Path, calls: int) -> None:
    """Serves a log of a week with so many calls, all of which are counted."""
    from toolcrib import Crib
    from toolcrib.console import console
    from toolcrib.serve.http import Site, server

    where = await prepare_week(folder, calls)
    async with Crib([], store=where) as crib:
        site = Site(crib, namespaces=["*"])
        site.mount("/", console())
        await site.open()
        await server(site, lambda: print("ready", flush=True), host="127.0.0.1", port=port, lifespan="off").serve()


# What is measured


def report(name: str, *figures: str) -> None:
    print(f"{name:<34} {'   '.join(figures)}", flush=True)


def weight() -> None:
    from toolcrib.console import PAGE

    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in PAGE.rglob("*") if path.is_file()}
    first = ["index.html", *re.findall(r"assets/([\w.-]+)", (PAGE / "index.html").read_text("utf-8"))]
    report(
        "size, gzipped",
        f"first screen {sum(sizes[name] for name in first) / 1024:.0f} KB",
        f"all {sum(sizes.values()) / 1024:.0f} KB",
    )


async def first_screen(browser: Browser, url: str) -> None:
    paints, rows = [], []
    for _ in range(5):
        page = await browser.new_page()
        await page.add_init_script(FIRST_ROW)
        await page.goto(url)
        await until(page, "window.firstRow > 0")
        paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? window.firstRow"
        paints.append(await page.evaluate(paint))
        rows.append(await page.evaluate("window.firstRow"))
        await page.close()
    report(
        "first screen, nothing cached",
        f"first paint {median(paints):.0f} ms",
        f"first tools {median(rows):.0f} ms (of 5, worst {max(rows):.0f})",
    )


async def until(page: Page, holds: str) -> None:
    """Asks again and again: the policy of the page lets no tool wait within it."""
    while not await page.evaluate(holds):  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.005)


def slow(frames: list[float]) -> str:
    over = [frame for frame in frames if frame > 50]
    return f"{len(frames)} frames, {len(over)} over 50 ms (worst {max(frames):.0f} ms)"


async def opened(browser: Browser, url: str) -> Page:
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(PATIENCE_MS)
    await page.goto(url)
    return page


async def burst(browser: Browser, url: str) -> None:
    page = await opened(browser, f"{url}/#/live")
    async with httpx.AsyncClient(base_url=f"{url}/v1") as http:
        await http.post("/sessions", json={"id": "burst"})
        await page.get_by_role("heading", name="Live").wait_for()
        await page.evaluate(WATCH)
        begun, made, pressed = time.monotonic(), 0, 0
        while (now := time.monotonic() - begun) < BURST_S:
            due = [
                http.post("/sessions/burst/calls", json={"tool": "space00.tool_00000", "args": {"a": n}})
                for n in range(made, int(now * CALLS_S))
            ]
            await asyncio.gather(*due)
            made += len(due)
            if pressed < now * 8:  # somebody types and goes through the list
                await page.keyboard.press("ArrowDown" if pressed % 2 else "Tab")
                pressed += 1
            await asyncio.sleep(0.005)
        await page.wait_for_timeout(1000)
        shown = await page.locator("h1 + span").inner_text()
    found = await page.evaluate(FOUND)
    rate = f"{made * 3 / BURST_S:.0f} events/s for {BURST_S:.0f} s, shows {shown}"
    inputs = sorted(found["inputs"])
    late = f"{pressed} keys, {len(inputs)} over 16 ms" + (f" (worst {inputs[-1]:.0f} ms)" if inputs else "")
    report("live", rate, slow(found["frames"]), late)
    await page.close()


async def long_log(browser: Browser, url: str) -> None:
    page = await opened(browser, f"{url}/#/sessions/big")
    await page.get_by_role("button", name="done").last.wait_for()
    await page.evaluate("document.querySelector('.list').scrollTop = 0")
    await page.evaluate(WATCH)
    for step in (90, 900, 9000):
        await page.evaluate(SCROLL, ["Events", step, 200])
    found = await page.evaluate(FOUND)
    count = await page.get_by_label("At event").evaluate("one => Number(one.max).toLocaleString()")
    report(f"log of {count} events, scrolled", slow(found["frames"]))
    await page.close()


FALL = """async ([steps, kind]) => {
  const [rows, strip] = [document.querySelector(".fall-rows"), document.querySelector(".fall-map")];
  const scrub = document.querySelector("#scrub");
  const at = strip.getBoundingClientRect();
  for (let n = 0; n < steps; n++) {
    if (kind === "scroll") rows.scrollTop += n % 2 ? 400 : 3000;
    if (kind === "zoom") {
      const turned = {deltaY: n % 60 < 30 ? -100 : 100, clientX: at.x + at.width / 3, cancelable: true};
      strip.dispatchEvent(new WheelEvent("wheel", turned));
    }
    if (kind === "replay") {
      scrub.value = String(Math.round((Number(scrub.max) * (n + 1)) / steps));
      scrub.dispatchEvent(new InputEvent("input", {bubbles: true}));
    }
    await new Promise(requestAnimationFrame);
  }
}"""


async def traced(browser: Browser, page: Page, work: Any) -> str:
    """What the main thread of a page computes while something is done, in time of the processor."""
    await browser.start_tracing(page=page, categories=["toplevel", "__metadata"])
    await work
    events = json.loads(await browser.stop_tracing())["traceEvents"]
    mains = {(e["pid"], e["tid"]) for e in events if e.get("args", {}).get("name") == "CrRendererMain"}
    took = [e["tdur"] / 1000 for e in events if "tdur" in e and (e["pid"], e["tid"]) in mains]
    over = sum(one > 50 for one in took)
    return f"{len(took)} tasks, {over} of more than 50 ms of the processor (worst {max(took, default=0):.0f} ms)"


async def calls(url: str) -> None:
    """Make calls for a while."""
    async with httpx.AsyncClient(base_url=f"{url}/v1") as http:
        begun, made = time.monotonic(), 0
        while (now := time.monotonic() - begun) < BURST_S:
            body = {"tool": "space00.tool_00000", "args": {"a": 1}}
            due = [http.post("/sessions/spans/calls", json=body) for _ in range(made, int(now * CALLS_S))]
            await asyncio.gather(*due)
            made += len(due)
            await asyncio.sleep(0.005)


async def waterfall(browser: Browser, url: str) -> None:
    """Measure 10,000 spans: scrolled, zoomed, replayed, and while events come in."""
    page = await opened(browser, f"{url}/#/sessions/spans")
    begun = time.monotonic()
    await until(page, f"document.querySelector('.fall-name')?.textContent.startsWith('{SPANS:,} spans')")
    loaded = time.monotonic() - begun
    for kind, steps in (("scroll", 300), ("zoom", 300), ("replay", 100)):
        await page.evaluate(WATCH)
        tasks = await traced(browser, page, page.evaluate(FALL, [steps, kind]))
        report(f"{SPANS:,} spans, {kind}", slow((await page.evaluate(FOUND))["frames"]), tasks)
    await page.evaluate(WATCH)  # the slider is at the end again, so what happens is followed
    tasks = await traced(browser, page, calls(url))
    found = await page.evaluate(FOUND)
    report(f"{SPANS:,} spans, {CALLS_S * 3} events/s", slow(found["frames"]), tasks, f"loaded in {loaded:.1f} s")
    await page.close()


async def long_list(browser: Browser, url: str, screen: str, label: str, word: str) -> None:
    page = await opened(browser, f"{url}/#/{screen}")
    await page.locator(".list .row").first.wait_for()
    await page.evaluate(WATCH)
    took, height = await page.evaluate(TO_THE_END, label)
    found = await page.evaluate(FOUND)
    begun = time.monotonic()
    await page.get_by_role("searchbox").first.fill(word)
    await until(page, "document.querySelectorAll('.list .row').length === 1")
    search = (time.monotonic() - begun) * 1000
    rows = await page.evaluate("document.querySelector('.list .row').parentElement.offsetHeight")
    report(
        f"{height // rows:,} {screen}",
        f"all paged in within {took / 1000:.1f} s",
        slow(found["frames"]),
        f"search {search:.0f} ms",
    )
    await page.close()


SCREENS = {
    "overview": "[aria-label='By tool'] tbody tr",
    "tools": "main .nothing, main .list .row",
    "live": "main .list, main .nothing",
    "inbox": "main .nothing, main .list",
    "sessions": "main .list .row",
    "agents": "main .nothing",
    "sources": "main .list .row",
    "accounts": "main .nothing",
    "cluster": "main figure",
    "audit": "main .list .row, main .nothing",
    "policy": "main .sheet",
}
"""What is there once a screen has its data."""


async def screens(browser: Browser, url: str, looks: int = 10) -> None:
    for screen, there in SCREENS.items():
        paints, data = [], []
        for _ in range(looks):
            page = await browser.new_page()
            await page.add_init_script(FIRST_ROW.replace('".list .row"', json.dumps(there)))
            await page.goto(f"{url}/#/{screen}")
            await until(page, "window.firstRow > 0")
            paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? window.firstRow"
            paints.append(await page.evaluate(paint))
            data.append(await page.evaluate("window.firstRow"))
            await page.close()
        figures = f"first data {median(data):.0f} ms (of {looks}, worst {max(data):.0f})"
        report(screen, f"first paint {median(paints):.0f} ms", figures)


async def points(browser: Browser, url: str, count: int = 10_000, step: int = 3600) -> None:
    """Measure plots of so many points each: drawn, and gone through with the pointer and with keys."""
    async with httpx.AsyncClient(base_url=f"{url}/v1") as http:
        told = (await http.get("/stats")).json()
    first = int(time.time() - count * step) // step * step
    numbers = told["total"] | {"p50_ms": 20.0, "p95_ms": 90.0, "p99_ms": 400.0, "cost": 0.01, "turns": 3, "calls": 9}
    numbers |= {"failures": {"failed": 2, "timeout": 1}, "input_tokens": 100, "output_tokens": 30, "sessions": 1}
    told["points"] = [
        numbers | {"at": first + n * step, "calls": 3 + n % 7, "p50_ms": 20 + n % 13, "input_tokens": 50 + n % 90}
        for n in range(count)
    ]
    told["groups"] = [
        numbers | {"name": f"tool{k}", "points": [(n * k) % 11 for n in range(count)], "failed": [k % 2] * count}
        for k in range(30)
    ]
    told |= {"since": first, "until": first + count * step, "step_s": step, "total": numbers, "by": "tool"}
    page = await browser.new_page(viewport={"width": 1280, "height": 4000})
    await page.route("**/v1/stats*", lambda route: route.fulfill(json=told))

    async def drawn() -> None:
        await page.goto(f"{url}/#/overview")
        await page.get_by_role("slider", name="Calls by tool").wait_for()
        await page.wait_for_timeout(1000)

    async def hovered() -> None:
        box = await page.get_by_role("region", name="Calls by tool").locator(".u-over").bounding_box()
        assert box is not None
        for n in range(200):
            await page.mouse.move(box["x"] + n / 200 * box["width"], box["y"] + 50)

    async def keyed() -> None:
        await page.get_by_role("slider", name="Calls by tool").focus()
        for _ in range(100):
            await page.keyboard.press("ArrowLeft")

    await page.goto(f"{url}/#/tools")
    for name, work in (("drawn", drawn), ("200 moves of the pointer", hovered), ("100 keys", keyed)):
        await page.evaluate(WATCH)
        tasks = await traced(browser, page, work())
        report(f"plots of {count:,} points, {name}", slow((await page.evaluate(FOUND))["frames"]), tasks)
    await page.close()


async def look(url: str, only: str | None) -> None:
    chromium = os.environ.get("TOOLCRIB_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        if only == "screens":
            await screens(browser, url)
        elif only == "points":
            await points(browser, url)
        elif only == "live":
            await burst(browser, url)
        else:
            await waterfall(browser, url)
        if only is None:
            await first_screen(browser, url)
            await burst(browser, url)
            await long_log(browser, url)
            await long_list(browser, url, "tools", "Tools", "tool_09999")
            await long_list(browser, url, "sessions", "Sessions", "session-04242")
        await browser.close()


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--serve", nargs=2, metavar=("PORT", "FOLDER"), help=argparse.SUPPRESS)
    ask.add_argument("only", nargs="?", choices=["waterfall", "screens", "points", "live"], help="measure that alone")
    ask.add_argument("--calls", type=int, default=1_000_000, help="of the week that the screens show")
    ask.add_argument("--folder", type=Path, help="keep the log of a week here")
    ask.add_argument("--prepare", action="store_true", help="write the log of a week to the folder, and nothing else")
    given = ask.parse_args()
    if given.prepare:
        given.folder.mkdir(parents=True, exist_ok=True)
        asyncio.run(prepare_week(given.folder, given.calls))
        return
    if given.serve:
        port, place = int(given.serve[0]), Path(given.serve[1])
        if given.only == "screens":
            asyncio.run(serve_week(port, place, given.calls))
        else:
            spans = 0 if given.only in ("points", "live") else SPANS
            asyncio.run(serve(port, place, alone=given.only is not None, spans=spans))
        return
    weight()
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with tempfile.TemporaryDirectory() as temporary:
        folder = str(given.folder or temporary)
        own = [] if given.only is None else [given.only]
        argv = [sys.executable, "-m", "bench.console", *own, "--calls", str(given.calls), "--serve", str(port), folder]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                if server.stdout.readline() != "ready\n":
                    raise SystemExit("The server did not start")
                asyncio.run(look(f"http://127.0.0.1:{port}", given.only))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()

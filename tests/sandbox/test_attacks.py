"""Nothing that code does hurts the host or the next run, and all of it ends in time with a fault that says why."""

import asyncio
import json

import psutil
import pytest

from tests.requirements import requirement
from tests.sandbox.conftest import MB, Run, at_some_pace
from toolcrib.sandbox import Sandbox, SandboxError

LIMIT_S = 0.3

JAVASCRIPT = {
    "endless loop": ("while (true) {}", "timeout"),
    "endless loop that catches": ("for (;;) { try { for (;;) {} } catch {} finally { continue } }", "timeout"),
    "endless microtasks": ("(function again() { Promise.resolve().then(again) })()", "timeout"),
    "endless await": ("(async () => { for (;;) await null })()", "timeout"),
    "endless thenable": ("({ then(ok) { ok(this) } })", "timeout"),
    "regular expression": ("/^(a+)+$/.test('a'.repeat(40) + '!')", "timeout"),
    "toJSON": ("({ toJSON() { for (;;) {} } })", "timeout"),
    "getter": ("({ get then() { for (;;) {} } })", "timeout"),
    "proxy": ("new Proxy({}, { get() { for (;;) {} } })", "timeout"),
    "error that never tells": ("throw { get message() { for (;;) {} } }", "timeout"),
    "sort": ("Array.from({ length: 1e3 }, Math.random).sort(() => { for (;;) {} })", "timeout"),
    "memory": ("const a = []; for (;;) a.push('x'.repeat(100) + a.length)", "memory"),
    "array buffers": ("const a = []; for (;;) a.push(new ArrayBuffer(1e6))", "memory"),
    "one large buffer": ("new Uint8Array(2 ** 31 - 1)", "memory"),
    "text that doubles": ("let s = 'abcdefgh'; for (let i = 0; i < 22; i++) s = (s + s).toUpperCase(); s", "memory"),
    "map": ("const m = new Map(); for (let i = 0; ; i++) m.set(i, 'x'.repeat(500) + i)", "memory|timeout"),
    "memory in a regular expression": ("'x'.repeat(1e7).replace(/x/g, 'yy')", "memory"),
    "error of 50 MB": ("throw new Error('x'.repeat(5e7))", "memory"),
    "recursion": ("(function f() { return f() })()", "threw"),
    "recursion in JSON": ("let a = []; for (let i = 0; i < 5e4; i++) a = [a]; a", "threw|bad_return|memory|timeout"),
    "deep JSON": ("JSON.parse('['.repeat(1e6))", "threw"),
    "deep source": ("eval('('.repeat(1e6))", "threw"),
    "require": ("require('fs')", "threw"),
    "process": ("process.exit(1)", "threw"),
    "fetch": ("fetch('http://localhost')", "threw"),
    "timers": ("setTimeout(() => {}, 1)", "threw"),
    "import": ("import('fs')", "threw"),
    "import of the engine": ("import('qjs:os').then((os) => os.readdir('.'))", "threw"),
    "function constructor": ("(() => {}).constructor('return process')().exit()", "threw"),
    "error without prototype": ("throw Object.create(null)", "threw"),
    "error that throws": ("throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 } })", "threw"),
}

PYTHON = {
    "endless loop": ("while True:\n    pass", "timeout"),
    "endless function": ("def f(args):\n    while True:\n        pass", "timeout"),
    "large numbers": ("import math\nresult = math.factorial(10 ** 6)", "timeout"),
    "power": ("result = 10 ** 10 ** 8", "memory"),
    "memory": ("a = []\nwhile True:\n    a.append('x' * 100)", "memory"),
    "one large text": ("result = 'x' * 10 ** 10", "memory"),
    "recursion": ("def f(args):\n    return f(args)", "threw"),
    "deep source": ("(" * 100_000, "syntax"),
    "file": ("result = open('/etc/passwd').read()", "denied"),
    "environment": ("import os\nresult = os.environ", "denied"),
    "network": ("import socket", "threw"),
    "processes": ("import subprocess", "threw"),
    "import by name": ("__import__('os')", "threw"),
    "classes of the host": ("result = ().__class__.__bases__[0].__subclasses__()", "threw"),
    "error of 5 MB": ("raise ValueError('x' * 5_000_000)", "threw"),
}


async def _contained(run: Run, code: str, expected: str) -> None:
    async def holds(pace: float) -> None:
        with pytest.raises(SandboxError) as raised:
            await run(code, timeout_s=LIMIT_S * pace)
        assert raised.value.code in expected.split("|"), raised.value.message
        assert len(raised.value.message) <= 4096

    await at_some_pace(holds)


@pytest.fixture(scope="module")
def warm(javascript: Sandbox, python: Sandbox) -> None:
    """Every worker has run something, so that the time of an attack is its own."""

    async def run(box: Sandbox, code: str) -> None:
        await asyncio.gather(
            *(box.run(code, b"", name="", role="helper", timeout_s=5, memory_bytes=8 * MB) for _ in range(16))
        )

    asyncio.run(run(javascript, "const start = Date.now(); while (Date.now() - start < 50) {}"))
    asyncio.run(run(python, "for i in range(100000):\n    pass\nresult = 1"))


@requirement("yaml.box.1", "yaml.box.2", "yaml.box.3", "yaml.code.10")
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("code", "fault"), JAVASCRIPT.values(), ids=JAVASCRIPT)
async def test_an_attack_in_javascript_is_contained(code: str, fault: str, js: Run) -> None:
    await _contained(js, code, fault)
    assert (await js("[typeof globalThis.leak, Object.keys(Object.prototype)]")).value == b'["undefined",[]]'


@requirement("yaml.box.1", "yaml.box.2", "yaml.box.5", "yaml.code.10")
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(("code", "fault"), PYTHON.values(), ids=PYTHON)
async def test_an_attack_in_python_is_contained(code: str, fault: str, py: Run) -> None:
    await _contained(py, code, fault)
    assert (await py("result = 1")).value == b"1"


@requirement("yaml.box.3")
@pytest.mark.parametrize(
    "code",
    [
        "JSON.stringify = () => '\"forged\"'; JSON.parse = () => ({}); ({ a: 1 })",
        "String.prototype.slice = () => 'forged'; Array.prototype.map = null; ({ a: 1 })",
        "Object.keys = Object.defineProperty = Function.prototype.call = () => 'forged'; ({ a: 1 })",
        "Promise.prototype.then = () => {}; (async () => ({ a: 1 }))()",
        "globalThis.eval = globalThis.String = globalThis.Object = undefined; ({ a: 1 })",
        "const all = globalThis; for (const name of Object.getOwnPropertyNames(all)) delete all[name]; ({ a: 1 })",
    ],
)
async def test_what_code_redefines_neither_forges_its_value_nor_reaches_the_next_run(code: str, js: Run) -> None:
    for _ in range(8):
        assert (await js(code)).value == b'{"a":1}'
        assert json.loads((await js("[JSON.stringify([1]), 'ab'.slice(1), [1].map(String)]")).value)[0] == "[1]"


@requirement("yaml.box.2")
@pytest.mark.parametrize("depth", [100, 900, 20_000, 1_000_000])
async def test_arguments_of_any_depth_are_read_or_refused(depth: int, javascript: Sandbox, python: Sandbox) -> None:
    args = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    for box, code in ((javascript, "1"), (python, "result = 1")):
        run = box.run(code, args, name="x", role="validator", timeout_s=1, memory_bytes=8 * MB)
        if depth <= 100:
            assert (await run).value == b"1"
            continue
        (outcome,) = await asyncio.gather(run, return_exceptions=True)
        assert (outcome.code if isinstance(outcome, SandboxError) else "") in ("", "too_large", "memory")


@requirement("yaml.box.1")
@pytest.mark.parametrize("start", ["function", "const", ",", "async ", "def ", "function *", "const a", "\\"])
async def test_no_source_keeps_the_host_busy(start: str, js: Run, py: Run) -> None:
    for filling in (" ", "a", "\n", start + " ", ","):
        source = start + filling * (500_000 // len(filling)) + "("
        for run in (js, py):
            with pytest.raises(SandboxError):
                await run(source, timeout_s=LIMIT_S)


@requirement("yaml.box.3")
async def test_only_the_language_is_in_scope(js: Run) -> None:
    seen = json.loads((await js("Object.getOwnPropertyNames(globalThis)")).value)
    strange = {"require", "process", "fetch", "setTimeout", "std", "os", "scriptArgs", "entries", "gc", "Worker"}
    assert not strange.intersection(seen)
    assert {"args", "module", "exports", "console", "print", "JSON"} <= set(seen)


@requirement("yaml.box.1", "yaml.box.4")
async def test_good_runs_are_undisturbed_amid_attacks_and_the_memory_of_the_host_is_flat(js: Run) -> None:
    attacks = [code for code, fault in JAVASCRIPT.values() if fault != "timeout"]

    async def attack(code: str) -> str:
        with pytest.raises(SandboxError) as raised:
            await js(code, timeout_s=0.2)
        return raised.value.code

    async def wave() -> None:
        good = [js("args.n * 2", {"n": n}) for n in range(50)]
        bad = [attack(code) for code in [*attacks, "while (true) {}", "/^(a+)+$/.test('a'.repeat(40) + '!')"]]
        codes, values = await asyncio.gather(asyncio.gather(*bad), asyncio.gather(*good))
        assert [ran.value for ran in values] == [b"%d" % (2 * n) for n in range(50)]
        assert codes[-2:] == ["timeout", "timeout"]

    await wave()
    before = psutil.Process().memory_info().rss
    for _ in range(4):
        await wave()
    assert psutil.Process().memory_info().rss - before < 24 * MB

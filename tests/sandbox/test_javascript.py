"""What JavaScript of a file means: its style, its arguments, and how its value leaves the sandbox."""

import json
from typing import Any

import pytest

from tests.requirements import requirement
from tests.sandbox.conftest import MB, Run
from toolcrib.sandbox import Sandbox, SandboxError


@requirement("yaml.code.1")
@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("module.exports = () => 'exported'; 'value'", "exported"),
        ("exports.doIt = () => 'named'; exports.run = () => 'run'", "named"),
        ("module.exports = { other() { return 1 }, validateCommand() { return 2 }, run() { return 3 } }", 2),
        ("module.exports = { default: () => 1, run: () => 2 }", 1),
        ("module.exports = { note: 'text', only: () => 4 }", 4),
        ("function a() { return 'a' }\n a()", "a"),
        ("(x) => x.n + 1", 6),
        ("async (x) => x.n + 1", 6),
        ("function doIt() { return 'named' }\nfunction last() { return 'last' }", "named"),
        ("function first() { return third() }\nfunction second() {}\nfunction third() { return 3 }", 3),
        ("const one = () => 1, two = () => 2", 2),
        ("'use strict'; let run = function (x) { return x.n }; const later = () => 0", 5),
        ("var f = function () { const escape = () => 0; function inner() {} return 'outer' }", "outer"),
        ("// the function if (no) const for = 1\nfunction real() { return 'real' }", "real"),
        ("const answer = 42", None),
        ("0", 0),
        ("", None),
    ],
)
async def test_the_function_is_found_in_every_style(code: str, value: Any, js: Run) -> None:
    if not code:
        with pytest.raises(SandboxError) as fault:
            await js(code)
        assert fault.value.code == "no_function"
        return
    assert json.loads((await js(code, {"n": 5})).value) == value


@requirement("yaml.code.1", "yaml.code.10")
async def test_exports_without_the_function_are_a_fault(js: Run) -> None:
    with pytest.raises(SandboxError) as fault:
        await js("module.exports = { a() {}, b() {} }")
    assert fault.value.code == "no_function"


@requirement("yaml.code.2")
@pytest.mark.parametrize("args", [{}, {"a": 1}, {"args": [1], "a": 2}, {"__proto__": {"x": 1}}])
async def test_validators_see_the_arguments_twice(args: dict[str, Any], js: Run) -> None:
    seen = json.loads((await js("[args, ((given) => given === args)(args)]", args, role="validator")).value)
    assert seen == [{**args, "args": args}, True]


@requirement("yaml.code.2")
async def test_helpers_see_their_arguments_and_none_are_an_empty_object(js: Run, javascript: Sandbox) -> None:
    assert (await js("(given) => [given, args]", {"a": 1})).value == b'[{"a":1},{"a":1}]'
    assert (await js("args", None)).value == b"{}"
    ran = await javascript.run("args", b"", name="x", role="validator", timeout_s=1, memory_bytes=8 * MB)
    assert ran.value == b'{"args":{}}'


@requirement("yaml.code.4")
@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("[new Date(0), NaN, Infinity, undefined, () => 1]", b'["1970-01-01T00:00:00.000Z",null,null,null,null]'),
        ("'\\ud800x\\udc00'", b'"\\ufffdx\\ufffd"'),
        ("'\\\\ud800 \\ud83d\\ude00 \u00e9'", '"\\\\ud800 \U0001f600 \u00e9"'.encode()),
        ("({ '\\ud800': 1 })", b'{"\\ufffd":1}'),
        ("Promise.resolve(1).then((n) => n + 1)", b"2"),
        ("({ then(settle) { settle(7) } })", b"7"),
        ("(async () => { throw new Error('late') })().catch((e) => e.message)", b'"late"'),
    ],
)
async def test_values_leave_as_json(code: str, value: bytes, js: Run) -> None:
    assert (await js(code)).value == value


@requirement("yaml.code.4", "yaml.code.10")
@pytest.mark.parametrize(
    ("code", "fault", "message"),
    [
        ("const a = []; a.push(a); a", "bad_return", "circular"),
        ("[10n]", "bad_return", "BigInt"),
        ("new Promise(() => {})", "bad_return", "never settles"),
        ("(async () => { throw new Error('late') })()", "threw", "late"),
        ("throw new TypeError('')", "threw", "TypeError"),
        ("throw { code: 7 }", "threw", '{"code":7}'),
        ("throw null", "threw", "null"),
        ("JSON.parse('{')", "threw", ""),
        ("eval('(')", "threw", ""),
        ("new Function('(')", "threw", ""),
        ("function f( {", "syntax", ""),
        ("return 5", "syntax", "return"),
        ("import fs from 'fs'", "syntax", ""),
    ],
)
async def test_what_goes_wrong_has_a_code_and_the_message_of_the_code(
    code: str, fault: str, message: str, js: Run
) -> None:
    with pytest.raises(SandboxError) as raised:
        await js(code)
    assert raised.value.code == fault
    assert message in raised.value.message
    assert raised.value.message


@requirement("yaml.box.3")
async def test_what_is_printed_is_kept_up_to_ten_kilobytes(js: Run) -> None:
    ran = await js("console.log('a', { b: 1 }, undefined); console.error(new Error('no')); print(2); 5")
    assert ran.printed == 'a {"b":1} undefined\nError: no\n2\n'
    ran = await js("for (let i = 0; i < 1e4; i++) console.log('x'.repeat(100)); 5")
    assert len(ran.printed) == 10 * 1024
    with pytest.raises(SandboxError) as raised:
        await js("print('before'); throw new Error('no')")
    assert raised.value.printed == "before\n"


@requirement("yaml.code.12")
async def test_the_duration_is_that_of_the_evaluation(js: Run) -> None:
    ran = await js("const start = Date.now(); while (Date.now() - start < 60) {} 1")
    assert 59 <= ran.duration_ms < 500
    assert (await js("1")).duration_ms < 50


@requirement("yaml.box.2")
async def test_input_and_result_have_a_size(js: Run) -> None:
    large = {"text": "x" * (4 * MB)}
    with pytest.raises(SandboxError) as raised:
        await js("1", large)
    assert raised.value.code == "too_large"
    with pytest.raises(SandboxError) as raised:
        await js("'\u00e9'.repeat(7e5)", memory_bytes=64 * MB)
    assert raised.value.code == "too_large"
    assert len((await js("'x'.repeat(1e6)", memory_bytes=64 * MB)).value) == 1_000_002
    assert (await js("args.text.length", {"text": "x" * (3 * MB)}, memory_bytes=32 * MB)).value == b"3145728"


@requirement("yaml.box.2")
async def test_the_memory_is_that_of_the_run(js: Run) -> None:
    code = "const parts = []; for (let i = 0; i < args.n; i++) parts.push(new Uint8Array(1024 * 1024).fill(1)); 1"
    assert (await js(code, {"n": 7})).value == b"1"
    assert (await js(code, {"n": 31}, memory_bytes=32 * MB)).value == b"1"
    for n, limit in ((9, 8), (33, 32)):
        with pytest.raises(SandboxError) as raised:
            await js(code, {"n": n}, memory_bytes=limit * MB)
        assert raised.value.code == "memory"


async def test_random_numbers_differ_between_runs(js: Run) -> None:
    drawn = [json.loads((await js("[Math.random(), Math.random()]")).value) for _ in range(4)]
    numbers = [number for pair in drawn for number in pair]
    assert len(set(numbers)) == 8
    assert all(0 <= number < 1 for number in numbers)


async def test_a_check_reads_without_running(javascript: Sandbox) -> None:
    assert await javascript.check("while (true) {}") is None
    assert await javascript.check("function f(a) { return a }\nmodule.exports = f") is None
    assert "return" in (await javascript.check("return 5") or "")
    assert await javascript.check("function f( {")
    assert await javascript.check("(" * 100_000)

"""What Python of a file means: which function is called, what it sees, and what is missing."""

import json
from typing import Any

import pytest

from tests.requirements import requirement
from tests.sandbox.conftest import Run
from toolcrib.sandbox import Sandbox, SandboxError


@requirement("yaml.code.3")
@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("def do_it(args):\n    return 'named'\ndef validate(args):\n    return 'other'\n", "named"),
        ("def run(args):\n    return 'run'\ndef validate(args):\n    return 'validate'\n", "validate"),
        ("def run(args):\n    return 'run'\ndef last(args):\n    return 'last'\n", "run"),
        (
            "def first(args):\n    return last(args)\ndef other(args):\n    return 0\ndef last(args):\n    return 1\n",
            1,
        ),
        ("def half(n):\n    return n / 2\nresult = half(args['n'])\n", 2.5),
        ("# no result here\ndef only(args):\n    return args['n']\n", 5),
        ("async def only(args):\n    return args\n", {"n": 5}),
        ("result = None", None),
    ],
)
async def test_the_function_or_the_result_is_found(code: str, value: Any, py: Run) -> None:
    assert json.loads((await py(code, {"n": 5})).value) == value


@requirement("yaml.code.2", "yaml.code.3")
async def test_python_sees_the_same_arguments(py: Run) -> None:
    seen = await py("result = args", {"a": 1, "args": 2}, role="validator")
    assert json.loads(seen.value) == {"a": 1, "args": {"a": 1, "args": 2}}
    assert (await py("result = args", None)).value == b"{}"


@requirement("yaml.code.4")
async def test_values_of_python_leave_as_json(py: Run) -> None:
    code = "import datetime\nresult = [datetime.date(2020, 1, 2), float('nan'), (1, 2), {1: None}, '\\ud800', '[...]']"
    assert json.loads((await py(code)).value) == ["2020-01-02", None, [1, 2], {"1": None}, "\ufffd", "[...]"]


@requirement("yaml.code.4", "yaml.code.10", "yaml.box.5")
@pytest.mark.parametrize(
    ("code", "fault", "message"),
    [
        ("x = []\nx.append(x)\nresult = x", "bad_return", "circular"),
        ("result = {'a': [10 ** 30]}", "bad_return", "64 bits"),
        ("class A:\n    x = 1\nresult = A()", "bad_return", ""),
        ("result = 'x' * 2_000_000", "too_large", ""),
        ("x = 1 # result", "no_function", ""),
        ("", "no_function", ""),
        ("raise ValueError('boom')", "threw", "boom"),
        ("raise KeyError()", "threw", "KeyError"),
        ("raise SyntaxError('mine')", "threw", "mine"),
        ("raise TimeoutError('mine')", "threw", "mine"),
        ("def f(:", "syntax", "parameter"),
        ("class A(B):\n    pass", "syntax", "not yet support"),
        ("def f(args):\n    yield 1", "syntax", "not yet support"),
    ],
)
async def test_what_goes_wrong_in_python_has_a_code(code: str, fault: str, message: str, py: Run) -> None:
    with pytest.raises(SandboxError) as raised:
        await py(code)
    assert raised.value.code == fault
    assert message in raised.value.message


@requirement("yaml.box.3")
async def test_runs_of_python_share_nothing_and_print_up_to_a_bound(py: Run) -> None:
    for _ in range(8):
        assert (await py("try:\n    seen\nexcept NameError:\n    result = 'clean'\nseen = 1")).value == b'"clean"'
    ran = await py("for i in range(5000):\n    print('line', i)\nresult = 1")
    assert ran.printed.startswith("line 0\nline 1\n")
    assert len(ran.printed) == 10 * 1024


async def test_python_is_checked_without_running(python: Sandbox) -> None:
    assert await python.check("while True:\n    pass") is None
    assert await python.check('def f(args):\n    """Two\nlines."""\n    return 1\n') is None
    assert await python.check("def f(:")
    assert "not yet support" in (await python.check("class A(B):\n    pass") or "")

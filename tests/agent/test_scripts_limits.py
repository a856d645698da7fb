"""What scripts cannot do: run for ever, fill the memory, call without end, or reach anything but their tools."""

import asyncio
from typing import Any

import pytest

from tests.agent.test_scripts import find, ran
from tests.session.place import Place
from toolcrib import tool
from toolcrib.agent import scripts


async def failed(code: str, *tools: Any) -> tuple[str, str]:
    done = await ran(Place("memory:"), code, *(tools or (find,)))
    return done["failure"]["code"], done["failure"]["message"]


async def test_a_script_computes_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "TIME_S", 0.3)
    endless = "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass"
    assert await failed(endless) == ("timeout", "The script computed for more than 0.3 s")


async def test_the_time_of_all_legs_counts_and_that_of_calls_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "TIME_S", 1.0)
    code = "for n in range(1000):\n    i = 0\n    while i < 200000:\n        i += 1\n    await nap()"

    @tool(read_only=True)
    async def nap() -> None:
        """Take some time."""
        await asyncio.sleep(0.01)

    said = await failed(code, nap)
    assert said[0] == "timeout"
    assert said[1].startswith("The script computed for more than 1 s")
    assert "calls were made before" in said[1]


@pytest.mark.parametrize(
    "code", ["x = []\nwhile True:\n    x.append('a' * 1000000)", "x = 'a' * 10 ** 11", "x = [0] * 10 ** 10"]
)
async def test_a_script_has_so_much_memory(code: str) -> None:
    said = await failed(code)
    assert said[0] == "too_large"
    assert "The script needs more than 64 MB" in said[1]


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nawait asyncio.gather(*[find(str(n)) for n in range(10000)])",
        "for n in range(10000):\n    try:\n        await find(str(n))\n    except BaseException:\n        pass",
        "for n in range(10000):\n    find('1')",
    ],
)
async def test_a_script_makes_so_many_calls(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "CALLS", 20)
    said = await failed(code)
    assert said[0] == "too_large"
    assert "The script made more than 20 calls" in said[1]


async def test_what_a_script_prints_is_cut() -> None:
    done = await ran(Place("memory:"), "for n in range(10):\n    print('a' * 100000)\n    await find('1')\n1", find)
    assert done["data"]["result"] == 1
    assert len(done["data"]["printed"]) == scripts.PRINTED + len(scripts.LEFT_OUT)


async def test_a_result_that_is_too_large_is_refused() -> None:
    assert (await failed("'a' * 3000000"))[0] == "too_large"


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.system('id')",
        "import os\nos.listdir('/')",
        "import os\nos.environ['HOME']",
        "open('/etc/passwd').read()",
        "import pathlib\npathlib.Path('/etc/passwd').read_text()",
        "import subprocess",
        "import socket",
        "import ctypes",
        "__import__('os').system('id')",
        "().__class__.__bases__[0].__subclasses__()",
        "find.__globals__",
        "find.__code__",
        "f = find\nf.__self__",
        "eval('__import__(\"os\")')",
        "exec('import subprocess')",
        "globals()['find']",
        "import toolcrib",
        "await find.__call__('1')",
        "'{0.__class__}'.format(find)",
    ],
)
async def test_an_attack_reaches_nothing(code: str) -> None:
    code_, said = await failed(code)
    assert code_ in ("failed", "invalid_arguments")
    assert "Traceback" not in said
    assert "/work" not in said
    assert "toolcrib/" not in said


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("x = 1\nclass B(int):\n    pass", ["line 2: ", "class inheritance", "classes without a base"]),
        ("def g():\n    yield 1", ["line 2: ", "yield", "Build a list"]),
        ("x = {}\ndel x", ["line 2: ", "'del'", "pop()"]),
        ("def f(:", ["line 1: "]),
        ("x = await find('1')\nx['nothing']", ["line 2: KeyError: nothing", "x['nothing']", "1 calls were made"]),
        ("a = find('1')\nb = await find('2')\na['cents']", ["line 3: ", "Tools are called with await."]),
        ("await find('1')\nfind('2')", ["not awaited", "Tools are called with await."]),
        ("class A:\n    pass\n{'a': A()}", ["The result of the script cannot be given"]),
        ("await fnd('1')", ["line 1: NameError: name 'fnd' is not defined", "Did you mean: find"]),
        ("import numpy", ["No module named 'numpy'", "There are: asyncio"]),
        ("import asyncio\nawait asyncio.gather(find('1'), return_exceptions=True)", ["line 2: ", "try and except"]),
    ],
)
async def test_an_error_says_where_and_what_to_do(code: str, told: list[str]) -> None:
    _, said = await failed(code)
    assert [part for part in told if part not in said] == []


async def test_what_a_tool_gives_is_only_data_to_a_script() -> None:
    @tool(read_only=True)
    async def speak() -> dict[str, Any]:
        """Say something."""
        return {"__class__": "x", "code": "import os", "deep": [[[{"a": None}]]], "big": 2**70, "text": "\x00é"}

    done = await ran(Place("memory:"), "x = await speak()\n[x['code'], x['deep'][0][0][0]['a'], x['text']]", speak)
    assert done["data"]["result"] == ["import os", None, "\x00é"]

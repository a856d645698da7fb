"""Calldata: what is encoded equals what `cast` and contracts make of it, and what does not fit is told."""

import json
import platform
import random
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.chain.place import CAST, CLOSED, deployed, file_of, mainnet, opened
from tests.chain.test_values import cases, check
from tests.requirements import requirement
from toolcrib import Session
from toolcrib.chain import Chain, Chains
from toolcrib.chain.abi import decode, encode, encode_call
from toolcrib.chain.signatures import Type, functions, parse_signature, parse_types
from toolcrib.errors import ToolFailure
from toolcrib.testing.chain import Anvil

WHO = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


@pytest_asyncio.fixture
async def session() -> AsyncIterator[Session]:
    async with opened(mainnet(CLOSED)) as made:
        yield made


async def encoded(session: Session, signature: str, *arguments: Any) -> Any:
    """The calldata, or the failure as a case writes it."""
    result = await session.call("encode_function_call", {"function_signature": signature, "arguments": list(arguments)})
    if result.failure is not None:
        return {"code": result.failure.code, "message": result.failure.message}
    return result.data


@requirement("eth.encode.1", "eth.encode.2")
async def test_calldata_is_what_the_cases_say(session: Session) -> None:
    for case in cases("encode_function_call", "encode_function_call.error"):
        check(case, await encoded(session, case["input"]["function_signature"], *case["input"]["arguments"]))


@requirement("eth.encode.1")
async def test_a_signature_may_be_written_in_many_ways(session: Session) -> None:
    expected = await encoded(session, "f((address,uint256)[],string)", [[WHO, "1"]], "hi")
    assert expected.startswith("0x")
    for way in (
        "function f((address who, uint amount)[] memory pairs, string calldata text) external payable returns (bool)",
        " f ( ( address , uint256 ) [ ] , string ) ".replace("[ ]", "[]"),
        "f(tuple(address payable who, uint256 amount)[],string)(uint256)",
    ):
        assert await encoded(session, way, [[WHO, "1"]], "hi") == expected
    named = "f((address who,uint256 amount)[],string)"
    assert await encoded(session, named, [{"amount": "1", "who": WHO}], "hi") == expected
    assert await encoded(session, named, json.dumps([[WHO, "1"]]), "hi") == expected


@requirement("eth.encode.2")
@pytest.mark.parametrize(
    ("signature", "arguments", "message"),
    [
        ("transfer", [], "Invalid function signature: missing '('"),
        ("transfer(", [], "Invalid function signature: missing ')'"),
        ("f(uint256,uint256)", ["1"], "Argument count mismatch: expected 2 arguments, got 1"),
        ("f(address)", ["x"], "Error parsing argument 0 (address): Invalid address: x"),
        ("f(bytes32)", ["0x12"], "Error parsing argument 0 (bytes32): bytes32 must be exactly 32 bytes"),
        ("f(uint7)", ["1"], "Error parsing argument 0 (uint7): Invalid uint size: 7"),
        ("f(uint256,int264)", ["1", "1"], "Error parsing argument 1 (int264): Invalid int size: 264"),
        ("f(bytes33)", ["0x"], "Error parsing argument 0 (bytes33): Invalid bytes size: 33"),
        ("f(money)", ["1"], "Error parsing argument 0 (money): Unknown type: money"),
        ("f(uint7[])", [[]], "Error parsing argument 0 (uint7[]): Invalid uint size: 7"),
        ("f(int8)", ["128"], "Error parsing argument 0 (int8): 128 is out of range for int8"),
        ("f(uint256)", [2**60], "Error parsing argument 0 (uint256): Invalid uint: write integers above"),
        ("f(bool)", ["yes"], "Error parsing argument 0 (bool): Invalid bool: yes"),
        ("f(string)", [5], "Error parsing argument 0 (string): Invalid string: 5"),
        ("f(uint256[2])", [["1"]], "Error parsing argument 0 (uint256[2]): expected 2 items, got 1"),
        ("f(uint256[])", ["[1"], "Error parsing argument 0 (uint256[]): expected uint256[] as JSON, got [1"),
        (
            "f(uint256[][])",
            [[["1"], [{}]]],
            "Error parsing argument 0 (uint256[][]): item 1: item 0: no value of uint256",
        ),
        ("f((uint256 a,bool b))", [{"a": 1}], "Error parsing argument 0 ((uint256,bool)): the names of (uint256,bool)"),
        ("f(uint256)", [None], "Unsupported argument type at position 0"),
        ("f(uint256)x(", ["1"], "Invalid function signature"),
        ("f" + "(" * 40 + ")" * 40, [], "tuples deeper than"),
        ("f(" + "uint256," * 600 + "uint256)", [], "more than 4000 characters"),
    ],
)
async def test_what_does_not_fit_is_told(session: Session, signature: str, arguments: list[Any], message: str) -> None:
    failed = await encoded(session, signature, *arguments)
    assert failed["code"] == "invalid_arguments"
    assert message in failed["message"]


def type_of(rng: random.Random, depth: int = 0) -> str:
    """A random type."""
    kind = rng.choice(["uint", "int", "bool", "address", "fixed", "bytes", "string", *["array", "tuple"] * (depth < 3)])
    if kind in ("uint", "int"):
        return f"{kind}{8 * rng.randint(1, 32)}"
    if kind == "fixed":
        return f"bytes{rng.randint(1, 32)}"
    if kind == "tuple":
        return f"({','.join(type_of(rng, depth + 1) for _ in range(rng.randint(1, 3)))})"
    if kind == "array":
        return f"{type_of(rng, depth + 1)}[{rng.choice(['', '', '1', '3'])}]"
    return kind


def types_of(rng: random.Random) -> tuple[Type, ...]:
    """The types of a few arguments."""
    return parse_types(",".join(type_of(rng) for _ in range(rng.randint(1, 3))))


def value_of(rng: random.Random, kind: Type) -> Any:
    """A random value of a type, as JSON."""
    if kind.kind == "tuple":
        return [value_of(rng, part) for part in kind.parts]
    if kind.kind == "array":
        return [value_of(rng, kind.parts[0]) for _ in range(kind.size or rng.randint(0, 3))]
    if kind.kind in ("uint", "int"):
        return str(rng.getrandbits(kind.size) - (2 ** (kind.size - 1) if kind.kind == "int" else 0))
    if kind.kind == "bool":
        return rng.random() < 0.5
    if kind.kind == "address":
        return "0x" + rng.randbytes(20).hex()
    if kind.kind == "string":
        return "".join(rng.choices("abcé", k=rng.randint(1, 40)))
    return "0x" + rng.randbytes(kind.size if kind.kind == "fixed" else rng.randint(0, 40)).hex()


def as_cast(kind: Type, value: Any) -> str:
    """A value as `cast` takes it on its command line."""
    if kind.kind == "tuple":
        return f"({','.join(as_cast(part, one) for part, one in zip(kind.parts, value, strict=True))})"
    if kind.kind == "array":
        return f"[{','.join(as_cast(kind.parts[0], one) for one in value)}]"
    if kind.kind == "string":
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if kind.kind == "bool" else str(value)


@requirement("eth.encode.3")
def test_what_is_encoded_decodes_to_itself() -> None:
    rng = random.Random(7)
    for _ in range(200):
        kinds = types_of(rng)
        values = [value_of(rng, kind) for kind in kinds]
        back = decode(kinds, "0x" + encode(kinds, values).hex())
        assert json.dumps(back).lower() == json.dumps(values).lower(), kinds


@pytest.mark.skipif((platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="no cast is pinned for it")
@pytest.mark.process
def test_calldata_equals_that_of_cast() -> None:
    program, rng = file_of(CAST, "package/bin/cast"), random.Random(11)
    for _ in range(40):
        kinds = types_of(rng)
        values = [value_of(rng, kind) for kind in kinds]
        signature = f"f({','.join(kind.text for kind in kinds)})"
        top = [
            value if kind.kind == "string" else as_cast(kind, value) for kind, value in zip(kinds, values, strict=True)
        ]
        words = [str(program), "calldata", signature, "--", *top]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env={})
        assert done.returncode == 0, f"{signature} {top}: {done.stderr}"
        assert encode_call(signature, values) == done.stdout.strip(), f"{signature} {values}"


@requirement("eth.encode.1", "cast.2")
@pytest.mark.process
async def test_a_contract_reads_nested_tuples_and_arrays_as_they_were_meant(anvil_server: Anvil) -> None:
    echo = deployed(anvil_server, "Echo")
    order = "(uint256 id,(address who,int24 tick,bytes data)[] items,uint8[2][] pairs)"
    given = {"id": str(2**255), "items": [[WHO, "-887220", "0x1234"]], "pairs": [["1", "2"], [3, 4]]}
    chains = Chains([Chain(31337, "anvil", anvil_server.url, local=True)])
    async with opened(chains) as session:
        called = {"to": echo, "function": f"order({order},string[],bytes4)({order},string[],bytes4)"}
        result = await session.call("call_view_function", {**called, "args": [given, '["a", "é"]', "0xdeadbeef"]})
    assert result.ok, result.failure
    plain = [str(2**255), [[WHO, "-887220", "0x1234"]], [["1", "2"], ["3", "4"]]]
    assert result.data["decoded"] == [plain, ["a", "é"], "0xdeadbeef"]


@requirement("eth.encode.3")
async def test_data_is_decoded_by_types_or_by_a_function(session: Session) -> None:
    data = await encoded(session, "transfer(address,uint256)", WHO, str(2**256 - 1))
    by_function = {"data": data, "function_signature": "transfer(address to, uint256 amount)"}
    assert (await session.call("decode_abi", by_function)).data == {"values": [WHO, str(2**256 - 1)]}
    by_types = {"data": "0x" + data[10:], "types": "address,uint256"}
    assert (await session.call("decode_abi", by_types)).data == {"values": [WHO, str(2**256 - 1)]}
    for wrong in (
        {"data": data},
        {"data": data, "types": "address,uint256"},
        {"data": data, "function_signature": "approve(address,uint256)"},
        {"data": "0x1234", "types": "uint256"},
        {"data": "zz", "types": "uint256"},
        {"data": "0x" + "f" * 640, "types": "string[][]"},
    ):
        failure = (await session.call("decode_abi", wrong)).failure
        assert failure is not None, wrong
        assert failure.code == "invalid_arguments"


def test_a_json_abi_reads_as_signatures() -> None:
    pair = {"type": "tuple[]", "name": "pairs", "components": [{"type": "address", "name": ""}, {"type": "uint8"}]}
    abi = [
        {"type": "function", "name": "f", "inputs": [pair], "outputs": [{"type": "bool", "name": ""}]},
        {"type": "event", "name": "E", "inputs": []},
        {"type": "function", "name": "g"},
        "nonsense",
    ]
    assert functions(abi) == ["f((address,uint8)[] pairs)(bool)", "g()"]
    assert parse_signature(functions(abi)[0]).text == "f((address,uint8)[])"


def test_a_hostile_length_is_refused_and_not_read() -> None:
    bomb = "0x" + f"{32:064x}" + f"{2**60:064x}"
    with pytest.raises(ToolFailure, match="cannot be decoded"):
        decode(parse_types("uint256[]"), bomb)
    with pytest.raises(ToolFailure, match="more than 4096 items"):
        encode_call("f(uint8[])", [["1"] * 5000])

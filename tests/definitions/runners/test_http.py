"""Commands of web services, against a real server."""

import asyncio
import base64
import logging
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.definitions.runners import made as made_of
from tests.definitions.runners import served as serving
from tests.definitions.runners.made import definition, made, tool_of
from tests.definitions.runners.served import Asked, Served, says
from tests.requirements import requirement
from toolcrib import Failure, Result
from toolcrib.definitions.runners import BadTemplate, RunnerSettings, runner


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving.served() as server:
        yield server


async def called(text: str, args: Any = None, settings: RunnerSettings | None = None) -> Result:
    return await made_of.called(tool_of(definition("http", text), "a", settings or RunnerSettings(environ={})), args)


async def failed(text: str, args: Any = None, settings: RunnerSettings | None = None) -> tuple[Failure, dict[str, Any]]:
    result = await called(text, args, settings)
    assert result.failure is not None, result
    return result.failure, dict(result.metadata)


def service(url: str, command: str, more: str = "") -> str:
    return f"http_specific: {{base_url: '{url}'{more}}}\ncommands: [{{name: a, {command}}}]"


@requirement("yaml.run.http.1")
async def test_values_are_encoded_in_path_and_query(served: Served) -> None:
    text = service(f"{served.url}/v1/", "path: '/items/{{id}}/x y?fix={{id}}', query: {q: '{{q}}', n: 2, no: '{{no}}'}")
    result = await called(text, {"id": "a/../b?c#d é", "q": "x&y=z", "more": [1, "2 3"], "flag": True, "none": None})
    assert result.ok, result
    (asked,) = served.asked
    coded = "a%2F..%2Fb%3Fc%23d%20%C3%A9"
    assert asked.method == "GET"
    assert asked.target == f"/v1/items/{coded}/x%20y?fix={coded}&q=x%26y%3Dz&n=2&more=1&more=2%203&flag=true"
    assert asked.headers["host"] == f"127.0.0.1:{served.port}"


@requirement("yaml.run.http.1")
async def test_whole_fields_of_a_body_keep_their_type_and_the_rest_joins_them(served: Served) -> None:
    text = service(
        served.url, "method: post, path: '/t/{{list}}', body: {title: 'no {{n}}', n: '{{n}}', gone: '{{gone}}'}"
    )
    await called(text, {"list": 7, "n": 3, "tags": ["a"], "clear": None})
    (asked,) = served.asked
    assert (asked.method, asked.target) == ("POST", "/t/7")
    assert asked.json == {"title": "no 3", "n": 3, "tags": ["a"], "clear": None}
    assert asked.headers["content-type"] == "application/json"


@requirement("yaml.run.http.1")
async def test_arguments_that_are_not_placed_go_where_the_method_wants_them(served: Served) -> None:
    await called(service(served.url, "method: DELETE, path: /x"), {"a": 1})
    await called(service(served.url, "method: PUT, path: /x"), {"a": 1})
    await called(service(served.url, "method: PATCH, path: /x, body: '{{all}}'"), {"all": [1, None]})
    assert [(one.target, one.body) for one in served.asked] == [
        ("/x?a=1", b""),
        ("/x", b'{"a":1}'),
        ("/x", b"[1,null]"),
    ]


@requirement("yaml.run.http.1")
@pytest.mark.parametrize("value", ["..", ".", "", None])
async def test_a_value_is_no_way_up_and_no_empty_piece(served: Served, value: Any) -> None:
    failure, _ = await failed(service(served.url, "method: DELETE, path: '/users/{{id}}'"), {"id": value})
    assert failure.code == "invalid_arguments"
    assert served.asked == []


async def test_headers_are_filled_and_hold_no_second_line(served: Served) -> None:
    text = service(served.url, "path: /, headers: {X-Trace: 't {{t}}', x-none: '{{none}}'}", ", headers: {X-Api: 2}")
    await called(text, {"t": "1"})
    assert (served.asked[0].headers["x-trace"], served.asked[0].headers["x-api"]) == ("t 1", "2")
    assert "x-none" not in served.asked[0].headers
    assert (await failed(text, {"t": "1\r\nX-Evil: 1"}))[0].code == "invalid_arguments"
    assert len(served.asked) == 1


@requirement("yaml.run.http.1")
@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ("type: bearer", "authorization", "Bearer hunter22"),
        ("type: basic", "authorization", f"Basic {base64.b64encode(b'hunter22').decode()}"),
        ("type: basic, name: ada", "authorization", f"Basic {base64.b64encode(b'ada:hunter22').decode()}"),
        ("type: header, name: X-Key", "x-key", "hunter22"),
        ("type: query, name: key", "", "/?key=hunter22"),
    ],
)
async def test_each_kind_of_authentication(
    served: Served, auth: str, header: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def repeat(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await says(200, f"{asked.target} {asked.headers}")(asked, writer)

    served.answer = repeat
    caplog.set_level(logging.INFO)
    text = service(served.url, "path: /", f", auth: {{{auth}, env: KEY}}")
    result = await called(text, {}, RunnerSettings(environ={"KEY": "hunter22"}))
    (asked,) = served.asked
    assert (asked.headers[header] if header else asked.target) == value
    assert value.removeprefix("/?key=").split()[-1] not in f"{result.data} {caplog.text}"
    assert "•••" in result.data


@requirement("yaml.run.1", "yaml.run.http.1")
async def test_authentication_without_its_variable_is_unavailable(served: Served) -> None:
    text = service(served.url, "path: /", ", auth: {type: bearer, env: KEY, description: Ask ada}")
    failure, _ = await failed(text)
    assert (failure.code, failure.message, failure.hint) == ("unavailable", "KEY is not set", "Ask ada")
    assert made(definition("http", text), "a").capabilities == (f"net:egress:{served.url}", "secrets:read:KEY")


@requirement("yaml.run.http.1", "yaml.cmd.5", "yaml.cmd.6")
@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("path: /", "read"),
        ("method: HEAD", "read"),
        ("method: PUT", "idempotent"),
        ("method: DELETE", "idempotent"),
        ("method: POST", "once"),
        ("method: PATCH", "once"),
        ("method: POST, effect: read", "read"),
    ],
)
def test_the_method_tells_the_effect_unless_the_file_does(command: str, effect: str) -> None:
    how = made(definition("http", service("https://api.example.com/v1", command)), "a")
    assert (how.effect, how.capabilities) == (effect, ("net:egress:api.example.com",))


@requirement("yaml.run.http.2")
@pytest.mark.parametrize(
    "where",
    ["http://localhost:{port}/x", "https://127.0.0.1:{port}/x", "http://127.0.0.1:1/x", "//example.com/x", "ftp://a/"],
)
async def test_a_redirect_elsewhere_is_refused(served: Served, where: str) -> None:
    served.answer = says(302, location=where.format(port=served.port))
    failure, metadata = await failed(service(served.url, "path: /"))
    assert (failure.code, metadata["http_status"]) == ("denied", 302)
    assert len(served.asked) == 1


@requirement("yaml.run.http.2")
@pytest.mark.parametrize(("status", "method"), [(302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
async def test_a_redirect_on_the_same_host_is_followed(served: Served, status: int, method: str) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        there = asked.target.startswith("/there")
        said = says(200, "[1]") if there else says(status, location=f"{served.url}/there?a=b%20c")
        await said(asked, writer)

    served.answer = answer
    result = await called(service(served.url, "method: POST, path: /"), {"x": 1})
    assert result.data == [1]
    assert [(one.method, one.target) for one in served.asked] == [("POST", "/"), (method, "/there?a=b%20c")]
    assert served.asked[1].body == (b'{"x":1}' if method == "POST" else b"")


@requirement("yaml.run.http.2")
async def test_a_redirect_may_be_relative(served: Served) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        ways = {"/a/b": "c?d=e", "/a/c?d=e": "../f", "/f": "?g"}
        said = says(301, location=ways[asked.target]) if asked.target in ways else says(200, "[1]")
        await said(asked, writer)

    served.answer = answer
    assert (await called(service(served.url, "method: DELETE, path: /a/b"))).data == [1]
    assert [one.target for one in served.asked] == ["/a/b", "/a/c?d=e", "/f", "/f?g"]
    assert {one.method for one in served.asked} == {"DELETE"}


async def test_redirects_come_to_an_end(served: Served) -> None:
    served.answer = says(301, location="/again")
    assert (await failed(service(served.url, "path: /")))[0].code == "failed"
    assert len(served.asked) == 5


def leads_to(*addresses: str) -> RunnerSettings:
    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return RunnerSettings(environ={}, resolve=resolve)


@requirement("yaml.run.http.2", "policy.match.net")
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "fe80::1%eth0", "::ffff:127.0.0.1"]
)
async def test_a_name_that_leads_inside_is_refused(served: Served, address: str) -> None:
    text = service(f"http://api.example.com:{served.port}", "method: POST, path: /")
    failure, _ = await failed(text, {}, leads_to(address))
    assert failure.code == "denied"
    assert address in failure.message
    assert (await failed(text, {}, leads_to("93.184.216.34", address)))[0].code == "denied"
    assert served.asked == []


@requirement("yaml.run.http.2", "policy.match.net")
async def test_a_name_that_leads_inside_is_reached_where_the_file_requires_it(served: Served) -> None:
    text = service(f"http://api.example.com:{served.port}", "path: /x")
    wrong = f"requires: ['net:egress:10.0.0.1:{served.port}', 'net:egress:*', 'net:egress:{{x}}']\n"
    assert (await failed(wrong + text, {}, leads_to("127.0.0.1")))[0].code == "denied"
    for one in ("private", f"127.0.0.1:{served.port}", f"http://127.0.0.1:{served.port}"):
        assert (await called(f"requires: ['net:egress:{one}']\n{text}", {}, leads_to("127.0.0.1"))).ok
    assert served.asked[0].headers["host"] == f"api.example.com:{served.port}"


@requirement("yaml.run.http.2")
async def test_the_address_that_was_checked_is_the_one_that_is_used(served: Served) -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.255.255.1"]

    text = f"requires: ['net:egress:private']\n{service(f'http://api.example.com:{served.port}', 'path: /')}"
    assert (await called(text, {}, RunnerSettings(environ={}, resolve=rebinding))).ok
    assert asked == ["api.example.com"]
    assert len(served.asked) == 1


async def test_the_next_address_is_tried_where_the_first_cannot_be_reached(served: Served) -> None:
    text = service(f"http://localhost:{served.port}", "method: POST, path: /")
    assert (await called(text, {}, leads_to("::1", "127.0.0.1"))).ok
    assert len(served.asked) == 1


def certified(folder: Path) -> tuple[str, str]:
    """A certificate of api.example.com and its key."""
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=api.example.com", "-addext", "subjectAltName=DNS:api.example.com"]
    command = ["openssl", "req", *kind, *name, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificate, is not here")
@requirement("yaml.run.http.2")
@pytest.mark.process
async def test_a_certificate_is_that_of_the_name_and_not_of_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = certified(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    async with serving.served(tls) as served:
        texts = {
            host: "requires: ['net:egress:private']\n" + service(f"https://{host}:{served.port}", "path: /")
            for host in ("api.example.com", "other.example.com")
        }
        assert (await called(texts["api.example.com"], {}, leads_to("127.0.0.1"))).ok
        failure, _ = await failed(texts["other.example.com"], {}, leads_to("127.0.0.1"))
    assert failure.message == "other.example.com shows no certificate that can be trusted"
    assert len(served.asked) == 1


@requirement("yaml.run.http.2")
@pytest.mark.parametrize(
    ("block", "command"),
    [
        ("base_url: 'ftp://a.example'", "path: /"),
        ("base_url: 'no address'", "path: /"),
        ("base_url: 'https://{{x}}.example'", "path: /"),
        ("base_url: 7", "path: /"),
        ("base_url: 'https://a.example'", "path: '/{{x'"),
        ("base_url: 'https://a.example'", "path: /, headers: {Host: b.example}"),
        ("base_url: 'https://a.example'", "path: /, headers: {'a b': c}"),
        ("base_url: 'https://a.example'", "path: /, query: [1]"),
        ("base_url: 'https://a.example'", "method: CONNECT"),
        ("base_url: 'https://a.example', auth: {type: magic, env: KEY}", "path: /"),
        ("base_url: 'https://a.example', auth: {type: bearer}", "path: /"),
    ],
)
def test_what_does_not_hold_is_found_when_it_is_read(block: str, command: str) -> None:
    with pytest.raises(BadTemplate):
        made(definition("http", f"http_specific: {{{block}}}\ncommands: [{{name: a, {command}}}]"), "a")


def test_without_an_address_or_a_request_there_is_nothing_to_run() -> None:
    for text in ("commands: [{name: a, path: /}]", "http_specific: {base_url: 'https://a.example'}\ncommands: [a]"):
        found = definition("http", text)
        assert runner(found, found.commands[0], RunnerSettings()) is None


async def test_a_path_cannot_change_the_host(served: Served) -> None:
    for path in ("//example.com/x", "http://example.com/x", "@example.com/x"):
        await called(service(served.url, f"path: '{path}'"))
    assert [one.target for one in served.asked] == ["/example.com/x", "/http://example.com/x", "/@example.com/x"]


@requirement("yaml.run.http.3")
@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "failed"), (401, "failed"), (404, "failed"), (408, "timeout"), (500, "unavailable"), (503, "unavailable")],
)
async def test_the_status_tells_the_code(served: Served, status: int, code: str) -> None:
    served.answer = says(status, '{"error":  "No such\\nthing"}')
    failure, metadata = await failed(service(served.url, "path: /"))
    assert (failure.code, metadata) == (code, {"http_status": status})
    assert failure.message == f'HTTP {status}: {{"error": "No such\\nthing"}}'


@requirement("yaml.run.http.3")
@pytest.mark.parametrize(
    ("after", "hint"),
    [("7", "Try again in 7 s."), ("Wed, 21 Oct 2015 07:28:00 GMT", "Try again in 0 s."), ("soon", None)],
)
async def test_who_asks_too_often_is_told_when_to_come_back(served: Served, after: str, hint: str | None) -> None:
    served.answer = says(429, "slow down", retry_after=after)
    failure, metadata = await failed(service(served.url, "path: /"))
    assert (failure.code, failure.retryable, failure.hint) == ("rate_limited", True, hint)
    assert metadata.get("retry_after_s") == {"7": 7.0, "soon": None}.get(after, 0.0)


@requirement("yaml.run.http.3")
@pytest.mark.parametrize(("method", "may_have_run"), [("POST", True), ("GET", False)])
async def test_no_answer_in_time_says_whether_it_may_have_run(served: Served, method: str, may_have_run: bool) -> None:
    async def never(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.wait({gone}, timeout=5)

    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    served.answer = never
    failure, metadata = await failed(service(served.url, f"method: {method}, path: /, timeout_ms: 300"))
    gone.set_result(None)
    assert failure.code == "timeout"
    assert "did not answer within 0.3 s" in failure.message
    assert ("may have run" in failure.message, metadata.get("may_have_run", False)) == (may_have_run, may_have_run)
    assert failure.retryable is not may_have_run


@requirement("yaml.run.http.3")
@pytest.mark.parametrize(("method", "code"), [("POST", "unknown"), ("PUT", "unavailable"), ("GET", "unavailable")])
async def test_a_connection_that_ends_without_answer(served: Served, method: str, code: str) -> None:
    async def hang_up(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")

    served.answer = hang_up
    failure, _ = await failed(service(served.url, f"method: {method}, path: /"))
    assert (failure.code, "may have run" in failure.message) == (code, code == "unknown")
    assert len(served.asked) == 1


@requirement("yaml.run.http.3")
async def test_what_cannot_be_reached_did_not_run() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        failure, _ = await failed(service(f"http://127.0.0.1:{taken.getsockname()[1]}", "method: POST, path: /"))
    assert (failure.code, failure.retryable) == ("unavailable", True)
    assert "may have run" not in failure.message

    async def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    text = service("https://nowhere.example", "method: POST, path: /")
    assert (await failed(text, {}, RunnerSettings(environ={}, resolve=unknown)))[
        0
    ].message == "nowhere.example is not known"


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        ('{"a": 1}', "text/plain", {"a": 1}),
        ("7", "application/json", 7),
        ("7", "text/plain", "7"),
        ("{no", "application/json", "{no"),
        ("", "application/json", None),
        ("é".encode("latin-1"), "text/plain; charset=latin-1", "é"),
    ],
)
async def test_an_answer_is_data_or_text(served: Served, body: str | bytes, kind: str, expected: Any) -> None:
    served.answer = says(200, body, content_type=kind)
    result = await called(service(served.url, "path: /"))
    assert (result.data, result.metadata) == (expected, {"http_status": 200})


async def test_an_answer_without_end_is_refused(served: Served) -> None:
    async def pour(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 65536)
            await writer.drain()

    served.answer = pour
    assert (await failed(service(served.url, "path: /")))[0].code == "too_large"

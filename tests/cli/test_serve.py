"""`toolcrib serve` and `toolcrib keys`: the whole server, who is let in, and how it stops."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.cli.project import Project
from tests.ready import Program
from tests.requirements import requirement
from toolcrib.cli.serve import _bound, _listen


@contextmanager
def serving(project: Project, *words: str) -> Iterator[tuple[Program, dict[str, Any]]]:
    """A server at a port that is free, and what it tells of itself."""
    with project.start("serve", "--port", "0", "--json", *words) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told, process.communicate(timeout=60)
        yield process, json.loads(told)


def test_the_whole_crib_is_served_without_keys_on_this_machine(project: Project) -> None:
    with serving(project) as (process, told), httpx.Client(timeout=60) as http:
        assert told["keys"] is False
        http.headers["Authorization"] = f"Bearer {told['token']}"
        assert http.get(f"{told['api']}/me").json()["auth"] == "off"
        session = http.post(f"{told['api']}/sessions", json={"id": "s"}).json()
        assert session["namespaces"] == ["*"]
        body = {"tool": "find", "args": {"order": "7"}}
        result = http.post(f"{told['api']}/sessions/s/calls", json=body).json()
        assert result["data"] == {"order": "7", "deep": False}
        assert http.get(f"{told['ready']}/healthz").json() == {"ok": True}
        assert http.get(f"{told['ready']}/readyz").json() == {"ready": True}
        assert http.get(f"{told['ready']}/v1/me", headers={"Host": "evil.example"}).status_code == 403
        stream = http.send(http.build_request("GET", f"{told['api']}/sessions/s/events?follow=1"), stream=True)
        lines = stream.iter_lines()
        assert next(lines) == "retry: 1000"
        process.terminate()
        assert "event: end" in list(lines)
        assert process.wait(30) == 0
    assert "s" in [row["id"] for row in project.run("sessions", "list", "--json").json]


def test_the_first_key_tells_that_running_servers_do_not_know_it(project: Project) -> None:
    assert "already runs without keys" in project.run("keys", "add", "ada").err
    assert "already runs" not in project.run("keys", "add", "bob").err


def test_keys_are_made_asked_for_and_revoked(project: Project) -> None:
    made = project.run("keys", "add", "ada", "--name", "laptop", "--scope", "read", "--expires", "1d", "--json").json
    admin = project.run("keys", "add", "ops", "--scope", "admin", "--json").json
    assert made["key"] not in project.run("keys", "list").out
    with serving(project) as (_, told), httpx.Client(base_url=told["api"], timeout=60) as http:
        assert told["keys"] is True
        ada = {"Authorization": f"Bearer {made['key']}"}
        assert http.get("/me").status_code == 401
        assert http.get("/me", headers=ada).json()["scopes"] == ["read"]
        assert http.post("/sessions", json={}, headers=ada).status_code == 403
        assert "Revoked" in project.run("keys", "revoke", made["id"]).out
        for _ in range(1200):  # another process revoked it: it is heard of within a second or so
            if http.get("/me", headers=ada).status_code == 403:
                break
        assert http.get("/me", headers=ada).status_code == 403
        ops = {"Authorization": f"Bearer {admin['key']}"}
        assert {one["owner"] for one in http.get("/keys", headers=ops).json()["items"]} == {"ada", "ops"}
    listed = {one["owner"]: one["active"] for one in project.run("keys", "list", "--json").json}
    assert listed == {"ada": False, "ops": True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("keys", "add", "ada", "--scope", "odd"), "There is no scope 'odd'"),
        (("keys", "add", "ada", "--expires", "soon"), "--expires 'soon' is no time"),
        (("keys", "add", "toolcrib"), "'toolcrib' can own nothing"),
        (("keys", "revoke", "k-1"), "There is no key 'k-1'\nNext:  `toolcrib keys list` shows their ids"),
        (("keys", "list", "--store", "memory:"), "A store in memory keeps no keys"),
        (("serve", "--auth", "odd"), "There is no --auth odd"),
        (("serve", "--host", "0.0.0.0"), "there are no keys"),
        (("serve", "--host", "0.0.0.0", "--auth", "off"), "there are no keys"),
        (("serve", "--auth", "off", "--key-file", "keys.yaml"), "nobody is asked for a key"),
        (("audit", "verify", "a.jsonl", "--session", "s-1"), "say --log too"),
        (("audit", "verify", "a.jsonl", "--owner", "ada"), "say --log too"),
        (("audit", "verify", "a.jsonl", "--log", "--partial", "--session", "s-1"), "leave --session out"),
    ],
)
@requirement("findings.options.1")
def test_what_does_not_hold_is_told(project: Project, words: tuple[str, ...], said: str) -> None:
    ran = project.run(*words, code=None)
    assert ran.code != 0
    assert said in ran.err


SERVE = """
serve:
  port: 0
  hosts: [crib.example]
  namespaces: [shop]
  auth: {keys: store}
  limits: {rate: 3/h}
"""


def test_the_file_says_how_it_is_served(project: Project) -> None:
    config = (project.folder / "crib.yaml").read_text()
    project.write("crib.yaml", config + SERVE)
    key = project.run("keys", "add", "ada", "--json").json["key"]
    with serving(project) as (_, told), httpx.Client(base_url=told["api"], timeout=60) as http:
        ada = {"Authorization": f"Bearer {key}", "Host": "crib.example"}
        assert http.get("/me", headers=ada).json()["namespaces"] == ["shop"]
        for _ in range(2):
            assert http.get("/me", headers=ada).status_code == 200
        assert http.get("/me", headers=ada).status_code == 429


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{prt: 1}", "crib.yaml:3: unknown key 'prt'; did you mean 'port'?"),
        ("{port: 99999}", "serve.port: expected 0 to 65535"),
        ("{auth: {jwt: {issuer: x}}}", "serve.auth.jwt: audience is missing"),
        ("{limits: {rate: often}}", "serve.limits.rate: 'often' is no rate"),
        ("{limits: {streams: 0}}", "serve.limits.streams: must be more than 0"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_line(project: Project, given: str, said: str) -> None:
    config = (project.folder / "crib.yaml").read_text()
    project.write("crib.yaml", f"{config}serve: {given}\n")
    for words in (("serve",), ("tools", "list")):
        assert said in project.run(*words, code=2).err


def test_nobody_reaches_a_server_before_its_token_is_left() -> None:
    with _bound("127.0.0.1", 0) as listener:
        with pytest.raises(ConnectionRefusedError), socket.create_connection(listener.getsockname()):
            pass
        _listen(listener)
        with socket.create_connection(listener.getsockname()) as client:
            assert client.getpeername() == listener.getsockname()

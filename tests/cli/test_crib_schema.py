"""The JSON Schema of `crib.yaml`: the committed one is the printed one, and it judges as the program does."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.cli.project import Project
from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib import yaml
from toolcrib.cli import schema
from toolcrib.cli.config import model
from toolcrib.cli.config.document import BadConfig
from toolcrib.cli.config.loader import load

COMMITTED = ROOT / "docs/reference/crib.schema.json"

GOOD = """\
sources:
  - shop
  - {files: tools, pack: design, values: {exa: {apiKey: "${KEY}"}}}
  - {mcp: [npx, server], env: {TOKEN: "${TOKEN}"}, trusted: true, timeout: 5}
  - {mcp: npx two, share: owner, breaker: false, tasks: false, limits: {rate: 30/min, concurrency: 2}}
  - {mcp: npx three, share: all, breaker: 5, start_s: 5, idle_s: 60, connections: 4, revision: older}
  - {openapi: petstore.yaml, include: "tag:pets", auth: {key: k, pair: {client_id: a}}, limit: 5}
  - {toolkit: files, root: data}
store: sqlite:///shop.db
engine: nats://localhost:4222
workspace: .
policy: {preset: default, rules: [{deny: "shell(rm -rf *)"}]}
retention: 12h
limits: {timeout_s: 30, per_owner: 3, session_rate: 30/min}
default_namespaces: [shop]
namespace_aliases: {store: shop}
precedence: [shop]
state_keys: {visits: add, notes: {mode: append, lives: run}}
declare: {github.*: {annotations: {read_only: true}}}
agents:
  files: team
  default: support
  models: {fast: openai:gpt-5, test: {scripted: script.yaml}}
  providers: {local: {base_url: "http://127.0.0.1:1"}}
serve:
  {host: 0.0.0.0, port: 0, hosts: [a], auth: {keys: store, jwt: {issuer: "https://a", audience: b}}}
"""

BAD = [
    "sorces: []",
    "sources: shop",
    "sources: [{mcp: x, nam: y}]",
    "sources: [{openapi: x, limit: 0}]",
    "sources: [{toolkit: fils}]",
    "store: 5",
    "retention: soon",
    "limits: {timeout: 5}",
    "limits: {per_crib: many}",
    "limits: {per_crib: 0}",
    "state_keys: {a: push}",
    "state_keys: {a: {mod: add}}",
    "agents: 3",
    "agents: {files: team, modles: {}}",
    "serve: {prt: 1}",
    "serve: {port: 99999}",
    "serve: {auth: {jwt: {issuer: 'https://x.example'}}}",
    "namespace_aliases: [a]",
]


def data(text: str) -> Any:
    return yaml.thaw(yaml.parse(text).value)


@requirement("project.file.2")
def test_the_committed_schema_is_the_printed_one(project: Project) -> None:
    assert COMMITTED.read_text("utf-8") == schema.text(), (
        "write it anew: toolcrib schema > docs/reference/crib.schema.json"
    )
    assert json.loads(project.run("schema").out) == model.json_schema()


@requirement("project.file.2")
@pytest.mark.parametrize("text", [GOOD, "{}", "agents: [team]", "agents: team", "retention: null"])
def test_what_the_program_takes_the_schema_takes(text: str) -> None:
    assert jsonschema_rs.validator_for(model.json_schema()).is_valid(data(text))
    assert model.CribFile.model_validate(data(text)).model_fields_set == set(data(text))


@requirement("project.file.1", "project.file.2")
@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_by_its_form_is_refused_by_both(tmp_path: Path, text: str) -> None:
    assert not jsonschema_rs.validator_for(model.json_schema()).is_valid(data(text))
    (tmp_path / "crib.yaml").write_text(f"# a project\n{text}\n")
    with pytest.raises(BadConfig) as caught:
        load(tmp_path / "crib.yaml")
    assert [problem.line for problem in caught.value.problems] == [2]


@requirement("project.yaml.1")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("store: &a [x]\nsources: " + "[" * 70 + "]" * 70, "nested deeper than 64 levels"),
        ("a: &a [1]\nb: &b [" + "*a, " * 400 + "]\nc: [" + "*b, " * 400 + "]\n", "those behind aliases counted"),
        ("# " + "x" * (1 << 20) + "\n", "more than 1 MB"),
        ("store: !!python/object:os.system x\n", "The tag"),
        ("limits:\n  depth: 1\n  depth: 2\n", "'depth' stands here a second time (first on line 2)"),
    ],
)
def test_the_file_is_bounded_like_all_yaml(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "crib.yaml").write_text(text)
    with pytest.raises(BadConfig) as caught:
        load(tmp_path / "crib.yaml")
    assert problem in str(caught.value)

"""`toolcrib audit`: an entry for every call, whatever became of it, and a chain that shows what was changed."""

import hashlib
import json
import signal
from typing import Any

import pytest

from tests.cli.project import Project, until
from tests.requirements import requirement
from toolcrib._session.audit import audit
from toolcrib.events import Event
from toolcrib.store.codec import encode

SAFE = """
import asyncio
from typing import Annotated
from pydantic import Field
from toolcrib import Context, tool

Password = Annotated[str, Field(json_schema_extra={"x-toolcrib-kind": "secret"})]


@tool(namespace="safe", read_only=True)
async def log_in(user: str, password: Password) -> str:
    '''Log in.'''
    return f"hello {user}"


@tool(namespace="safe")
async def press(ctx: Context) -> None:
    '''Press the button.'''
    ctx.progress("pressing")
    await asyncio.Event().wait()
"""


def entries(project: Project, *words: str) -> list[dict[str, Any]]:
    return project.run("audit", *words, "--json").lines


def a_busy_day(project: Project, session: str = "s-1") -> None:
    """A call that succeeds, one that is refused, one that fails, and one that is declined."""
    where = ("-s", session, "-o", "ada")
    project.run("call", "shop.find", "-a", "order=7", *where)
    project.run("call", "shop.find", *where, code=1)
    project.run("call", "shop.find", "-a", "order=0", *where, code=1)
    ran = project.run("call", "shop.refund", "-a", "order=7", "-a", "cents=5", *where, "--json", code=3)
    words = ("--reason", "too much", "--actor", "ada")
    project.run("approvals", "decline", ran.json["question"]["id"], *words)


@requirement("policy.audit.1")
def test_every_call_that_ended_has_an_entry(project: Project) -> None:
    a_busy_day(project)
    found = entries(project)
    assert [(one["tool"], one["outcome"]) for one in found] == [
        ("shop.find", "succeeded"),
        ("shop.find", "invalid_arguments"),
        ("shop.find", "not_found"),
        ("shop.refund", "declined"),
    ]
    assert {(one["session"], one["owner"]) for one in found} == {("s-1", "ada")}
    first, refused, _, declined = found
    assert (first["arguments"], first["verdict"]["effect"], first["approver"]) == ({"order": "7"}, "allow", None)
    assert first["by"]["kind"] == "user"
    assert first["duration_ms"] > 0
    assert len(first["digest"]) == 64
    assert (refused["started"], refused["message"]) == (False, "order: missing")
    assert (declined["approver"], declined["message"], declined["started"]) == ("ada", "too much", False)
    assert declined["verdict"] == {"effect": "ask", "by": "default", "message": "the tool is destructive"}


@requirement("policy.audit.1")
def test_an_approved_call_names_who_approved_it_and_what_really_ran(project: Project) -> None:
    question = project.wait_for_refund()["question"]
    words = ("--args", '{"cents": 3}', "--actor", "root", "--reason", "less")
    project.run("approvals", "edit", question["id"], *words)
    (entry,) = entries(project)
    assert (entry["approver"], entry["outcome"]) == ("root", "succeeded")
    assert entry["arguments"] == {"order": "7", "cents": 3}
    assert entry["digest"] != question["digest"]
    (answer,) = entry["answers"]
    assert (answer["question"], answer["edited"], answer["reason"]) == (question["id"], True, "less")


@requirement("policy.audit.1")
def test_a_denied_call_has_the_reason(project: Project) -> None:
    project.run("call", "mail.broken", "-s", "s-1", "-n", "mail", code=1)
    project.run("call", "shop.find", "-a", "order=7", "-s", "s-1", code=1)
    denied = entries(project)[-1]
    assert (denied["tool"], denied["outcome"], denied["started"]) == ("shop.find", "denied", False)
    assert (denied["verdict"]["effect"], denied["verdict"]["by"]) == ("deny", "namespace")
    assert "denied" in project.run("audit").out


@requirement("policy.audit.1")
def test_secrets_are_masked(project: Project) -> None:
    project.write("shop_tools.py", SAFE)
    project.run("call", "log_in", "-a", "user=ada", "-a", "password=hunter2")
    (entry,) = entries(project)
    assert entry["arguments"]["user"] == "ada"
    assert "hunter2" not in project.run("audit", "--json").out + project.run("audit").out


@requirement("policy.audit.1")
def test_a_call_that_was_killed_is_unknown(project: Project) -> None:
    project.write("shop_tools.py", SAFE)
    with project.start("call", "press", "-s", "s-1", "--yes") as process:
        until(process.stderr, "pressing")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    project.run("call", "log_in", "-a", "user=ada", "-a", "password=x", "-s", "s-2")
    found = {one["tool"]: one for one in entries(project)}
    assert (found["safe.press"]["outcome"], found["safe.press"]["started"]) == ("unknown", True)


@requirement("policy.audit.1")
def test_an_unknown_call_that_was_settled_has_a_second_entry() -> None:
    by, unknown = {"kind": "agent", "name": "clerk"}, {"code": "unknown", "message": "Lost"}
    accepted = {"tool": "shop.refund", "label": "Refund", "args": {"cents": 5}, "by": by, "digest": "d"}
    log = [
        Event(1, 10.0, "c1", "accepted", encode(accepted)),
        Event(2, 11.0, "c1", "started", encode({"attempt": 1, "args": {"cents": 5}, "digest": "d"})),
        Event(3, 12.0, "c1", "done", encode({"ok": False, "failure": unknown, "duration_ms": 1000.0})),
        Event(4, 20.0, "c1", "settled", encode({"ok": True, "data": "paid", "duration_ms": 9000.0})),
    ]
    first, second = audit("s-1", "ada", log)
    assert (first["cursor"], first["outcome"], first["settled"]) == ("s-1:3", "unknown", False)
    assert (second["cursor"], second["outcome"], second["settled"]) == ("s-1:4", "succeeded", True)
    assert second["prev"] == first["hash"]


@requirement("policy.audit.1")
def test_a_call_made_by_another_names_all_who_asked(project: Project) -> None:
    with project.start("call", "send_two", "--yes", "--json") as process:
        asked = json.loads(until(process.stderr, "waiting"))["waiting"]
        project.run("answer", asked["id"], "accept", '{"city": "Bern"}')
        process.communicate(timeout=120)
    chains = {one["tool"]: one["chain"] for one in entries(project)}
    (top,) = chains["mail.send_two"]
    assert top.startswith("user ")
    assert chains["shop.refund"] == chains["mail.send"] == [top, "tool mail.send_two"]


def test_entries_are_chosen_by_session_owner_tool_and_time(project: Project) -> None:
    a_busy_day(project)
    project.run("call", "speak", "-s", "s-2", "-o", "bob")
    tools = [one["tool"] for one in entries(project, "--owner", "bob")]
    assert tools == ["shop.speak"]
    assert len(entries(project, "--session", "s-1")) == 4
    assert entries(project, "--session", "s-1", "--owner", "bob") == []
    assert [one["outcome"] for one in entries(project, "--tool", "refund")] == ["declined"]
    assert len(entries(project, "--tool", "shop.*")) == 5
    assert len(entries(project, "--since", "1h")) == 5
    assert entries(project, "--since", "2999-01-01") == []


@pytest.mark.parametrize("words", [("--since", "soon"), ("--after", "s-1"), ("--after", "s-1:x")])
def test_a_time_or_cursor_that_is_none_says_how_to_write_it(project: Project, words: tuple[str, str]) -> None:
    assert words[1] in project.run("audit", *words, code=2).err


@requirement("policy.audit.1")
def test_a_cursor_goes_on_behind_what_was_read(project: Project) -> None:
    a_busy_day(project)
    whole = entries(project)
    assert [one["cursor"] for one in whole] == [f"s-1:{one['seq']}" for one in whole]
    assert entries(project, "--after", whole[1]["cursor"]) == whole[2:]
    assert entries(project, "--after", whole[-1]["cursor"]) == []


@pytest.mark.parametrize("where", [(), ("--session", "s-1")])
def test_following_tells_of_calls_as_they_end(project: Project, where: tuple[str, ...]) -> None:
    project.run("call", "speak", "-s", "s-1")
    with project.start("audit", "--follow", "--json", *where) as process:
        until(process.stdout, "shop.speak")
        project.run("call", "shop.find", "-a", "order=7", "-s", "s-1")
        entry = json.loads(until(process.stdout, "shop.find"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (entry["outcome"], process.returncode, err) == ("succeeded", 130, "")


def test_people_get_a_table_in_the_order_of_time(project: Project) -> None:
    a_busy_day(project)
    head, *rows = project.run("audit").out.splitlines()
    for column in ("Time", "Session", "Owner", "Asked by", "Tool", "Digest", "Arguments", "Verdict", "Outcome"):
        assert column in head
    assert "ask by default: the tool is destructive  ada declined: too much  declined (too much)" in rows[-1]
    assert len(rows) == 4
    with project.start("audit", "--follow") as process:
        assert "declined (too much)" in until(process.stdout, "shop.refund")


def test_an_audit_of_no_store_says_so_and_makes_none(project: Project) -> None:
    assert "There is no store yet" in project.run("audit", code=1).err
    assert not (project.folder / "shop.db").exists()


# The chain


def kept(project: Project, *words: str) -> list[str]:
    """The lines of an audit, in a file."""
    lines = project.run("audit", "--json", *words).out.splitlines()
    keep(project, lines)
    return lines


def keep(project: Project, lines: list[str]) -> None:
    project.write("audit.jsonl", "".join(f"{line}\n" for line in lines))


def flaws(project: Project, *words: str) -> list[str]:
    ran = project.run("audit", "verify", "audit.jsonl", "--json", *words, code=None)
    found = [flaw["message"] for flaw in ran.json["flaws"]]
    assert ran.code == (1 if found else 0)
    return found


def sealed_by_eve(line: str) -> str:
    """A line that says something else, with a hash that fits it."""
    entry = json.loads(line) | {"owner": "eve"}
    said = {name: value for name, value in entry.items() if name not in ("prev", "hash")}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    entry["hash"] = hashlib.sha256(f"{entry['prev']}\n{text}".encode()).hexdigest()
    return json.dumps(entry)


@requirement("policy.audit.2")
def test_a_whole_audit_is_verified(project: Project) -> None:
    a_busy_day(project)
    a_busy_day(project, "s-2")
    lines = kept(project)
    assert flaws(project) == []
    assert "8 lines, nothing changed, nothing missing" in project.run("audit", "verify", "audit.jsonl").out
    assert project.run("audit", "verify", "-", stdin="\n".join(lines)).code == 0


@requirement("policy.audit.2")
def test_a_changed_line_is_found(project: Project) -> None:
    a_busy_day(project)
    lines = kept(project)
    keep(project, [line.replace('"approver":"ada"', '"approver":"eve"') for line in lines])
    assert flaws(project) == ["entry 4 of session s-1 was changed"]
    assert project.run("audit", "verify", "audit.jsonl", code=1).out == "Line 4: entry 4 of session s-1 was changed\n"
    keep(project, [*lines, "{"])
    assert flaws(project) == ["it is no entry of an audit"]


@requirement("policy.audit.2")
def test_a_missing_line_is_found(project: Project) -> None:
    a_busy_day(project)
    lines = kept(project)
    keep(project, [lines[0], *lines[3:]])
    assert flaws(project) == ["entries 2 to 3 are missing in session s-1"]
    keep(project, lines[1:])
    assert flaws(project) == ["entry 1 is missing in session s-1"]
    keep(project, [lines[1], lines[0], *lines[2:]])
    assert len(flaws(project)) == 3


@requirement("policy.audit.2")
def test_a_line_that_was_changed_and_sealed_again_breaks_the_chain(project: Project) -> None:
    a_busy_day(project)
    lines = kept(project)
    keep(project, [lines[0], sealed_by_eve(lines[1]), *lines[2:]])
    assert flaws(project) == ["entry 3 of session s-1 does not follow the one before it"]


@requirement("policy.audit.2")
def test_the_log_shows_what_was_cut_off_or_sealed_anew(project: Project) -> None:
    a_busy_day(project)
    a_busy_day(project, "s-2")
    lines = kept(project)
    assert flaws(project, "--log") == []
    keep(project, [*lines[:3], *lines[4:]])
    assert flaws(project) == []
    assert flaws(project, "--log") == ["entry 4 of session s-1 is in the log, and not here"]
    keep(project, [*lines[:-1], sealed_by_eve(lines[-1])])
    assert flaws(project) == []
    assert flaws(project, "--log") == ["entry 4 of session s-2 is not what the log says"]
    project.run("call", "speak", "-s", "s-1")
    keep(project, lines)
    assert flaws(project, "--log") == []


def test_a_part_of_an_audit_may_begin_in_the_middle(project: Project) -> None:
    a_busy_day(project)
    lines = kept(project)
    keep(project, lines[2:])
    assert flaws(project, "--partial") == []
    keep(project, [lines[1], lines[3]])
    assert flaws(project, "--partial") == ["entry 3 is missing in session s-1"]


def test_a_file_that_is_not_there_is_said_to_be_missing(project: Project) -> None:
    assert "cannot be read" in project.run("audit", "verify", "nowhere.jsonl", code=2).err


@requirement("findings.words.6")
def test_a_session_that_is_missing_as_a_whole_is_noticed(project: Project) -> None:
    a_busy_day(project)
    a_busy_day(project, "s-2")
    lines = kept(project)
    keep(project, [line for line in lines if json.loads(line)["session"] == "s-2"])
    assert flaws(project) == []
    missing = flaws(project, "--log")
    assert missing
    assert all("of session s-1 is in the log, and not here" in flaw for flaw in missing)
    assert flaws(project, "--log", "--session", "s-2") == []
    keep(project, lines)
    assert flaws(project, "--log") == []

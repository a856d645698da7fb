"""What "allow this for the session" offers: as narrow as the call, effective, and never for what is too wide."""

from typing import Any

import pytest

from tests.policy.test_rules import ANN, EDIT, FOLDERS, PLAIN, SHELL, made, policy, verdict
from toolcrib.policy import grant_offers
from toolcrib.policy.errors import BadRule
from toolcrib.policy.loader import load
from toolcrib.policy.rule_policy import Layers
from toolcrib.tool import Tool


def offer(tool: Tool, *rules: dict[str, Any], default: str = "ask", **args: Any) -> str | None:
    return policy(*rules, default=default).offer(ANN, tool, lambda: args)


def test_an_offer_is_an_allow_of_this_call_and_the_capabilities_it_asks_for() -> None:
    tool = made("put", kinds={"path": "path"}, primary="path", capabilities=["fs:write:{path}"])
    given = policy(default="auto", grants={"ungranted": "ask"})
    found = given.offer(ANN, tool, lambda: {"path": "docs/../a.md", "text": "long"})
    assert found == 'allow default.put(path = "/session/a.md")\ngrant fs:write:/session/a.md'
    after = given.with_offer(found)
    assert verdict(after, tool, path="a.md", text="other").effect == "allow"
    assert verdict(after, tool, path="b.md", text="long").effect == "ask"


def test_an_offer_of_a_command_covers_its_segments_and_nothing_more() -> None:
    found = offer(SHELL, command="git push origin && ls -l")
    assert found == 'allow default.shell(command = "git push origin")\nallow default.shell(command = "ls -l")'
    after = policy().with_offer(found)
    assert verdict(after, SHELL, command="ls -l; git push origin").effect == "allow"
    assert verdict(after, SHELL, command="git push origin main").effect == "ask"
    assert verdict(after, SHELL, command="PATH=/x git push origin").effect == "ask"


def test_an_approved_program_is_free_in_the_approved_commands_alone() -> None:
    tool = made("shell", kinds={"command": "command"}, primary="command", capabilities=["exec:cmd:{command}"])
    given = policy(default="auto", preset="developer")
    for command in ("git log", "ls -l > x"):
        found = given.offer(ANN, tool, lambda command=command: {"command": command})  # type: ignore[misc]
        assert found is not None
        given = given.with_offer(found)
    for allowed in ("git log", "git log | ls -l", "ls -l > x; git log"):
        assert verdict(given, tool, command=allowed).effect == "allow", allowed
    for asked in ("git push", "git log > y", "git log; ls", "git log > x; git push"):
        assert verdict(given, tool, command=asked).effect == "ask", asked


@pytest.mark.parametrize(
    "command",
    [
        "python3 x.py",
        "git log; bash x",
        "$X",
        "rm $HOME",
        "rm *.py",
        "sudo ls",
        "PATH=/x ls",
        "echo $(date)",
        "xargs rm",
    ],
)
def test_open_commands_and_interpreters_are_never_offered(command: str) -> None:
    assert offer(SHELL, command=command) is None


def test_what_requires_confirmation_and_what_does_not_ask_is_never_offered() -> None:
    assert offer(made("pay", annotations={"requires_confirmation": True}), amount=5) is None
    assert offer(PLAIN, default="allow") is None
    assert offer(PLAIN, default="deny") is None
    assert offer(SHELL, {"ask": "shell(ls | wc)"}, command="ls | wc") is None


def test_without_a_primary_argument_every_argument_is_part_of_the_offer() -> None:
    assert offer(PLAIN, amount=5, to="bob") == 'allow default.plain(amount = "5", to = "bob")'
    assert offer(PLAIN) == "allow default.plain"
    assert offer(PLAIN, to=["bob"]) is None


def test_free_text_beside_a_primary_argument_is_left_open_and_nothing_else() -> None:
    tool = made("mail", primary="to", kinds={"attach": "path"})
    found = offer(tool, to="bob", text="hello", urgent=True, attach="a")
    assert found == 'allow default.mail(to = "bob", urgent = "true", attach = "/session/a")'


def test_an_offer_beats_every_ask_and_no_deny() -> None:
    rules = [{"ask": 'edit(path = "docs/a", path ~ "docs/*", path ~ "*")'}]
    found = offer(EDIT, *rules, path="docs/a")
    assert found is not None
    assert verdict(policy(*rules).with_offer(found), EDIT, path="docs/a").effect == "allow"
    denied = policy(*rules, {"deny": "edit"}).with_offer(found)
    assert verdict(denied, EDIT, path="docs/a").effect == "deny"


def test_an_offer_holds_in_every_layer_and_for_strangers() -> None:
    stranger = made("srv.get", trusted=False, primary="id")
    crib, agent = policy(default="auto"), load({"default": "ask"}, folders=FOLDERS, narrowing=True)
    layers = Layers((crib, agent))
    found = layers.offer(ANN, stranger, lambda: {"id": 'a "b" \\'})
    assert found == 'allow srv.get(id = "a \\"b\\" \\\\")'
    assert verdict(layers.with_offer(found), stranger, id='a "b" \\').effect == "allow"


def test_secrets_and_lines_are_never_part_of_an_offer() -> None:
    secret = made("login", kinds={"key": "secret"}, primary="key")
    assert offer(secret, key="hunter2") is None
    assert offer(PLAIN, text="a\nb") is None


@pytest.mark.parametrize("text", ["deny x", "allow", "allow two words", "grant"])
def test_a_text_that_is_no_offer_is_refused(text: str) -> None:
    with pytest.raises(BadRule):
        policy().with_offer(text)


def test_an_offer_is_read_as_it_was_written() -> None:
    found = grant_offers.GrantOffer(('a.b(c = "d")',), ("fs:read:/x",))
    assert grant_offers.read(found.text) == found

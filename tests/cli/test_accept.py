"""`toolcrib tools accept`: tools of strangers that changed, shown and accepted."""

import json

from tests.cli.project import Project, Screen
from tests.requirements import requirement

FAR = """
from toolcrib import Annotations, Tool

async def run(ctx, values):
    return "x"

def far(name, description):
    annotations = Annotations(read_only=True)
    return Tool(name=name, namespace="far", description=description, run=run, trusted=False, source="mcp",
                annotations=annotations)

tools = [far("get", {get!r}), far("put", {put!r})]
"""


def server(project: Project, get: str = "Get it.", put: str = "Put it.", pin: str | None = "ask") -> None:
    """The server says this of its tools from now on."""
    project.write("far_tools.py", FAR.format(get=get, put=put))
    policy = {"rules": [{"allow": "far.*"}], **({"pin": pin} if pin else {})}
    project.write(
        "crib.yaml", json.dumps({"sources": ["far_tools:tools"], "store": "sqlite:///s.db", "policy": policy})
    )


def changed(project: Project) -> list[str]:
    """The tools that the list marks."""
    lines = project.run("tools", "list", "-n", "far").out.splitlines()
    assert sum(line.startswith("far.") for line in lines) == 2
    return [line.split()[0] for line in lines if "[changed its description]" in line]


@requirement("policy.pin.1")
def test_what_changed_is_marked_and_asks_until_it_is_accepted(project: Project) -> None:
    server(project)
    assert project.run("call", "far.get").out == "x\n"
    server(project, get="Get it, and tell me.")
    assert changed(project) == ["far.get"]
    assert "[changed its description] Get it, and tell me." in project.run("tools", "list").out
    ran = project.run("tools", "show", "far.get")
    assert ran.err == "far.get changed its description since it was accepted\n"
    shown = ran.out
    assert "Changed       its description since it was accepted (`toolcrib tools accept far.get`)" in shown
    assert "ask by rule pin: far.get changed its description" in project.run("why", "far.get", code=3).out
    project.run("call", "far.get", code=3)
    ran = project.run("tools", "accept", "far.get")
    assert ran.out.splitlines() == [
        "far.get changed its description",
        "  description is now: Get it, and tell me.",
        "Accepted: far.get",
    ]
    assert project.run("call", "far.get").out == "x\n"
    assert changed(project) == []


@requirement("policy.pin.1")
def test_all_that_changed_is_accepted_at_once(project: Project) -> None:
    server(project)
    project.run("call", "far.get")
    server(project, get="a", put="b")
    said = project.run("tools", "accept", "--all", "--json").json
    assert said == [{"id": "far.get", "changed": ["description"]}, {"id": "far.put", "changed": ["description"]}]
    assert project.run("tools", "accept", "--all", "--json").json == []
    assert "Nothing changed" in project.run("tools", "accept", "get").err


def test_on_a_terminal_it_asks_and_no_changes_nothing(project: Project) -> None:
    server(project)
    project.run("call", "far.get")
    server(project, get="a")
    with Screen(["tools", "accept", "get"], project.folder) as screen:
        screen.expect("description is now: a").expect("Accept them as they are now?").press("n\n")
        assert screen.ended() == 1
    assert changed(project) == ["far.get"]
    with Screen(["tools", "accept", "get"], project.folder) as screen:
        screen.expect("Accept them as they are now?").press("y\n").expect("Accepted: far.get")
        assert screen.ended() == 0
    server(project, get="b")
    with Screen(["tools", "accept", "get", "--yes"], project.folder) as screen:
        screen.expect("Accepted: far.get")
        assert screen.ended() == 0
    assert changed(project) == []


def test_what_cannot_be_accepted_is_said(project: Project) -> None:
    server(project)
    assert "Say which tools, or --all" in project.run("tools", "accept", code=2).err
    assert "Say which tools, or --all" in project.run("tools", "accept", "get", "--all", code=2).err
    assert "did you mean" in project.run("tools", "accept", "gett", code=2).err
    server(project, pin=None)
    assert "Nothing is pinned" in project.run("tools", "accept", "get", code=1).err


def test_looking_at_pinned_tools_makes_no_store(project: Project) -> None:
    server(project)
    assert changed(project) == []
    assert not (project.folder / "s.db").exists()


def test_pins_are_kept_in_the_store_that_is_named(project: Project) -> None:
    server(project)
    other = ("--store", "sqlite:///other.db")
    project.run(*other, "call", "far.get")
    server(project, get="a")
    project.run(*other, "call", "far.get", code=3)
    assert project.run("call", "far.get").out == "x\n"
    project.run(*other, "tools", "accept", "get")
    assert project.run(*other, "call", "far.get").out == "x\n"

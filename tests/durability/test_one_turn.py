"""Contract, acceptance 4: three calls of one turn wait for three things, and are answered in reverse after a kill."""

from pathlib import Path

from tests.durability.processes import lines, script


def test_three_calls_of_one_turn_are_answered_in_reverse_after_a_kill_and_each_runs_once(tmp_path: Path) -> None:
    store, effects = f"sqlite:///{tmp_path}/log.db", tmp_path / "effects"
    with script("turn.py", store, effects) as one:
        calls = one.ask(["submit"])
        assert [kind for _, kind in one.ask(["questions"])] == ["confirm", "input", "client"]
    with script("turn.py", store, effects) as two:
        questions = [id for id, _ in two.ask(["questions"])]
        assert two.ask(["answer", questions[2], {"picked": "green"}]) == "accept"
        assert two.ask(["result", calls[2]]) == {"picked": "green"}
    with script("turn.py", store, effects) as three:
        assert [id for id, _ in three.ask(["questions"])] == questions[:2]
        assert three.ask(["answer", questions[1], "bob"]) == "accept"
        assert three.ask(["result", calls[1]]) == "hello bob"
        assert three.ask(["answer", questions[0], None]) == "accept"
        assert three.ask(["result", calls[0]]) == "deleted"
        assert three.ask(["answer", questions[2], {"picked": "red"}]) == "already_answered"
    assert lines(effects) == ["greet", "delete"]


def test_a_finished_sibling_never_runs_again(tmp_path: Path) -> None:
    store, effects = f"sqlite:///{tmp_path}/log.db", tmp_path / "effects"
    with script("turn.py", store, effects) as one:
        calls = one.ask(["submit"])
        questions = [id for id, _ in one.ask(["questions"])]
        one.ask(["answer", questions[0], None])
        assert one.ask(["result", calls[0]]) == "deleted"
    with script("turn.py", store, effects) as two:
        two.ask(["answer", questions[1], "bob"])
        assert two.ask(["result", calls[1]]) == "hello bob"
        assert two.ask(["result", calls[0]]) == "deleted"
    assert lines(effects) == ["delete", "greet"]

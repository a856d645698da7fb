"""Which requirements of the specification are done, each in our own words and each held by a marked test.

`python -m tests.requirements` prints what is done and what is open; with names (`contract aomi.open`) it lists the
open ids under them. `test_requirements.py` checks the manifest both ways: what stands here has a test, what a test
names stands here.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.shared import SHARED

# One dict per first word of the ids, lines in the order of the specification.

CONTRACT: dict[str, str] = {
    "contract.tool.1": "A tool is frozen and checked when it is made; the error names tool, field and source.",
    "contract.tool.2": "The effect follows the annotations unless said; read_only and destructive exclude each other.",
    "contract.tool.3": "A model sees short unique names of 64 letters at most, which keep their meaning in a session.",
    "contract.tool.4": "The fingerprint is the digest of the canonical definition and part of the digest of each call.",
    "contract.tool.5": "Time, size and schema of the output are enforced; what breaks the schema goes to the trace.",
    "contract.tool.6": "A wrapper renames, re-describes, fixes arguments or tightens limits, and is a tool of its own.",
    "contract.result.1": "Whatever a tool returns becomes one result, the same when it is read from the log.",
    "contract.result.2": "Blocks of every type, also unknown ones, are kept with their audience and passed on.",
    "contract.result.3": "The model reads its blocks, else the data, and of a failure the code, message and hint.",
    "contract.result.4": "Provider ids are kept and echoed, and never used as keys.",
    "contract.result.5": "Where an approver edited the arguments, the model is told which, also of a failure.",
    "contract.result.6": "The events of a call hold the data that the table says.",
    "contract.failure.1": "A failure on purpose is quoted; any other exception goes to the trace alone, under an id.",
    "contract.failure.2": "A failed, denied or unknown call disturbs neither its siblings nor its session.",
    "contract.failure.3": "Nothing that a body, check, type, reconcile or result raises escapes; each call is done.",
    "contract.failure.4": "Secret arguments reach the body and are masked in messages, events, questions and trace.",
    "contract.typed.1": "Functions and generators become tools by what they say of themselves.",
    "contract.typed.2": "The body receives real objects of all the usual types, nested and constrained.",
    "contract.typed.3": "Arguments come as an object, a JSON text or nothing; broken JSON is refused with its place.",
    "contract.typed.4": "Arguments are read gently where the schema leaves no doubt, and never where they are valid.",
    "contract.typed.5": "Every tool is checked against its schema before it runs, whichever its source.",
    "contract.typed.6": "All problems are reported at once, at most ten, missing fields first.",
    "contract.typed.7": "The business check sees parsed arguments, after the schema and before the policy.",
    "contract.schema.1": "A model sees a plain schema without references; validation uses the original.",
    "contract.schema.2": "The strict dialect requires every property and makes the optional ones nullable.",
    "contract.ctx.1": "A tool knows who and where it runs for, read-only and never as an argument.",
    "contract.ctx.2": "Progress, output and activities return at once, from any thread, and never fail a tool.",
    "contract.ctx.3": "Order is kept, text is joined exactly, progress is thinned and its last value delivered.",
    "contract.ctx.4": "The progress view is a tree of calls and runs whose states come from the log.",
    "contract.ctx.5": "A cancel reaches async bodies at once, plain loops at their check, and is never missed.",
    "contract.ctx.6": "A tool calls another through the whole pipeline, eight deep at most; it ends with its parent.",
    "contract.ctx.7": "A step runs once for its call; dependencies are found by type or name.",
    "contract.ctx.8": "A context outside a crib records all that a tool tells it, in order.",
    "contract.ask.1": "A call waits because the policy asks, the client runs the tool, or the tool asks.",
    "contract.ask.2": "Questions and answers hold what the specification lists; nonsense is refused.",
    "contract.ask.3": "A waiting call goes on by run, use or pass, by its kind or as its question says.",
    "contract.ask.4": "Answers belong to the key of their question; a derived key twice in one pass is an error.",
    "contract.ask.5": "Values and edited arguments that do not fit are refused, and the question stays.",
    "contract.ask.6": "The same answer again gives the first outcome; any other to an answered question is refused.",
    "contract.ask.7": "Decline, cancel, fail and expiry end the call each in its way; late answers are never applied.",
    "contract.ask.8": "Any number of questions, one after the other or side by side, answered in any order.",
    "contract.ask.9": "Open questions are listed after a restart and answered by their id alone.",
    "contract.client.1": "A client's tool is checked like any other, shadows nothing, and takes the client's result.",
    "contract.client.2": "A question to a client that is away waits, is listed, and takes a late result.",
    "contract.state.1": "Tools see a frozen snapshot; changes are committed with the done and fold from the log.",
    "contract.state.3": "A later change of an exclusive key fails with the conflict and keeps its data.",
    "contract.state.4": "A batch with a problem is refused whole.",
    "contract.state.5": "A tool that may be repeated runs again on a fresh snapshot, at most three times.",
    "contract.registry.1": "Listings are sorted by id; a tool is found by id or by an unambiguous bare name.",
    "contract.registry.2": "The same id twice is an error, unless replace or precedence says who wins.",
    "contract.registry.3": "A source may change its tools at any time; an approval holds only for what was approved.",
}

SESSIONS: dict[str, str] = {  # aomi.*
    "aomi.open.1": "Open creates or restores; ids are checked, and minted ones have 128 random bits.",
    "aomi.open.2": "Somebody else's session is denied and nothing is said of it; its calls do not exist for others.",
    "aomi.open.3": "Two sessions share no call, result, event, cursor or state.",
    "aomi.open.4": "Who and where reaches a tool in its context; an argument session_id is an ordinary one.",
    "aomi.open.5": "Namespaces are default at first, then the recorded ones; given ones replace them and are logged.",
    "aomi.open.7": "Several processes may have a session open: one log, one order.",
    "aomi.ns.1": "A namespace is trimmed and lower-cased wherever it is given; the id is namespace.name.",
    "aomi.ns.2": "Namespaces hold at the listing, at the call and for calls made by tools, each by itself.",
    "aomi.ns.3": "A closed namespace is denied, an unknown name not found with near names; both are calls with a done.",
    "aomi.ns.4": "A bare name is taken where it is the only one, and otherwise refused with the full names.",
    "aomi.ns.5": "Tools come and go in open sessions with an event; queued calls of a removed one are not found.",
    "aomi.ns.6": "A name is registered once in a namespace.",
    "aomi.ns.7": "No message, label, notice or result opens a namespace.",
    "aomi.ns.8": "Aliases name namespaces; one that nobody declares is not found.",
    "aomi.ns.9": "Namespaces may be globs; a star opens every namespace and has to be allowed as such.",
    "aomi.path.3": "A result finds its call by the call's id alone.",
    "aomi.path.4": "A call made by a call goes the same path, names its parent, ends with it and never deadlocks.",
    "aomi.path.5": "A raising source, layer, policy or reader ends one call at most.",
    "aomi.tool.1": "Functions give one result; generators and ctx.output stream.",
    "aomi.tool.2": "Each yield is one output, never joined; the last value or Result is the result.",
    "aomi.tool.3": "Plain functions run in threads and keep nobody waiting.",
    "aomi.tool.4": "A background tool answers at once with its id; what is refused is told in the turn.",
    "aomi.tool.5": "A foreground tool may stream; its caller gets the final result.",
    "aomi.tool.6": "A body that runs again makes its chunks again, those of a step once.",
    "aomi.tool.7": "call_status and cancel_call work on calls of their own session only.",
    "aomi.sched.1": "The calls of one turn run together.",
    "aomi.sched.2": "Calls of a session start in the order of acceptance.",
    "aomi.sched.3": "Session, crib, tool and turn have their bounds; more calls are queued or rate limited.",
    "aomi.sched.4": "Free seats go round the sessions; neither a crowd nor a blocked tool holds up the others.",
    "aomi.sched.5": "A body runs as long as it may, waiting and queueing apart, and is then stopped.",
    "aomi.sched.6": "Submit and close in the next line lose nothing.",
    "aomi.sched.7": "10,000 chunks are all in the log, in order, in time.",
    "aomi.sched.8": "Generators wait while much is unwritten; ctx.output never waits, and a flood ends too_large.",
    "aomi.view.1": "At every sequence number each accepted call is in exactly one of the three lists.",
    "aomi.view.2": "The lists are a fold of any prefix of the log, and the index of calls equals the fold.",
    "aomi.view.3": "An entry tells id, full name, label, status, times, last number and result.",
    "aomi.view.4": "Completed calls past a named cursor, in order of completion; cursors never go back.",
    "aomi.view.5": "Views answer while calls run, wait or drain.",
    "aomi.stream.1": "Events replay, follow and end right after done, from any number on.",
    "aomi.stream.2": "Every reader gets every event once and in order; one that stalls or is cut off slows nobody.",
    "aomi.stream.3": "Accepted is enough to draw the card, with secrets masked.",
    "aomi.stream.5": "Progress is thinned and its newest survives; yielded values all stay.",
    "aomi.stream.6": "A reader or caller who leaves changes nothing, unless the call was made to end with it.",
    "aomi.topic.1": "with_topic adds the topic and makes optional properties required and nullable.",
    "aomi.topic.3": "The topic is taken off a model's call before anything looks at it; null means not given.",
    "aomi.topic.4": "A label is one line of at most 120 characters: the topic, else the name in words.",
    "aomi.topic.5": "A tool with a topic of its own keeps it.",
    "aomi.topic.6": "A label is kept as the text it is and means nothing.",
    "aomi.event.2": "Session events are lines of the one log, survive a restart and end with retention.",
    "aomi.event.5": "A question is visible only after validation and policy passed.",
    "aomi.event.6": "An answer finds its question by id and has to fit; a message that answers nothing is a notice.",
    "aomi.push.1": "Idle sessions and their readers cost no task, no timer and no CPU.",
    "aomi.push.2": "A reader that is behind reads on from the store.",
    "aomi.push.4": "No lock of a session is held while a tool runs or is asked.",
    "aomi.wake.1": "The wake policy is the tool's unless a call says otherwise, and it is recorded.",
    "aomi.user.1": "A client says who its user is, in either spelling, up to 8 KB; tools see it and can not change it.",
    "aomi.user.3": "What a client says of its user gives no rights.",
    "aomi.stop.1": "Interrupt cancels what runs and waits in the foreground, or all of it.",
    "aomi.stop.2": "Cancel answers whether it stopped something; a second one changes nothing.",
    "aomi.stop.3": "A cancelled call is done when its body stopped, 5 s later at the latest; nothing follows done.",
    "aomi.drain.1": "A closing session takes no more calls, except from those that still run.",
    "aomi.drain.2": "Close returns as soon as what runs and queues has ended.",
    "aomi.drain.3": "At the timeout the rest ends with exactly `Timed out during logout`; chunks stay.",
    "aomi.drain.4": "A started once call says it may have run and to check first; a queued one can be tried again.",
    "aomi.drain.5": "A waiting call survives the logout and is answered after the next open.",
    "aomi.drain.6": "A tool that ignores cancellation delays close by 5 s at most and is not recorded later.",
    "aomi.drain.7": "Close tells and logs what it found; a second one joins it, an open waits for it.",
    "aomi.drain.8": "After close the process holds nothing of the session.",
    "aomi.drain.9": "After a kill in the middle of a logout the next open finds every finished call.",
    "aomi.drain.10": "Stopping the crib is no logout: what remains is left to recovery.",
    "aomi.restore.1": "Open delivers each undelivered result once, failures too, and says that it restored.",
    "aomi.restore.2": "Numbers, cursors, state, namespaces and questions go on where they were.",
    "aomi.restore.3": "Results of tools that are gone are still delivered.",
    "aomi.restore.4": "The tools are those registered now, within the session's namespaces.",
    "aomi.table.2": "The view names the namespaces and tools of the last opened, namespaces or tools_changed.",
    "aomi.table.3": "The view lists what the model has not consumed, in order of completion, as Ok or Err.",
    "aomi.table.4": "Sessions are found by owner and by last use through an index.",
    "aomi.sweep.1": "A session unused for the retention time is deleted with all that is its.",
    "aomi.sweep.2": "What runs or waits keeps its session; opening counts as use, reading does not.",
    "aomi.sweep.4": "6 days 23 hours stay, 7 days 1 second go; two sweepers at once do no harm.",
    "aomi.sweep.5": "An idle session is only its rows.",
    "aomi.orphan.1": "However a stream, a client or a process goes away, the call ends as the table says.",
    "aomi.orphan.2": "After done nothing of a call is taken any more, and that is counted.",
    "aomi.orphan.3": "A generator left early is closed, within 5 s, and its finally blocks run.",
    "aomi.orphan.4": "At start and open no call stays open that nobody runs and nobody can answer.",
    "aomi.guide.1": "The guide defines, registers and calls a first tool in three steps, in at most 10 lines.",
    "aomi.guide.2": "The guide has a tool of each kind and a test, each a file that is run.",
    "aomi.guide.3": "The guide has the table of namespaces and a checklist from the name to the test.",
    "aomi.guide.4": "A page maps every part of an Aomi tool to what it is here.",
}

STORE: dict[str, str] = {
    "store.2": "The index of calls says what the log says, whatever happened to either.",
    "store.4": "Readers see committed events once each, without gaps, across processes and reconnects.",
    "store.5": "A read that was killed never happened; everything else is durable before it is acknowledged.",
    "store.6": "Old sessions are swept in pieces; large arguments and results are stored once and referenced.",
    "store.8": "session_tool_state is a view that plain SQL reads.",
    "store.9": "A full, locked or broken file is a clear error; nothing is half written and nothing told is lost.",
}

ENGINE: dict[str, str] = {
    "engine.1": "Start and open take up what a dead process left: again, unknown, or as its tool can say.",
}

CHAPTERS: dict[str, dict[str, str]] = {"contract": CONTRACT, "aomi": SESSIONS, "store": STORE, "engine": ENGINE}

DONE: dict[str, str] = {id: words for chapter in CHAPTERS.values() for id, words in chapter.items()}


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test as the one that would fail without these requirements; ids are literal strings."""
    return pytest.mark.requirement(*ids)


class Entry(NamedTuple):
    """One requirement as the specification lists it."""

    id: str
    level: str  # core or full


def read_spec(folder: Path = SHARED / "spec") -> list[Entry]:
    """Read the ids of every chapter, in order; an empty list says that the specification is absent."""
    pattern = re.compile(r"\*\*([a-z][\w-]*(?:\.[\w-]+)+)\*\* \[(core|full)\]")
    return [Entry(*found) for path in sorted(folder.glob("*.md")) for found in pattern.findall(path.read_text("utf-8"))]


def table(entries: Iterable[Entry]) -> list[str]:
    """Count done and open requirements, one line for each first word of the ids."""
    counts = Counter((entry.id.partition(".")[0], entry.level, entry.id in DONE) for entry in entries)
    lines = [f"{'chapter':<12}{'done':>6}{'core open':>11}{'full open':>11}"]
    for name in dict.fromkeys(key[0] for key in counts):
        done = counts[name, "core", True] + counts[name, "full", True]
        lines.append(f"{name:<12}{done:>6}{counts[name, 'core', False]:>11}{counts[name, 'full', False]:>11}")
    return lines


def still_open(entries: Iterable[Entry], name: str) -> list[str]:
    """List the open ids under one chapter or section."""
    return [f"{id} [{level}]" for id, level in entries if f"{id}.".startswith(f"{name}.") and id not in DONE]


def main(names: list[str]) -> None:
    """Print the table, or the open ids under the given names."""
    entries = read_spec()
    if not entries:
        print(f"The specification is absent; {len(DONE)} requirements are listed as done.")
        return
    lines = [line for name in names for line in still_open(entries, name)] if names else table(entries)
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])

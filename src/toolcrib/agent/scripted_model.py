"""A model that says what it was told to, and one that writes down what another says, so that it can be said again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from toolcrib.agent.models import (
    CompletionRequest,
    Delta,
    Finish,
    MediaIntake,
    Model,
    ModelCall,
    ModelError,
    ProviderData,
    Reasoning,
    Text,
    Usage,
)

EVERYTHING = MediaIntake(frozenset({"application/*", "audio/*", "image/*", "text/*", "video/*"}), 2**30, 2**30)
_TURN = ("text", "reasoning", "calls", "usage", "chunks", "finish", "kept", "error")


class ScriptExhausted(ModelError):
    """A model was asked once more than its script knows."""

    def __init__(self, agent: str, turn: int, known: int = 0) -> None:
        what = f"it has {known}" if known else "it does not speak for that agent"
        super().__init__("internal", f"The script has no turn {turn} for agent '{agent}': {what}, so add what it says")
        self.agent = agent
        self.turn = turn


class ScriptedModel(Model):
    """Turns by agent: each request takes the next turn of the agent that asks.

    A turn is `{"text"?, "calls"? [{"id"?, "tool", "args" | "args_text"}], "usage"? {"input", "output"}, "chunks"?}` or
    `{"error": {"code", "message"}}`; `chunks` is a number of pieces, or the pieces themselves. All requests are kept in
    `requests`. In a new process it goes on where the log of the session ends.
    """

    def __init__(self, script: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.script = {agent: list(turns) for agent, turns in script.items()}
        self.requests: list[CompletionRequest] = []
        self._next: Counter[str] = Counter()
        self._process = ""
        for agent, turns in self.script.items():
            for number, turn in enumerate(turns, 1):
                unknown = [key for key in turn if key not in _TURN]
                if unknown:
                    raise ValueError(f"script of '{agent}', turn {number}: unknown key '{unknown[0]}'")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> ScriptedModel:
        """The model of a script in a file of JSON or YAML."""
        text = Path(path).read_text("utf-8")
        if Path(path).suffix == ".json":
            return cls(json.loads(text))
        from toolcrib.yaml import parse, thaw

        return cls(thaw(parse(text).value) or {})

    def left(self) -> dict[str, list[Mapping[str, Any]]]:
        """The turns that nobody asked for, of agents that have any."""
        rest = {agent: turns[self._next[agent] :] for agent, turns in self.script.items()}
        return {agent: list(turns) for agent, turns in rest.items() if turns}

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        """The next turn of the agent.

        Raises:
            ScriptExhausted: there is none.
            ModelError: the script says so.
        """
        self.requests.append(request)
        for delta in self._turn(request):
            yield delta

    async def media(self, settings: Mapping[str, Any]) -> MediaIntake:
        """All files, so that `requests` show them."""
        return EVERYTHING

    def _turn(self, request: CompletionRequest) -> Iterator[Delta]:
        agent = request.agent
        if request.process != self._process:  # what an earlier process was told but did not keep is said again
            self._process = request.process
            self._next.clear()
        number = max(self._next[agent], request.earlier_requests)
        self._next[agent] = number + 1
        turns = self.script.get(agent, [])
        if number >= len(turns):
            raise ScriptExhausted(agent, number + 1, len(turns))
        turn = turns[number]
        if "error" in turn:
            raise ModelError(turn["error"].get("code", "failed"), turn["error"].get("message", ""))
        yield from _said(turn, f"{agent}-{number + 1}")


def _said(turn: Mapping[str, Any], id: str) -> Iterator[Delta]:
    if turn.get("reasoning"):
        yield Reasoning(turn["reasoning"])
    for piece in _pieces(turn.get("text") or "", turn.get("chunks")):
        yield Text(piece)
    calls = turn.get("calls") or ()
    for index, call in enumerate(calls, 1):
        text = call["args_text"] if "args_text" in call else json.dumps(call.get("args", {}), ensure_ascii=False)
        yield ModelCall(call.get("id") or f"{id}-{index}", call["tool"], text)
    if turn.get("usage"):
        yield Usage.read(turn["usage"])
    if turn.get("kept"):
        yield ProviderData(turn["kept"])
    yield Finish(turn.get("finish") or ("calls" if calls else "stop"))


def _pieces(text: str, chunks: Any) -> list[str]:
    if isinstance(chunks, list | tuple):
        return [str(piece) for piece in chunks]
    count = max(1, min(int(chunks or 1), len(text)))
    size = -(-len(text) // count) or 1
    return [text[at : at + size] for at in range(0, len(text), size)]


class RecordingModel(Model):
    """A model that passes on what another says and writes the script of it; see `record`."""

    def __init__(self, model: Model, path: str | PathLike[str] | None = None) -> None:
        self.script: dict[str, list[dict[str, Any]]] = {}
        self._model = model
        self._path = None if path is None else Path(path)

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        """What the other model says."""
        turn: dict[str, Any] = {}
        self.script.setdefault(request.agent, []).append(turn)
        try:
            async for delta in self._model.respond(request):
                _write(turn, delta)
                yield delta
        except ModelError as error:
            turn.clear()
            turn["error"] = {"code": error.code, "message": error.message}
            raise
        finally:
            self.save()

    async def media(self, settings: Mapping[str, Any]) -> MediaIntake:
        """The files that the other model takes."""
        return await self._model.media(settings)

    def save(self) -> None:
        """Writes the script to its file, if it has one."""
        if self._path is not None:
            self._path.write_text(json.dumps(self.script, ensure_ascii=False, indent=1), "utf-8")


def _write(turn: dict[str, Any], delta: Delta) -> None:
    match delta:
        case Text(piece):
            turn["text"] = turn.get("text", "") + piece
            turn.setdefault("chunks", []).append(piece)
        case Reasoning(piece):
            turn["reasoning"] = turn.get("reasoning", "") + piece
        case ModelCall(id, name, args):
            turn.setdefault("calls", []).append({"id": id, "tool": name, "args_text": args})
        case Usage():
            turn["usage"] = {name: value for name, value in delta.data().items() if name != "total"}
        case ProviderData(data):
            turn["kept"] = dict(data)
        case Finish(reason):
            turn["finish"] = reason


def record(model: Model, path: str | PathLike[str] | None = None) -> RecordingModel:
    """The same model, whose replies are written down as a script: in `script`, and in a file where one is named."""
    return RecordingModel(model, path)

"""Simulated power cuts: what was written below a folder and never synced is lost, kept, reordered or torn.

The shim's journal has every write, truncation, removal and sync in order. From a copy of the folder as it was when the
journal began, each file is made anew: all that was written before its last sync, and of what came later what a disk
may have taken: nothing, a part from the beginning, or some writes and not others, one of them torn at a sector. The
creation and removal of files are taken as durable, and a sync as honest: a disk that lies about it is not simulated.
"""

import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MARK = b"!journal"
RECORD = struct.Struct("=8s3q64s")
SECTOR = 512
VOLATILE = ("-shm", "-workers")
"""What lives in memory, or in locks, and is made anew after a power cut."""


class Op(NamedTuple):
    """One line of the journal."""

    kind: str
    name: str
    offset: int
    data: bytes


def journal(path: Path) -> Iterator[Op]:
    """All that was written, in order; half a record, where a process was killed, was never done."""
    content = path.read_bytes() if path.exists() else b""
    place = 0
    while place + RECORD.size <= len(content):
        _, kind, offset, length, name = RECORD.unpack_from(content, place)
        end = place + RECORD.size + (length if kind == ord("W") else 0)
        if content[place : place + len(MARK)] != MARK or (end != len(content) and not content.startswith(MARK, end)):
            place = content.find(MARK, place + 1)
            if place < 0:
                return
            continue
        yield Op(chr(kind), name.rstrip(b"\0").decode(), offset, content[place + RECORD.size : end])
        place = end


def cut(folder: Path, base: Path, log: Path, chance: random.Random) -> None:
    """Puts the folder into a state that a power cut may leave, and begins a new journal there."""
    files = {path.name: bytearray(path.read_bytes()) for path in base.iterdir()}
    ops: dict[str, list[Op]] = {}
    for op in journal(log):
        if not op.name.endswith(VOLATILE):
            ops.setdefault(op.name, []).append(op)
    for name, done in ops.items():
        files[name] = after(files.get(name, bytearray()), done, chance)
        if done[-1].kind == "U":
            files.pop(name)
    shutil.rmtree(folder)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    begin(folder, base, log)


def begin(folder: Path, base: Path, log: Path) -> None:
    """From here on the journal tells what happens; nobody may have the files open."""
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir()
    for path in folder.iterdir():
        if path.name.endswith(VOLATILE):
            path.unlink()
        else:
            shutil.copyfile(path, base / path.name)
    log.unlink(missing_ok=True)


def after(content: bytearray, ops: list[Op], chance: random.Random) -> bytearray:
    """The content of a file after a power cut."""
    synced = max((place + 1 for place, op in enumerate(ops) if op.kind in "SU"), default=0)
    for op in ops[:synced]:
        content = _apply(content, op)
    later = ops[synced:]
    match chance.randrange(4):
        case 0:
            later = []
        case 1:
            later = later[: chance.randint(0, len(later))]
        case 2:
            later = [op for op in later if chance.random() < 0.5]
    for place, op in enumerate(later):
        torn = op.kind == "W" and place == len(later) - 1 and len(op.data) > SECTOR
        kept = op._replace(data=op.data[: chance.randrange(0, len(op.data), SECTOR)]) if torn else op
        content = _apply(content, kept)
    return content


def _apply(content: bytearray, op: Op) -> bytearray:
    if op.kind == "W":
        if len(content) < op.offset:
            content.extend(bytes(op.offset - len(content)))
        content[op.offset : op.offset + len(op.data)] = op.data
    elif op.kind == "T":
        del content[op.offset :]
        content.extend(bytes(max(0, op.offset - len(content))))
    elif op.kind == "U":
        content = bytearray()
    return content

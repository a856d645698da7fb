"""The index of a session's origins: where each value that its log tells was seen, and how it was come by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, Literal, NamedTuple

import msgspec

from toolcrib.origins.normal_forms import (
    SHORTEST_ENCODED,
    ValueForm,
    days,
    decoded,
    fold,
    form,
    has_digits,
    numbers,
    tokens,
)
from toolcrib.origins.roles import is_content
from toolcrib.origins.words import MOST_PENDING, TrustedWords, WrittenWords

Kind = Literal["user", "instructions", "field", "prose", "agent", "nowhere"]

_SINGLE = re.compile(r"[A-Za-z0-9_.+-]{1,11}(?:@[A-Za-z0-9_-]{1,11}(?:\.[A-Za-z0-9_-]{1,11})*)?")
"""One word, too short to hold another in base64: as a field it is found without being read as a text."""

LONGEST_FIELD = 200
LONGEST_LINE = 60
SIGHTINGS = 8
SIBLINGS = 16
RECORDS = 200
MOST_PASSAGES = 20_000
MOST_CHARACTERS = 4_000_000
MOST_FIELDS = 100_000
MOST_WORDS = 500_000
MOST_SETTLED = 1_000
"""Texts, such as the names of fields, that are known to add nothing before their form is worked out."""


class ResultRecord(msgspec.Struct, eq=False):
    """One object of a result.

    `led` says that nothing of the lookup that found it came from elsewhere than the user or what they led to, `queried`
    that words of the user were looked up.
    """

    call: str
    tool: str
    trusted: bool
    led: bool = False
    queried: bool = False
    siblings: list[ResultRecord] = []
    texts: dict[str, str] = {}
    level: tuple[int, int] = (-1, 0)

    def part(self) -> ResultRecord:
        """Return a record within this one, as yet without fields; it stands beside the others of the same result."""
        siblings = self.siblings
        made = ResultRecord(self.call, self.tool, self.trusted, self.led, self.queried, siblings)
        if len(siblings) < RECORDS:
            siblings.append(made)
        return made


class Passage(msgspec.Struct, eq=False, gc=False):
    """One text of a result or of another agent."""

    kind: Kind
    record: ResultRecord
    path: str
    text: str


class Sighting(NamedTuple):
    """One place where a value was seen: trusted words, a whole field of a record, or a part of a passage."""

    kind: Kind
    call: str = ""
    tool: str = ""
    path: str = ""
    trusted: bool = False
    led: bool = False
    named: bool = False
    described: bool = False
    passage: str = ""
    made: bool = False
    """True if a script made the value of what stands there."""


MadeOf = Callable[[str | None], list[Sighting]]
"""What a script made an argument of, by its name; None stands for all arguments."""


class OriginIndex:
    """What a session's log says of where values come from. It grows with the log and never searches it."""

    def __init__(self, lists_strangers: Callable[[], bool] = bool) -> None:
        self.user = TrustedWords()
        self._lists_strangers = lists_strangers
        self.instructions = TrustedWords()
        self.complete = True
        self.read_private = False
        self.read_untrusted = False
        self._fields: dict[str, list[tuple[ResultRecord, str, str]]] = {}
        self._words: dict[str, int | list[int]] = {}
        self._passages: list[Passage] = []
        self._all_led: set[str] = set()
        self._settled: set[str] = set()
        self._repeats: dict[str, int] = {}
        self._sightings = 0
        self._characters = 0
        self._indexed = 0
        self._pending = 0
        self._written = WrittenWords()
        self._made_of: MadeOf = _of_nothing
        self.branches: tuple[Sighting, ...] = ()

    def in_script(self, made_of: MadeOf, branches: tuple[Sighting, ...]) -> OriginIndex:
        """Return the index as it is for one call of a script, which was made in `branches` that strangers decided."""
        self._read_pending()
        view = copy(self)
        view._made_of, view.branches = made_of, branches
        return view

    @property
    def heard_strangers(self) -> bool:
        """True if words of strangers were read, be it what their tools say of themselves."""
        return self.read_untrusted or self._lists_strangers()

    # What the log tells

    def add_result(self, call: str, tool: str, arguments: Iterable[Any], data: Any, *, trusted: bool) -> None:
        """Take the result of a call, with those values of its arguments that chose what it is about."""
        led, queried = self._lookup(arguments)
        self.read_untrusted |= not trusted
        if data is not None:
            self._take(ResultRecord(call, tool, trusted, led, queried), "", "", data)

    def _lookup(self, arguments: Iterable[Any]) -> tuple[bool, bool]:
        """Return whether nothing a call was given came from elsewhere than the user, or from what they led to, and
        whether words of theirs were looked up.
        """
        queried = False
        for value in arguments:
            if type(value) is not str and (type(value) is bool or not isinstance(value, (int, float))):
                continue
            shape = form(value)
            if self.user.hold(shape, as_written=True):
                queried = True
            elif not (self.instructions.hold(shape, as_written=True) or self._field_led(shape, True) or not shape.word):
                return False, False
        return True, queried

    def add_text(self, kind: Kind, call: str, tool: str, path: str, text: str) -> None:
        """Take a text in which values may stand."""
        self._add_passage(kind, ResultRecord(call, tool, False), path, text)

    def add_written(self, text: str) -> None:
        """Take what an agent wrote somewhere: what comes back from there is not trusted more for it."""
        self._written.add(text)

    def _take(self, record: ResultRecord, path: str, name: str, data: Any) -> None:
        kind = type(data)
        if kind is str:
            self._take_text(record, path, name, data)
        elif kind is dict:
            inner, settled = record.part(), self._settled
            for key, value in data.items():
                if key not in settled:
                    self._add_field(inner, path, key)
                place = f"{path}.{key}" if path else key
                if type(value) is str:
                    self._take_text(inner, place, key, value)
                else:
                    self._take(inner, place, key, value)
        elif kind is list:
            for place, value in enumerate(data):
                self._take(record, f"{path}[{place}]", name, value)
        elif kind is int or kind is float:
            self._add_field(record, path, str(data))

    def _take_text(self, record: ResultRecord, path: str, name: str, text: str) -> None:
        """A text that somebody wrote is no field, and neither is the whole of what an untrusted tool returns."""
        is_field = (path != "" or record.trusted) and not is_content(name)
        if len(text) <= LONGEST_FIELD:
            if name and len(record.texts) < SIBLINGS:
                record.texts.setdefault(path, text)
            if is_field and "\n" not in text:
                if text not in self._settled:
                    self._add_field(record, path, text)
                if (len(text) < SHORTEST_ENCODED and text.isascii() and text.isalnum()) or _SINGLE.fullmatch(text):
                    return
        if is_field and record.trusted and "\n" in text:
            for item in _lines(text):
                self._add_field(record, path, item)
        self._add_passage("prose", record, path, text)

    def _add_field(self, record: ResultRecord, path: str, text: str) -> None:
        shape = form(text)
        seen = self._fields.get(key := shape.key) or []
        full = len(seen) >= SIGHTINGS
        if full and (not record.led or key in self._all_led):
            if key in self._all_led and len(self._settled) < MOST_SETTLED:
                self._settled.add(text)
            return
        if self._sightings >= MOST_FIELDS:
            self.complete = False
            return
        if record.led and not self.user.hold(shape) and self._written.hold(shape):
            record = ResultRecord(record.call, record.tool, False)  # an agent wrote it there before
        if not full:
            seen.append((record, path, shape.word))
            self._fields[key] = seen
            self._sightings += 1
        elif record.led:
            others = [place for place, (one, *_) in enumerate(seen) if not one.led]
            if others:
                seen[others[0]] = (record, path, shape.word)
            if len(others) < 2:
                self._all_led.add(key)

    def _add_passage(self, kind: Kind, record: ResultRecord, path: str, text: str) -> None:
        size, passages = len(text), self._passages
        if size <= LONGEST_LINE:
            times = self._repeats.get(text, 0)
            if times >= SIGHTINGS:  # every word of it has as many places as are kept
                return
            if times or len(self._repeats) < MOST_SETTLED:
                self._repeats[text] = times + 1
        full = len(passages) >= MOST_PASSAGES or self._characters + size > MOST_CHARACTERS
        if full or len(self._words) > MOST_WORDS:
            self.complete = False
            return
        passages.append(Passage(kind, record, path, text))
        self._characters += size
        self._pending += size
        if self._pending > MOST_PENDING:
            self._read_pending()

    def _read_pending(self) -> None:
        """Take in the words of new texts, once somebody asks for a word or many have gathered."""
        while self._indexed < len(self._passages):
            place, self._indexed = self._indexed, self._indexed + 1
            self._read(place, self._passages[place].text)
        self._pending = 0

    def _read(self, place: int, text: str) -> None:
        for one in (text, *decoded(text)):
            is_ascii = one.isascii()
            folded = "" if is_ascii else fold(one)
            self._note(tokens(one if is_ascii else folded), place)
            if has_digits(folded or one):
                folded = folded or fold(one)
                self._note([f"#{plain}" for plain in numbers(folded)], place)
                self._note([f"@{date}" for date in days(folded)], place)

    def _note(self, words: Iterable[str], place: int) -> None:
        known = self._words
        for word in words:
            places = known.setdefault(word, place)
            if type(places) is list:
                if len(places) < SIGHTINGS and places[-1] != place:
                    places.append(place)
            elif places != place:
                known[word] = [places, place]  # type: ignore[list-item]  # it is one place

    def _places(self, word: str) -> list[int]:
        places = self._words.get(word)
        return [] if places is None else places if isinstance(places, list) else [places]

    # What is asked of it

    def said(self, value: Any, as_written: bool = False) -> bool:
        """Return True if the user or whoever wrote the agent's instructions said a value."""
        if value is None or value is True or value is False:
            return False
        shape = form(value)
        return self.user.hold(shape, as_written) or self.instructions.hold(shape, as_written)

    def sightings(self, value: Any, argument: str | None = None) -> list[Sighting]:
        """Return where a value was seen, what is trusted most first; what nobody said was seen nowhere.

        What a script made for an argument was seen in what it was made of.
        """
        sightings: list[Sighting] = []
        if self.user.contain(value):
            sightings.append(Sighting("user", trusted=True))
        if self.instructions.contain(value):
            sightings.append(Sighting("instructions", trusted=True))
        sightings += self.fields(value)
        for one in self._holding(value):
            record, described = one.record, one.record.led and self._described(one.record)
            place = one.kind, record.call, record.tool, one.path, record.trusted
            sightings.append(Sighting(*place, described=described, passage=one.text))
        return sightings or self._made_of(argument) or [Sighting("nowhere")]

    def fields(self, value: Any, as_written: bool = False) -> list[Sighting]:
        """Return the records of which a value is a whole field, what is trusted most first."""
        records = list(self._whole(value, as_written))
        if len(records) > 1:
            records.sort(key=lambda one: (not one.named, not one.led, not one.trusted))
        return records

    def led_to(self, value: Any, as_written: bool = False) -> bool:
        """Return True if a value is a whole field of a record that the user's words led to."""
        return self._field_led(form(value), as_written)

    def written_in_pieces(self, value: str) -> bool:
        """Return True if agents wrote all parts of a value: where they wrote them, a tool may have joined them."""
        return len(value) <= LONGEST_FIELD and self._written.make_up(value)

    def _field_led(self, shape: ValueForm, as_written: bool) -> bool:
        if not shape.hidden:
            for record, _, word in self._fields.get(shape.key, ()):
                if record.led and (not as_written or shape.number is None or word == shape.word):
                    return True
        return False

    def _whole(self, value: Any, as_written: bool) -> Iterator[Sighting]:
        """Yield the records of which a value is a whole field."""
        text, shape = str(value), form(value)
        if shape.hidden:
            return
        for record, path, word in self._fields.get(shape.key, ()):
            if as_written and shape.number is not None and word != shape.word:
                continue
            named = record.led and self._named(record, path, text)
            yield Sighting("field", record.call, record.tool, path, record.trusted, record.led, named)

    def _named(self, record: ResultRecord, path: str, value: str) -> bool:
        """Return True if the user's words name a record, and no other of the same result better or as well.

        Else whoever sends a second mail with the subject that the user names would be taken for the first.
        """
        level = self._level(record)
        if not level and not record.queried:
            return False
        name = _name(path)
        return not any(
            other is not record
            and any(_name(place) == name and text != value for place, text in other.texts.items())
            and value not in other.texts.values()
            and self._level(other) >= level
            for other in record.siblings
        )

    def _level(self, record: ResultRecord) -> int:
        """Return 2 if the user's words hold what says which record it is, 1 if they hold a title, else 0."""
        if record.level[0] != self.user.count:
            texts = record.texts.items()
            named = [is_content(_name(path)) for path, text in texts if len(text) >= 3 and self.user.contain(text)]
            record.level = (self.user.count, 0 if not named else 1 if all(named) else 2)
        return record.level[1]

    def _described(self, record: ResultRecord) -> bool:
        """Return True if the user's words name every field that says which record it is, and there are several."""
        short = [text for path, text in record.texts.items() if not is_content(_name(path))]
        return len(short) > 1 and all(map(self.user.contain, short))

    def _holding(self, value: Any) -> Iterator[Passage]:
        """Yield the texts that hold a value as a part."""
        self._read_pending()
        _, plain, date, word, _ = form(value)
        if plain is not None:
            places = self._places(f"#{plain}")
        elif date is not None:
            places = self._places(f"@{date}")
        else:
            places = self._places(word) or (self._phrase(word) if " " in word else [])
        for place in places:
            yield self._passages[place]

    def _phrase(self, phrase: str) -> list[int]:
        places = min(map(self._places, tokens(phrase)), key=len, default=[])
        return [place for place in places if phrase in fold(self._passages[place].text)]


def _of_nothing(argument: str | None) -> list[Sighting]:
    return []


def _lines(text: str) -> Iterator[str]:
    """Yield each line of a text that is a list of names, as fields."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    if all(len(line) <= LONGEST_LINE for line in lines):
        for line in lines:
            yield line
            if ": " in line:
                yield line.partition(": ")[2]


def _name(path: str) -> str:
    """Return the last key of a path."""
    return path.rpartition(".")[2].partition("[")[0]


def leaves(value: Any) -> Iterator[Any]:
    """Yield every value of nested data that is no list or object."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value

"""How words, quotes, expansions and here-documents are read: the part of the grammar that works on characters."""

from __future__ import annotations

import re
from typing import NamedTuple

from toolcrib.policy.shell.arithmetic import NAME, Evaluations
from toolcrib.policy.shell.words import Redirection, ShellSyntaxError, SimpleCommand, Word, WordDraft, ansi

META = " \t\n;&|()<>"
DEEPEST = 60

_PLAIN = re.compile(r"[A-Za-z0-9_./:,+%@^-]+")
_PLAIN_WORD = re.compile(_PLAIN.pattern + r"(?=[ \t\n;&|)]|\Z)")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_QUOTABLE = re.compile(r'[^"\\$`]+')
_SINGLE = re.compile(r"[^']*'")
# What ends or begins something in a command.
_SYNTAX = re.compile(r"[$`\"'\\(){}\[\];&|<>#!]")
_ANSI_C = re.compile(r"((?:[^'\\]|\\.)*)'", re.DOTALL)
_BACKTICKS = re.compile(r"((?:[^`\\]|\\.)*)`", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_PARAMETER = re.compile(r"([!#]?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])?")
_DEFAULT = re.compile(r":?=")
_SLICE = re.compile(r":(?![-=?+])")
# Quotes whose inside reads the same whether they quote or not.
_TAME = re.compile(r"'[^'\"$`\\(){}\[\]\n]*'")
# Where parentheses may stand without their pair, or hide.
_CONFUSING = re.compile(r"['\\`]|<<|(?:^|[\s();&|])#|\bcase\b")
_ARRAY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[.*\])?\+?=\Z", re.DOTALL)
_INDEXED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Pending(NamedTuple):
    """A here-document whose body starts after the line."""

    owner: SimpleCommand
    delimiter: str
    quoted: bool
    tabs: bool


class ScanPosition(NamedTuple):
    """A place to come back to."""

    at: int
    commands: int
    depth: int
    nesting: int
    blocked: bool
    pending: list[Pending]
    waiting: int


class Scanner:
    """A place in a text, and the commands up to there."""

    def __init__(self, text: str, commands: list[SimpleCommand], evaluations: Evaluations, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise ShellSyntaxError("nested too deep")
        self.text = text
        self.at = 0
        self.commands = commands
        self.evaluations = evaluations
        self.depth = depth
        self.line: list[str] = []
        self.pending: list[Pending] = []
        self.documents = self.cases = 0
        self._in_documents = 0
        self._blocked = False
        self._nesting = 0
        # How many braces of parameters and parentheses of patterns are open.
        self._pairs = 0
        # The unquoted part of the last word.
        self._shape = ""
        self._special = {"'": self._single, '"': self._double, "\\": self._backslash, "`": self._backtick}

    # Commands within words are read by the grammar.

    def statements(self, closers: frozenset[str]) -> None:
        """Read commands up to one of the closing words."""
        raise NotImplementedError

    def within(self, text: str) -> Scanner:
        """Start over in a text taken out of this one."""
        return type(self)(text, self.commands, self.evaluations, self.depth + 1)

    # Places.

    def peek(self, length: int = 1) -> str:
        """The next characters."""
        return self.text[self.at : self.at + length]

    def mark(self) -> ScanPosition:
        """This place, to come back to."""
        return ScanPosition(
            self.at, len(self.commands), self.depth, self._nesting, self._blocked, self.pending, len(self.pending)
        )

    def back(self, mark: ScanPosition) -> None:
        """Go back, and forget what was found since."""
        self.at, count, self.depth, self._nesting, self._blocked, self.pending, waiting = mark
        del self.commands[count:]
        del self.pending[waiting:]

    def take(self, expected: str) -> bool:
        """Step over what is expected, if it is here."""
        if not self.text.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def need(self, expected: str) -> None:
        """Step over what must be here."""
        if not self.take(expected):
            raise ShellSyntaxError(f"{expected!r} is missing at {self.at}")

    def note(self, text: str) -> None:
        """Remember a token of the line itself, not of what is nested in it."""
        if not self._nesting:
            self.line.append(text)

    def skip(self) -> None:
        """Step over blanks and continued lines."""
        if match := _BLANKS.match(self.text, self.at):
            self.at = match.end()

    def blanks(self) -> None:
        """Step over blanks, continued lines and a comment."""
        self.skip()
        if self.peek() == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def newlines(self) -> None:
        """Step over blanks and lines' ends."""
        self.blanks()
        while self.peek() == "\n":
            self.newline()
            self.blanks()

    def newline(self) -> None:
        """End a line: the bodies of its here-documents follow."""
        self.need("\n")
        if self._blocked:
            raise ShellSyntaxError("a here-document of an outer line")
        pending, self.pending = self.pending, []
        for document in pending:
            self._body(document)

    # Words.

    def word(self, *, first: bool = False, arrays: bool = False) -> Word:
        """Read a word; `first` where an assignment may stand, `arrays` where a list may be assigned."""
        if match := _PLAIN_WORD.match(self.text, self.at):
            self.at = match.end()
            self._shape = match[0]
            return Word(match[0], match[0])
        start, draft = self.at, WordDraft()
        while self.at < len(self.text):
            if match := _PLAIN.match(self.text, self.at):
                draft.bare(match[0])
                self.at = match.end()
            elif (character := self.text[self.at]) in META:
                if not self._meta(draft, arrays):
                    break
            elif character in "'\"\\`$":
                self._active(character, draft)
            elif not (character == "[" and first and self._index(draft)):
                draft.bare(character)
                self.at += 1
        if self.at == start:
            raise ShellSyntaxError(f"a word is missing at {start}")
        self._shape = "".join(draft.shape)
        return draft.word(self.text[start : self.at])

    def _active(self, character: str, draft: WordDraft) -> None:
        if character == "$":
            self._dollar(draft, quoted=False)
        else:
            self._special[character](draft)

    def _meta(self, draft: WordDraft, arrays: bool) -> bool:
        if self.peek(2) in ("<(", ">("):
            self.at += 2
            self.nested()
            draft.stream = not draft.shape
            draft.expand(quoted=True)
            return True
        if arrays and self.peek() == "(" and _ARRAY.match("".join(draft.shape)):
            self._list()
            draft.expand(quoted=True)
            return True
        return False

    def _list(self) -> None:
        self.need("(")
        self._nesting += 1
        self.newlines()
        while not self.take(")"):
            word = self.word()
            if self._shape.count("[") > self._shape.count("]"):
                raise ShellSyntaxError("an index that is not certain")
            if word.source.startswith("[") and "]" in word.source:
                self.evaluations.expression(word.source[1 : word.source.rindex("]")])
            self.newlines()
        self._nesting -= 1

    def _index(self, draft: WordDraft) -> bool:
        """Read `[...]` after a name: where an assignment may stand it belongs to the word, whatever it holds."""
        if _INDEXED.match("".join(draft.shape)) is None:
            return False
        self._subscript()
        draft.bare("[]")
        return True

    def _subscript(self) -> None:
        """Read `[...]` after the name of an array, and note what is evaluated in it."""
        start = self.at + 1
        self.at = start
        self._enclosed("[", "]")
        text = self.text[start : self.at]
        if text not in ("@", "*"):
            self.evaluations.expression(text)
        self.need("]")

    def _single(self, draft: WordDraft) -> None:
        match = _SINGLE.match(self.text, self.at + 1)
        if match is None:
            raise ShellSyntaxError("a quote is not closed")
        self.at = match.end()
        draft.quoted(match[0][:-1])

    def _backslash(self, draft: WordDraft) -> None:
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if escaped != "\n":
            draft.quoted(escaped or "\\")

    def _double(self, draft: WordDraft) -> None:
        self.at += 1
        draft.quoted("")
        self.expanding(draft, '"')
        self.need('"')

    def expanding(self, draft: WordDraft, end: str) -> None:
        """Read text that is quoted but for its expansions, up to `end` or, without, to the end of all."""
        while self.at < len(self.text):
            if match := _QUOTABLE.match(self.text, self.at):
                draft.quoted(match[0])
                self.at = match.end()
                continue
            character = self.text[self.at]
            if character == "\\":
                self._escaped(draft, end)
            elif character == "$":
                self._dollar(draft, quoted=True)
            elif character == "`":
                self._backtick(draft, quoted=True, strings=end == '"')
            elif end:
                return
            else:
                draft.quoted(character)
                self.at += 1

    def _escaped(self, draft: WordDraft, end: str) -> None:
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if escaped in ("$", "`", "\\", end or "\\"):
            draft.quoted(escaped)
        elif escaped != "\n":
            draft.quoted("\\" + escaped)

    # Expansions.

    def _dollar(self, draft: WordDraft, *, quoted: bool) -> None:
        after = self.text[self.at + 1 : self.at + 2]
        if match := _VARIABLE.match(self.text, self.at + 1):
            self.at = match.end()
            draft.expand(quoted, many=match[0] == "@")
        elif after in ("(", "{", "["):
            self._bracketed(after, draft, quoted)
        elif after in ("'", '"') and not quoted:
            self.at += 1
            self._dollar_quote(after, draft)
        elif self.text.startswith("\\\n", self.at + 1):
            raise ShellSyntaxError("an expansion over two lines")
        else:
            self.at += 1
            (draft.quoted if quoted else draft.bare)("$")

    def _dollar_quote(self, quote: str, draft: WordDraft) -> None:
        if quote == '"':
            self._double(draft)
            return
        self._read_again(self.at - 1)
        match = _ANSI_C.match(self.text, self.at + 1)
        if match is None:
            raise ShellSyntaxError("a quote is not closed")
        self.at = match.end()
        draft.quoted(ansi(match[1]))

    def _bracketed(self, bracket: str, draft: WordDraft, quoted: bool) -> None:
        start = self.at
        self.at += 2
        if bracket == "{":
            self._braces(quoted)
        elif bracket == "[":
            self._enclosed("[", "]")
            self.evaluations.expression(self.text[start + 2 : self.at])
            self.need("]")
        elif not (self.take("(") and self.arithmetic()):
            self.at = start + 2
            self.nested()
        draft.expand(quoted, many="@" in self.text[start : self.at])

    def nested(self) -> None:
        """Read commands up to a closing parenthesis, in a line of their own."""
        pending, blocked = self.pending, self._blocked
        self.pending, self._blocked = [], bool(pending) or blocked
        self._nesting += 1
        if self._nesting + self.depth > DEEPEST:
            raise ShellSyntaxError("nested too deep")
        documents, cases, commands = self.documents, self.cases, len(self.commands) - self._in_documents
        self.statements(frozenset({")"}))
        commands = len(self.commands) - self._in_documents - commands
        if self.documents > documents and (self.cases > cases or commands > 1):
            # Bash writes these commands anew before it runs them, and what follows a here-document may come out wrong:
            # patterns become commands, quotes are lost. One command with its document is safe.
            self.evaluations.unknown = True
        if self.pending:
            raise ShellSyntaxError("a here-document without a body")
        self.need(")")
        self._nesting -= 1
        self.pending, self._blocked = pending, blocked

    def arithmetic(self) -> bool:
        """Read up to the `))` that closes what is behind us; say no, and stay, where it holds commands.

        Bash takes for arithmetic what ends so and has parentheses in pairs, without a look at what is nested in it.
        """
        back = self.mark()
        self._enclosed("(", ")")
        text = self.text[back.at : self.at]
        if not self.take("))"):
            self.back(back)
            return False
        if _CONFUSING.search(_TAME.sub("", text)):
            raise ShellSyntaxError("arithmetic that may be commands")
        self.evaluations.expression(text)
        return True

    def _enclosed(self, opening: str, closing: str) -> None:
        """Read up to the bracket that closes, over pairs of the same kind, quotes and expansions."""
        level, draft = 0, WordDraft()
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == closing and level == 0:
                return
            if character == "'":
                self._tame()
            elif character in '"\\`$':
                self._active(character, draft)
            else:
                level += (character == opening) - (character == closing)
                self.at += 1
        raise ShellSyntaxError(f"{closing!r} is missing")

    def _tame(self) -> None:
        match = _TAME.match(self.text, self.at)
        if match is None:
            raise ShellSyntaxError("a quote that is not certain")
        self.at = match.end()

    def _braces(self, quoted: bool) -> None:
        if self.peek() in ("", " ", "\t", "\n", "|"):
            raise ShellSyntaxError("commands in braces of a parameter")
        start, draft = self.at, WordDraft()
        evaluated = self._parameter(start)
        self._pairs += 1
        while not self.take("}"):
            character = self.peek()
            if not character:
                raise ShellSyntaxError("'}' is missing")
            if character == "'" and quoted:
                self._tame()
            elif character == "$":
                self._read_again(self.at)
                self._dollar(draft, quoted=quoted)
            elif character in "'\"\\`":
                self._active(character, draft)
            elif quoted or not self._meta(draft, arrays=False):
                self.at += 1
        self._pairs -= 1
        if evaluated is not None:
            self.evaluations.expression(self.text[evaluated : self.at - 1])
        if self.text.endswith("@P}", start, self.at):
            # The value is expanded once more, whatever it holds.
            self.commands.append(SimpleCommand([Word(self.text[start - 2 : self.at], None)]))

    def _read_again(self, at: int) -> None:
        """Note `$'...'` in a pair: between double quotes further out, bash drops its quotes and parses it again."""
        match = _ANSI_C.match(self.text, at + 2) if self._pairs and self.text.startswith("$'", at) else None
        if match is not None and _SYNTAX.search(ansi(match[1])):
            self.evaluations.unknown = True

    def _parameter(self, start: int) -> int | None:
        """Read the name of a parameter; give the place where arithmetic follows it, as in `${x:1:2}`, or None."""
        match = _PARAMETER.match(self.text, start)
        if match is None:
            return None
        # The first character is a name even where it is `#` or `$`; only a command is none.
        self.at = match.end()
        name = match[2] or ""
        if name == "$" and self.peek() in ("'", '"'):
            # Between double quotes further out, bash takes what the quotes stand for as the name.
            self.evaluations.unknown = True
        if self.peek() == "[" and NAME.fullmatch(name):
            self._subscript()
        if match[1] == "!" and (name or self.peek() != "}"):
            self.evaluations.expression(name if NAME.fullmatch(name) else "$")
        if NAME.fullmatch(name) and (default := _DEFAULT.match(self.text, self.at)):
            self.evaluations.assign(name, None)
            self.at = default.end()
        return self.at + 1 if _SLICE.match(self.text, self.at) else None

    def _backtick(self, draft: WordDraft, *, quoted: bool = False, strings: bool = False) -> None:
        match = _BACKTICKS.match(self.text, self.at + 1)
        if match is None:
            raise ShellSyntaxError("a backtick is not closed")
        self.at = match.end()
        self.within(re.sub(r'\\([$`\\"])' if strings else r"\\([$`\\])", r"\1", match[1])).statements(frozenset({""}))
        draft.expand(quoted)

    # Here-documents.

    def document(self, owner: SimpleCommand, tabs: bool) -> None:
        """Read the delimiter of a here-document; its body follows the line."""
        self.documents += 1
        start, count = self.at, len(self.commands)
        word = self.word()
        quotes = any(quote in word.source for quote in "'\"\\`")
        if len(self.commands) > count or "\n" in self.text[start : self.at] or (quotes and "$" in word.source):
            raise ShellSyntaxError("a delimiter that is not certain")
        quoted = word.source != word.plain
        self.pending.append(Pending(owner, word.plain, quoted, tabs))

    def _body(self, document: Pending) -> None:
        lines: list[str] = []
        while (line := self._text_line(document)) != document.delimiter:
            if self._nesting and line.startswith(document.delimiter + ")"):
                raise ShellSyntaxError("a here-document whose end is not certain")
            lines.append(line)
        body = "".join(f"{line}\n" for line in lines)
        if document.quoted:
            document.owner.redirections.append(Redirection("<<", Word(body, body)))
            return
        draft, count = WordDraft(), len(self.commands)
        self.within(body).expanding(draft, "")
        self._in_documents += len(self.commands) - count
        word = Word(body, None if draft.expanded else "".join(draft.value))
        document.owner.redirections.append(Redirection("<<", word))

    def _text_line(self, document: Pending) -> str:
        parts: list[str] = []
        while True:
            if self.at >= len(self.text):
                raise ShellSyntaxError("a here-document without an end")
            end = self.text.find("\n", self.at)
            last = end < 0
            part = self.text[self.at :] if last else self.text[self.at : end]
            self.at = len(self.text) if last else end + 1
            part = part.lstrip("\t") if document.tabs and not parts else part
            escapes = len(part) - len(part.rstrip("\\"))
            if document.quoted or escapes % 2 == 0 or last:
                return "".join([*parts, part])
            parts.append(part[:-1])

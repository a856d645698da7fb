"""The grammar of shell commands, after POSIX and bash: lists, pipes, compound and simple commands.

What is read is kept as a flat list of simple commands in the order of the text, an outer one before those in its words.
Nothing is guessed: whatever is not read with certainty is `ShellSyntaxError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from toolcrib.policy.shell.arithmetic import Evaluations
from toolcrib.policy.shell.scanner import DEEPEST, META, Scanner
from toolcrib.policy.shell.words import Assignment, Redirection, ShellSyntaxError, SimpleCommand, Word, WordDraft

MOST = 5000
DECLARING = frozenset({"declare", "export", "local", "readonly", "typeset"})

_CLOSING = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_OPENING = frozenset({"if", "while", "until", "for", "select", "case", "function", "{", "[[", "!", "time", "coproc"})
_RESERVED = _OPENING | _CLOSING
_END = frozenset({""})
_DO = frozenset({"do"})
_DONE = frozenset({"done"})
_ARM_ENDS = (";;&", ";;", ";&")
_ARM = frozenset({*_ARM_ENDS, "esac"})

# A word without anything that quotes or expands, as reserved words are written.
_TOKEN = re.compile(r"(?:[^ \t\n;&|()<>'\"\\$`]|\\\n)+")
_REDIRECTION = re.compile(r"(?:[0-9]+|\{([A-Za-z_][A-Za-z0-9_]*)\})?(<<<|<<-|<<|<&|<>|<|>>|>&|>\||>)|(&>>|&>)")
_ELEMENT = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\[.*\]\}\Z", re.DOTALL)
_ASSIGNS = re.compile(r"\w+(\[\])?\+?=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CONDITION_ENDS = re.compile(r"\]\](?=[ \t\n;&|()<>]|\Z)")
# What may stand behind `time`, each once and in this order.
_TIME_OPTIONS = (re.compile(r"-p(?=[ \t\n;&|]|\Z)"), re.compile(r"--(?=[ \t\n;&|]|\Z)"))
_SEPARATOR = re.compile(r";(?![;&])|&(?![&>])")


class ParsedCommand(NamedTuple):
    """The simple commands of a text, and its line with single blanks."""

    commands: list[SimpleCommand]
    line: str


class Grammar(Scanner):
    """A reader of commands, by recursive descent."""

    # Where the last keyword before a pipeline ended.
    _prefixed = -1

    # Lists.

    def statements(self, closers: frozenset[str]) -> None:
        """Read commands up to one of the closing words, which stays; an empty text is a list too."""
        while True:
            self.newlines()
            if self._closes(closers):
                return
            compound = self._and_or()
            self.blanks()
            if match := _SEPARATOR.match(self.text, self.at):
                self.at = match.end()
                self.note(match[0])
            elif self.peek() == "\n":
                self.note(";")
            elif not self._closes(closers if compound else closers - _CLOSING):
                raise ShellSyntaxError(f"unexpected {self.peek(8)!r} at {self.at}")

    def _closes(self, closers: frozenset[str]) -> bool:
        if self.at >= len(self.text):
            if "" not in closers or self.pending:
                raise ShellSyntaxError("the text ends too early")
            return True
        if self.peek() == ")":
            return ")" in closers
        if self.text.startswith(_ARM_ENDS, self.at):
            return ";;" in closers
        return self._keyword() in closers

    def _block(self, closers: frozenset[str]) -> str:
        """Read a list of one command or more, and the word that closes it."""
        count, start = len(self.commands), self.at
        self.statements(closers)
        if len(self.commands) == count and not self.text[start : self.at].strip():
            raise ShellSyntaxError("an empty list")
        return self._reserved()

    def _keyword(self) -> str:
        """The reserved word that is next, if it is one."""
        match = _TOKEN.match(self.text, self.at)
        if match is None or self.text[match.end() : match.end() + 1] in ("'", '"', "\\", "$", "`"):
            return "-"
        word = match[0].replace("\\\n", "")
        return word if word in _RESERVED else "-"

    def _reserved(self) -> str:
        word, match = self._keyword(), _TOKEN.match(self.text, self.at)
        if match is None or word == "-":
            raise ShellSyntaxError(f"a reserved word is missing at {self.at}")
        self.at = match.end()
        self.note(word)
        return word

    def _expect(self, *words: str) -> None:
        self.newlines()
        if self._keyword() not in words:
            raise ShellSyntaxError(f"{words[0]!r} is missing at {self.at}")
        self._reserved()

    def _and_or(self) -> bool:
        compound = self._pipeline()
        while True:
            self.blanks()
            if (operator := self.peek(2)) not in ("&&", "||"):
                return compound
            self.at += 2
            self.note(operator)
            self.newlines()
            compound = self._pipeline()

    def _pipeline(self) -> bool:
        while (word := self._keyword()) in ("!", "time"):
            if not self._prefix(word):
                return True
        compound = self._command()
        while True:
            self.blanks()
            if self.peek() != "|" or self.peek(2) == "||":
                return compound
            operator = "|&" if self.take("|&") else self.peek()
            self.at += operator == "|"
            self.note(operator)
            self.newlines()
            compound = self._command()

    def _prefix(self, word: str) -> bool:
        """Read `!` or `time`, and say whether a command follows."""
        self._reserved()
        self.blanks()
        if word == "time":
            shown = SimpleCommand([Word("time", "time")], prefix=True)
            self.commands.append(shown)
            for option in _TIME_OPTIONS:
                if match := option.match(self.text, self.at):
                    shown.words.append(Word(match[0], match[0]))
                    self.at = match.end()
                    self.note(match[0])
                    self.blanks()
        self._prefixed = self.at
        return self.at < len(self.text) and self.peek() not in "\n;&|)"

    # Commands.

    def _command(self) -> bool:
        """Read one command, and say whether it was a compound one, with its redirections."""
        self.blanks()
        if self.peek() == "(":
            self._parenthesis()
        else:
            word = self._keyword()
            if word in _CLOSING or word == "!":
                raise ShellSyntaxError(f"unexpected {word!r} at {self.at}")
            read = _COMPOUND.get(word)
            if read is None:
                return self._simple()
            self._reserved()
            self._deeper(lambda: read(self))
        self._redirected()
        return True

    def _deeper(self, read: Callable[[], None]) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ShellSyntaxError("nested too deep")
        read()
        self.depth -= 1

    def _parenthesis(self) -> None:
        if self.peek(2) == "((":
            back = self.mark()
            self.at += 2
            if self.arithmetic():
                self.note(self.text[back.at : self.at])
                return
            self.back(back)
        self.need("(")
        self.note("(")
        self._deeper(lambda: self.statements(frozenset({")"})))
        self.need(")")
        self.note(")")

    def _redirected(self) -> None:
        around = SimpleCommand()
        self.blanks()
        while self._redirection(around):
            self.blanks()
        # Here-documents are added when the line ends, so it is kept even where it looks empty.
        self.commands.append(around)

    def _compound(self) -> None:
        self.newlines()
        if self.peek() != "(" and self._keyword() not in _COMPOUND:
            raise ShellSyntaxError("a compound command is missing")
        if not self._command():
            raise ShellSyntaxError("a compound command is missing")

    def _if(self) -> None:
        word = "elif"
        while word == "elif":
            self._block(frozenset({"then"}))
            word = self._block(frozenset({"elif", "else", "fi"}))
        if word == "else":
            self._block(frozenset({"fi"}))

    def _while(self) -> None:
        self._block(_DO)
        self._block(_DONE)

    def _group(self) -> None:
        self._block(frozenset({"}"}))

    def _for(self) -> None:
        self.blanks()
        if self.take("(("):
            if not self.arithmetic():
                raise ShellSyntaxError("'for ((' holds no arithmetic")
            self.note("((...))")
            self.blanks()
            self.take(";")
        else:
            self._names()
        self.newlines()
        if self._keyword() == "{":
            self._reserved()
            self._group()
        else:
            self._expect("do")
            self._block(_DONE)

    def _names(self) -> None:
        name = self._plain()
        if _NAME.match(name) is None:
            raise ShellSyntaxError(f"{name!r} is no name")
        self.newlines()
        if self._in():
            self.blanks()
            while self.peek() not in ("\n", ";", ""):
                word = self.word()
                self.evaluations.assign(name, word)
                self.note(word.text)
                self.blanks()
        else:
            self.evaluations.assign(name, None)
        if self.peek() == ";" and self.peek(2) not in (";;", ";&"):
            self.at += 1
        elif self.text[self.at - 1] == "\n" or self.peek() == "\n" or self._keyword() in ("do", "{"):
            pass
        else:
            raise ShellSyntaxError(f"unexpected {self.peek(8)!r} at {self.at}")
        self.note(";")

    def _plain(self) -> str:
        """Read a word that holds neither quotes nor expansions."""
        self.blanks()
        word = self.word()
        if word.literal is None or word.literal != word.source:
            raise ShellSyntaxError("a name that is not literal")
        self.note(word.source)
        return word.source

    def _in(self) -> bool:
        match = _TOKEN.match(self.text, self.at)
        if match is None or match[0].replace("\\\n", "") != "in":
            return False
        self.at = match.end()
        if self.peek() not in (" ", "\t", "\n", ";", ""):
            raise ShellSyntaxError("a word after 'in' that is not certain")
        self.note("in")
        return True

    def _case(self) -> None:
        self.cases += 1
        self.blanks()
        self.note(self.word().text)
        self.newlines()
        if not self._in():
            raise ShellSyntaxError("'in' is missing")
        self.newlines()
        while self._keyword() != "esac":
            self._arm()
            self.newlines()
        self._reserved()

    def _arm(self) -> None:
        opened = self.take("(")
        self.blanks()
        patterns = [self.word().text]
        self.blanks()
        while self.take("|"):
            self.blanks()
            patterns.append(self.word().text)
            self.blanks()
        self.need(")")
        self.note(f"{'(' * opened}{' | '.join(patterns)})")
        self.statements(_ARM)
        for end in _ARM_ENDS:
            if self.take(end):
                self.note(end)
                return

    def _function(self) -> None:
        self._plain()
        self.blanks()
        if self.take("("):
            self.blanks()
            self.need(")")
        self._compound()

    def _coproc(self) -> None:
        self.blanks()
        back = self.mark()
        if (match := _TOKEN.match(self.text, self.at)) and _NAME.match(match[0]):
            self.at = match.end()
            self.blanks()
            if self.peek() == "(" or self._keyword() in _COMPOUND:
                self.evaluations.sets.add(match[0])
                self._command()
                return
        self.back(back)
        self._command()

    def _condition(self) -> None:
        """Read `[[ ... ]]`."""
        start, words, level = self.at, list[Word](), 0
        while True:
            self.skip()
            while self.peek() == "\n":
                self.newline()
                self.skip()
            if _CONDITION_ENDS.match(self.text, self.at):
                self.at += 2
                self.note(self.text[start : self.at])
                self.evaluations.condition(words)
                return
            if self.peek() in ("", "#"):
                raise ShellSyntaxError("']]' is missing")
            if self.peek(2) in ("&&", "||"):
                self.at += 2
            elif self.peek() in "()<>" and self.peek(2) not in ("<(", ">("):
                level += (self.peek() == "(") - (self.peek() == ")")
                self.at += 1
            else:
                word = self._pattern(enclosed=level > 0)
                words.append(word)
                if word.injects:
                    self.commands.append(SimpleCommand([Word(word.source, None)]))

    def _pattern(self, *, enclosed: bool) -> Word:
        """Read a word of a condition, which may hold parentheses."""
        start, level, draft = self.at, 0, WordDraft()
        while self.at < len(self.text):
            character = self.peek()
            if character in "'\"\\`$":
                self._pairs += enclosed or level > 0
                self._active(character, draft)
                self._pairs -= enclosed or level > 0
            elif (level == 0 and character in " \t\n)") or (character in "&|" and self.peek(2) in ("&&", "||")):
                break
            elif character in ";&\n" or self.peek(2) in ("<(", ">("):
                if not self._meta(draft, arrays=False):
                    raise ShellSyntaxError("a condition that is not certain")
            else:
                level += (character == "(") - (character == ")")
                draft.bare(character)
                self.at += 1
        if level or self.at == start:
            raise ShellSyntaxError("a condition that is not certain")
        return draft.word(self.text[start : self.at])

    # Simple commands.

    def _simple(self) -> bool:
        """Read a simple command or the definition of a function, which is a compound one."""
        simple = SimpleCommand()
        index = len(self.commands)
        if index > MOST:
            raise ShellSyntaxError("too many commands")
        self.commands.append(simple)
        start = self.at
        while True:
            if not self._redirection(simple) and not self._next_word(simple):
                break
            self.blanks()
        if self.at == start:
            raise ShellSyntaxError(f"unexpected {self.peek(8)!r} at {start}")
        if self.peek() == "(":
            self._definition(simple, index)
            return True
        self._announce(simple, index, start)
        return False

    def _next_word(self, simple: SimpleCommand) -> bool:
        if self.at >= len(self.text) or (self.peek() in META and self.peek(2) not in ("<(", ">(")):
            return False
        first = not simple.words
        declaring = bool(simple.words) and any(word.literal in DECLARING for word in simple.words[:3])
        word = self.word(first=first, arrays=first or declaring)
        if self.peek() in ("<", ">") and _ELEMENT.match(word.source):
            # The descriptor is kept in an element of an array, whose subscript is evaluated.
            raise ShellSyntaxError("a descriptor in an element that is not certain")
        self.note(word.shown)
        if first and word.assigns is not None:
            if _ASSIGNS.match(self._shape) is None:
                # The subscript ends before the last bracket: this is the name of a program.
                raise ShellSyntaxError("an assignment that is not certain")
            simple.assignments.append(assignment(word))
        else:
            simple.words.append(word)
        return True

    def _definition(self, simple: SimpleCommand, index: int) -> None:
        plain = len(simple.words) == 1 and simple.words[0].literal == simple.words[0].source
        if not plain or simple.assignments or simple.redirections:
            raise ShellSyntaxError(f"unexpected '(' at {self.at}")
        del self.commands[index]
        self.need("(")
        self.blanks()
        self.need(")")
        self.note("()")
        self._deeper(self._compound)

    def _announce(self, simple: SimpleCommand, index: int, start: int) -> None:
        """Show the words of a command also in the keyword before it.

        Shells without the keyword run a program `time`, which has more options.
        """
        if index and self.commands[index - 1].prefix and start == self._prefixed:
            self.commands[index - 1].words.extend(simple.words)
            self.commands[index - 1].prefix = not (simple.words and simple.words[0].plain.startswith("-"))

    def _redirection(self, simple: SimpleCommand) -> bool:
        match = _REDIRECTION.match(self.text, self.at)
        if match is None or (match[2] in ("<", ">") and self.text[match.end() : match.end() + 1] == "("):
            return False
        if match[1]:
            self.evaluations.sets.add(match[1])
        operator = match[2] or match[3]
        self.at = match.end()
        self.blanks()
        if operator in ("<<", "<<-"):
            self.document(simple, tabs=operator == "<<-")
            self.note(f"<< {self.pending[-1].delimiter}")
        else:
            word = self._duplicate() if operator in ("<&", ">&") else self.word()
            self.note(match[0] + (" " if operator[-1] in "<>|" else "") + word.text)
            simple.redirections.append(Redirection(operator, word))
        return True

    def _duplicate(self) -> Word:
        """Read what follows `>&`: a `-` alone is a whole word there, and a name is expanded twice."""
        if self.take("-"):
            return Word("-", "-")
        word = self.word()
        if any(mark in word.source for mark in "'\\") and any(mark in word.plain for mark in "$`"):
            raise ShellSyntaxError("a name that is expanded twice")
        if word.literal is None and not word.stream:
            self.evaluations.expression(word.source)
        return word


def assignment(word: Word) -> Assignment:
    """Cut a word that assigns into the name and the value."""
    assert word.assigns is not None
    literal = None if word.literal is None else word.literal.partition("=")[2]
    return Assignment(word.assigns, Word(word.source.partition("=")[2], literal))


_COMPOUND = {
    "if": Grammar._if,
    "while": Grammar._while,
    "until": Grammar._while,
    "for": Grammar._for,
    "select": Grammar._for,
    "case": Grammar._case,
    "function": Grammar._function,
    "coproc": Grammar._coproc,
    "{": Grammar._group,
    "[[": Grammar._condition,
}


def parse(text: str, evaluations: Evaluations) -> ParsedCommand:
    """Read a whole text, and note what it evaluates a second time.

    Raises:
        Broken: It is no command, or not one that is read with certainty.
    """
    if "\0" in text:
        raise ShellSyntaxError("a NUL")
    grammar = Grammar(text, [], evaluations)
    try:
        grammar.statements(_END)
    except RecursionError:
        raise ShellSyntaxError("nested too deep") from None
    line = " ".join(grammar.line).replace(" ;", ";").rstrip(";")
    return ParsedCommand(grammar.commands, line)

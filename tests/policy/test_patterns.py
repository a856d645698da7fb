"""Patterns of rules: what they cover, how specific they are, and which do not load."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.policy.conditions import CallArguments, holds
from toolcrib.policy.errors import BadRule
from toolcrib.policy.paths import Folders
from toolcrib.policy.patterns import Condition, Pattern, parse, steps
from toolcrib.tool import Tool

FOLDERS = Folders("/session", "/users/ann", str)


def made(name: str, *, trusted: bool = True) -> Tool:
    namespace, _, short = name.rpartition(".")
    return Tool(name=short, namespace=namespace or "default", description="x", trusted=trusted, run=lambda *_: None)


def matches(
    text: str, tool: str, args: dict[str, Any], kinds: dict[str, str] | None = None, primary: str | None = None
) -> bool:
    pattern = parse(text)
    call = CallArguments(args, kinds or {}, primary, FOLDERS)
    return pattern.tool.covers(made(tool)) and all(holds(one, call) for one in pattern.conditions)


def shell(text: str, command: str) -> bool:
    return matches(text, "shell", {"command": command}, {"command": "command"}, "command")


def position(text: str) -> int | None:
    with pytest.raises(BadRule) as found:
        parse(text)
    assert found.value.what == text
    return found.value.position


@requirement("policy.rule.2", "policy.rule.3", "policy.rule.4", "policy.rule.5")
def test_every_pattern_of_the_shared_data_does_as_it_says() -> None:
    for case in case_data("policy/patterns.json"):
        if case.get("error"):
            with pytest.raises(BadRule):
                parse(case["pattern"])
            continue
        pattern = parse(case["pattern"])
        if "match" in case:
            found = matches(case["pattern"], case["tool"], case["args"], case.get("kinds"), case.get("primary"))
            assert found is case["match"], case
        if "specificity" in case:
            assert list(pattern.specificity) == case["specificity"], case


@requirement("policy.rule.2")
@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("read", ["read", "files.read"], ["reader", "files.reads"]),
        ("read_*", ["read_file", "files.read_all"], ["unread_x", "read_files.list"]),
        ("files.read", ["files.read"], ["read", "other.read"]),
        ("files.*", ["files.read", "files.a-b"], ["filesystem.read", "read"]),
        ("*.read", ["files.read", "read"], ["files.write"]),
        ("/(get|list)_.*/", ["get_x", "git.list_y"], ["forget_x", "git.get"]),
        (r"/git\.(get|list)_.*/", ["git.get_x"], ["legit.get_x", "gitxget_x"]),
    ],
)
def test_a_pattern_names_tools_by_name_glob_id_or_expression(pattern: str, yes: list[str], no: list[str]) -> None:
    part = parse(pattern).tool
    assert [name for name in yes + no if part.covers(made(name))] == yes


@requirement("policy.rule.7")
def test_a_stranger_is_loosened_by_its_id_alone() -> None:
    stranger, ours = made("srv.read_file", trusted=False), made("srv.read_file")
    for pattern in ("read_file", "read_*", "*", "/read_.*/", "/.*/"):
        assert not parse(pattern).tool.covers(stranger, strictly=True)
        assert parse(pattern).tool.covers(stranger)
        assert parse(pattern).tool.covers(ours, strictly=True)
    for pattern in ("srv.read_file", "srv.*", r"/srv\..*/"):
        assert parse(pattern).tool.covers(stranger, strictly=True)


@requirement("policy.rule.7")
def test_a_stranger_cannot_take_an_id_by_a_dotted_name() -> None:
    thief = Tool(name="git.push", namespace="evil", description="x", trusted=False)
    assert not parse("git.push").tool.covers(thief, strictly=True)
    assert not parse("git.*").tool.covers(thief, strictly=True)


@requirement("policy.rule.2")
def test_conditions_are_read_with_their_paths_operators_and_quotes() -> None:
    pattern = parse("""t( a.b ~ "x*" , c[0] != 'it''s', d[*].e !=~ "\\d+", *.k=~'q"')""".replace("it''s", "its"))
    assert pattern.conditions == (
        Condition("a.b", ("a", "b"), "~", False, "x*"),
        Condition("c[0]", ("c", 0), "=", True, "its"),
        Condition("d[*].e", ("d", None, "e"), "=~", True, r"\d+"),
        Condition("*.k", ("*", "k"), "=~", False, 'q"'),
    )


@requirement("policy.rule.2")
def test_a_quote_is_escaped_and_an_exact_value_escapes_backslashes_too() -> None:
    assert parse(r't(a = "say \"hi\" C:\\x")').conditions[0].value == r'say "hi" C:\x'
    assert parse(r't(a =~ "\"\\d\"")').conditions[0].value == r'"\\d"'
    assert parse(r"t(a ~ 'a\*\'')").conditions[0].value == r"a\*'"


@requirement("policy.rule.2")
def test_a_star_in_parentheses_says_nothing_more_than_the_name() -> None:
    for text in ("edit(*)", "edit( * )"):
        assert parse(text).specificity == parse("edit").specificity == (0, 3, 0)


@requirement("policy.rule.2")
def test_paths_reach_into_objects_and_lists() -> None:
    args = {"a": {"b": "x"}, "list": [{"c": "p"}, {"c": "q"}], "n": [5, 6]}
    assert steps("list[*].c") == ("list", None, "c")
    for yes in (
        'a.b = "x"',
        'list[*].c = "q"',
        'list[1].c = "q"',
        '*.b = "x"',
        'n[0] = "5"',
        'a = "{\\"b\\":\\"x\\"}"',
    ):
        assert matches(f"t({yes})", "t", args), yes
    for no in ('a.c = "x"', 'list[2].c = "q"', 'list.c = "q"', '*.c = "q"', 'n[0] = "6"', 'a[0] = "x"'):
        assert not matches(f"t({no})", "t", args), no


@requirement("policy.rule.2")
@pytest.mark.parametrize(("value", "text"), [(7, "7"), (1.5, "1.5"), (True, "true"), (False, "false"), (None, "null")])
def test_numbers_and_booleans_compare_as_json_text(value: Any, text: str) -> None:
    assert matches(f't(a = "{text}")', "t", {"a": value})
    assert not matches(f't(a != "{text}")', "t", {"a": value})


@requirement("policy.rule.3")
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", 0),
        (" x", 0),
        ("two words", 3),
        ("t)", 1),
        ("t(", 1),
        ("t()", 2),
        ("t(  )", 2),
        ("t(a) b", 5),
        ("t(a))", 3),
        ("t((a)", 4),
        ("(a)", 0),
        ("//", 1),
        ("/a", 1),
        ("/a/b", 3),
        ("/a(/", 2),
        ("file_[ab", 5),
        ('t(a ~ "x", )', 11),
        ('t(a ~ "x" b ~ "y")', 10),
        ('t(a ~ "x)', 6),
        ("t(a = 5)", 6),
        ('t(a ~ "x", b)', 12),
        ('t(a =~ "b{2")', 9),
        ('t(a =~ "(?=b)")', 8),
        ('t(a !=~ "*")', 9),
        ('t(~ "x")', 2),
        ('t(a[x] = "1")', 3),
        ("t(a ~ )", 6),
        ('t(a == "x")', 5),
        ("t(*.k = 5)", 8),
    ],
)
def test_what_does_not_parse_does_not_load_and_says_where(text: str, at: int) -> None:
    assert position(text) == at


@requirement("policy.rule.3")
def test_an_expression_speaks_of_the_whole_value() -> None:
    assert matches('t(a =~ "x|yy")', "t", {"a": "yy"})
    assert not matches('t(a =~ "x|yy")', "t", {"a": "xyy"})
    assert not matches('t(a =~ "x")', "t", {"a": "x\n"})
    assert matches('t(a =~ "(?i)é+")', "t", {"a": "ÉÉ"})
    assert position('t(a =~ "b)|(c")') is not None  # it cannot break out of the whole


@requirement("policy.rule.3")
@pytest.mark.parametrize(
    "expression", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*)*b", "a*a*a*a*a*a*a*a*b", "(a?){50}a{50}b"]
)
def test_no_expression_searches_for_ever(expression: str) -> None:
    start = time.process_time()
    assert not matches(f't(v =~ "{expression}")', "t", {"v": "a" * 50_000})
    assert not parse(f"/{expression}/").tool.covers(made("a" * 120))
    assert time.process_time() - start < 5


@requirement("policy.rule.3")
def test_an_expression_too_large_to_be_ready_is_a_load_error() -> None:
    assert parse('t(a =~ "x{1000}")').conditions
    with pytest.raises(BadRule, match="size limit"):
        parse('t(a =~ "(x{1000}){1000}")')


@requirement("policy.rule.4")
def test_the_primary_argument_is_held_whatever_else_is_given() -> None:
    assert matches("t(x*)", "t", {"a": "xy", "b": 5}, primary="a")
    assert not matches("t(x*)", "t", {"b": "xy"}, primary="a")
    assert not matches("t(x*)", "t", {"a": "xy"})


@requirement("policy.rule.4")
def test_a_final_blank_and_star_of_a_command_also_means_nothing_more() -> None:
    assert shell("shell(git push *)", "git push")
    assert shell("shell(git push *)", "git push origin")
    assert not shell("shell(git push *)", "git pushy")
    assert shell('shell(command ~ "git *")', "git")
    assert not matches("t(git *)", "t", {"a": "git"}, primary="a")


@requirement("policy.rule.4")
@pytest.mark.parametrize(
    ("pattern", "url", "match"),
    [
        ("example.org", "https://example.org/a?b", True),
        ("example.org", "https://example.org:8443/", False),
        ("*.example.org", "https://a.b.example.org/", True),
        ("*.example.org", "https://a.example.org.evil.test/", False),
        ("https://example.org", "http://example.org/", False),
        ("https://example.org/docs/*", "https://example.org/docs/a/b", True),
        ("https://example.org/docs/*", "https://example.org/doc", False),
        ("*/private/*", "https://example.org/private/x", True),
    ],
)
def test_a_url_is_held_against_a_net_grant_or_a_glob_over_all_of_it(pattern: str, url: str, match: bool) -> None:
    assert matches(f"fetch({pattern})", "fetch", {"url": url}, {"url": "url"}, "url") is match


@requirement("policy.rule.4")
@pytest.mark.parametrize(
    ("pattern", "path", "match"),
    [
        ("edit(docs/**)", "docs/a/b", True),
        ("edit(docs/**)", "./x/../docs/a", True),
        ("edit(docs/**)", "docs/../../etc/passwd", False),
        ("edit(*.env)", "deep/down/.env", True),
        ('edit(path = "docs/a.md")', "/session/docs/./a.md", True),
        ('edit(path = "docs/a.md")', "docs/b.md", False),
        (r'edit(path =~ "docs/.*\.md")', "docs/x/../a.md", True),
        (r'edit(path =~ "docs/.*")', "docs/../secret", False),
        ('edit(path =~ "/etc/.*")', "../etc/hosts", True),
        ('edit(path !~ "docs/**")', "docs/../a", True),
        ("edit(*~)", "notes~", True),
        ("edit(~/x)", "~/x", True),
    ],
)
def test_a_path_is_held_as_what_it_is_and_not_as_it_is_written(pattern: str, path: str, match: bool) -> None:
    assert matches(pattern, "edit", {"path": path}, {"path": "path"}, "path") is match


@requirement("policy.rule.4")
def test_a_glob_among_the_arguments_must_lie_within_and_is_caught_where_it_may_reach() -> None:
    kinds = {"glob": "glob"}
    condition = parse("find(src/**)").conditions[0]

    def reads(glob: str, every: bool) -> bool:
        return holds(condition, CallArguments({"glob": glob}, kinds, "glob", FOLDERS), every)

    assert reads("src/a/*.py", True)
    assert not reads("**/*.py", True)
    assert reads("**/*.py", False)
    assert not reads("docs/*.md", False)


@requirement("policy.rule.5")
def test_some_value_is_enough_and_no_value_is_never_enough() -> None:
    assert matches('t(a[*] = "x")', "t", {"a": ["y", "x"]})
    assert matches('t(a[*] != "x")', "t", {"a": ["y", "x"]})
    assert not matches('t(a[*] != "x")', "t", {"a": ["x", "x"]})
    for op in ("~", "=", "=~", "!~", "!=", "!=~"):
        assert not matches(f't(a {op} "x")', "t", {})
        assert not matches(f't(a[*] {op} "x")', "t", {"a": []})


@requirement("policy.rule.5")
def test_of_a_list_that_nobody_spread_what_loosens_needs_every_element() -> None:
    condition = parse("read(docs/**)").conditions[0]
    call = CallArguments({"paths": ["docs/a", "/etc/passwd"]}, {"paths[*]": "path"}, "paths", FOLDERS)
    assert holds(condition, call)
    assert not holds(condition, call, every=True)


@requirement("policy.rule.6")
def test_specificity_counts_conditions_then_the_tool_then_precision_then_characters() -> None:
    ordered = ["/e.*/", "*", "edit*", "edit", '*(p =~ "x.*")', '*(p ~ "x*")', "edit(x*)", "edit(xy*)", 'edit(p = "x")']
    weights = [(*parse(text).specificity, parse(text).literal) for text in ordered]
    assert weights == sorted(weights)
    assert len(set(weights)) == len(weights)


@given(st.text(alphabet="ab*?[]!\\(){}\"'~=,. /|$^+", max_size=12))
def test_whatever_is_written_is_a_pattern_or_a_load_error(text: str) -> None:
    try:
        read: Pattern | BadRule = parse(text)
    except BadRule as error:
        read = error
    if isinstance(read, Pattern):
        assert read.tool.covers(made("ab")) in (True, False)
    else:
        assert read.position is None or 0 <= read.position <= len(text)

"""policy.grant and policy.shell.7: what is granted, which pattern decides, and what a load warns of."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.policy import capabilities, globs
from toolcrib.policy.capabilities import Capability, parse
from toolcrib.policy.errors import BadRule
from toolcrib.policy.grants import GrantDecision, Grants, GrantTexts, is_interpreter
from toolcrib.policy.paths import Folders
from toolcrib.policy.presets import PRESETS

CASES = case_data("policy/capabilities.json")
PATHS = case_data("policy/path_grants.json")
URLS = case_data("policy/url_grants.json")
AT = Folders("/shop/desk", "/people/ada", str)
WORDS = {"allow": "allowed", "ask": "ask", "deny": "denied"}


def granted(*allow: str, **more: Any) -> Grants:
    return Grants(allow, folders=AT, **more)


def effect(grants: Grants, text: str) -> str:
    return grants.judge(parse(text)).effect


@requirement("policy.grant.1", "policy.grant.2", "policy.preset.1")
@pytest.mark.parametrize(
    "case", CASES, ids=[f"{case.get('preset', case.get('grants'))}-{case['requested']}" for case in CASES]
)
def test_requests_are_sorted_as_the_shared_cases_say(case: dict[str, Any]) -> None:
    folders = Folders(case["workspace"])
    grants = (
        PRESETS[case["preset"]].grants.bound(folders) if "preset" in case else Grants(**case["grants"], folders=folders)
    )
    found: dict[str, list[str]] = {"allowed": [], "ask": [], "denied": []}
    for text in dict.fromkeys(case["requested"]):
        found[WORDS[effect(grants, text)]].append(text)
    assert found == case["expected"]


@requirement("policy.grant.1", "policy.match.path", "policy.match.pathglob")
@pytest.mark.parametrize("case", PATHS, ids=[f"{case['grant']!a}-{case['path']!a}" for case in PATHS])
def test_path_grants_decide_as_the_shared_cases_say(case: dict[str, Any]) -> None:
    grants = Grants([f"fs:read:{case['grant']}"], folders=Folders(case["workspace"]))
    assert effect(grants, f"fs:read:{case['path']}") == ("allow" if case["match"] else "deny")


@requirement("policy.grant.1", "policy.match.net")
@pytest.mark.parametrize("case", URLS, ids=[f"{case['grant']!a}-{case['url']!a}" for case in URLS])
def test_url_grants_decide_as_the_shared_cases_say(case: dict[str, Any]) -> None:
    assert effect(Grants([case["grant"]]), f"net:egress:{case['url']}") == ("allow" if case["match"] else "deny")


@requirement("policy.grant.1")
def test_a_deny_counts_however_wide_it_is() -> None:
    grants = granted("fs:write:/srv/exactly/this", deny=["fs:*:/srv/**"])
    assert grants.judge(parse("fs:write:/srv/exactly/this")) == GrantDecision("deny", "fs:*:/srv/**")


@requirement("policy.grant.1")
def test_the_most_specific_pattern_decides_and_ask_wins_a_tie() -> None:
    grants = granted("fs:*:/srv/**", "fs:read:/srv/a/b/**", "exec:cmd:g?t", ask=["fs:read:/srv/a/**", "exec:cmd:g*t"])
    assert grants.judge(parse("fs:read:/srv/x")) == GrantDecision("allow", "fs:*:/srv/**")
    assert grants.judge(parse("fs:read:/srv/a/x")) == GrantDecision("ask", "fs:read:/srv/a/**")
    assert grants.judge(parse("fs:read:/srv/a/b/x")) == GrantDecision("allow", "fs:read:/srv/a/b/**")
    assert effect(grants, "exec:cmd:git") == "ask"


@requirement("policy.grant.1")
def test_fewer_wildcards_are_more_specific() -> None:
    assert effect(granted("fs:read:/srv/*", ask=["fs:read:/srv/**"]), "fs:read:/srv/x") == "allow"
    assert effect(granted("fs:read:/srv/**", ask=["fs:read:/srv/*"]), "fs:read:/srv/x") == "ask"


@requirement("policy.grant.1")
def test_a_relative_pattern_is_as_specific_as_what_it_stands_for() -> None:
    assert effect(granted("fs:read:${workspace}/**", ask=["fs:read:etc/**"]), "fs:read:etc/x") == "ask"


@requirement("policy.grant.1")
def test_what_nothing_matches_is_denied_or_asked() -> None:
    assert granted("fs:read:/srv/**").judge(parse("fs:read:/etc/x")) == GrantDecision("deny", None)
    assert granted(ungranted="ask").judge(parse("fs:read:/etc/x")) == GrantDecision("ask", None)
    assert effect(granted(ungranted="ask", deny=["fs:read:/etc/**"]), "fs:read:/etc/x") == "deny"


@requirement("policy.grant.2")
def test_a_star_alone_matches_everything() -> None:
    grants = granted("*")
    for text in (
        "a:b",
        "fs:read:/x",
        "exec:cmd:*",
        "net:egress:http://10.0.0.1",
        "net:egress:*",
        "fs:read:/**",
        "a:b:c:d",
    ):
        assert effect(grants, text) == "allow"


@requirement("policy.grant.2")
def test_domain_and_action_are_globs_that_stop_at_the_colon() -> None:
    grants = granted("db:re*:users", "*:list:x", "q:*")
    yes = ["db:read:users", "db:reindex:users", "db:list:x", "other:list:x", "q:now", "q:now:x"]
    no = ["db:write:users", "db:read:users:more", "db:list:y", "q2:now", "db:read"]
    assert [effect(grants, text) for text in yes] == ["allow"] * len(yes)
    assert [effect(grants, text) for text in no] == ["deny"] * len(no)


@requirement("policy.grant.2")
def test_folders_of_the_session_are_filled_in_as_they_are() -> None:
    odd = Folders("/shop/[a]*", "/people/ada", str)
    grants = Grants(["fs:read:${workspace}/**", "fs:read:${home}/.config/*"], folders=odd)
    assert effect(grants, "fs:read:/people/ada/.config/x") == "allow"
    assert grants.judge(Capability("fs", "read", "/shop/[a]*/x")).effect == "allow"
    assert grants.judge(Capability("fs", "read", "/shop/ab/x")).effect == "deny"


@requirement("policy.grant.2")
@pytest.mark.parametrize(
    ("grant", "request_", "covered"),
    [
        ("fs:read:/srv/**", "fs:read:/srv/a/**/*.c", True),
        ("fs:read:/srv/**", "fs:read:/srv/a*", True),
        ("fs:read:/srv/a/**", "fs:read:/srv/a*", False),
        ("fs:read:/srv/a/**", "fs:read:/srv/a/*", True),
        ("fs:read:/srv/*/c/**", "fs:read:/srv/b/c/*", True),
        ("fs:read:/srv/**/*.c", "fs:read:/srv/**/*.c", True),
        ("fs:read:/srv/**/*.c", "fs:read:/srv/a/*.c", False),
        ("fs:read:/srv/*", "fs:read:/srv/[ab]", False),
        ("fs:read:*.c", "fs:read:/srv/*.c", False),
        ("fs:read:**", "fs:read:/**", True),
        ("fs:read:/srv/**", "fs:read:/srv/../**", False),
        ("fs:read:${workspace}/**", "fs:read:**", True),
        ("fs:read:/srv/**", "fs:read:/srv/*/../../etc/*", False),
        ("exec:cmd:*", "exec:cmd:*", True),
        ("exec:cmd:g*", "exec:cmd:g*", True),
        ("exec:cmd:?", "exec:cmd:*", False),
        ("exec:cmd:[*]", "exec:cmd:*", False),
        ("exec:cmd:g*", "exec:cmd:gi*", False),
        ("net:egress:*", "net:egress:*", True),
        ("net:egress:*", "net:egress:*.shop.example", True),
        ("net:egress:*.shop.example", "net:egress:*.a.shop.example", False),
        ("net:egress:*", "net:egress:private", False),
        ("net:egress:*", "net:egress:localhost:*", False),
        ("net:egress:private", "net:egress:private", True),
        ("secrets:read:*", "secrets:read:app-*", True),
        ("secrets:read:app-*", "secrets:read:*", False),
    ],
)
def test_a_pattern_in_a_request_asks_for_a_set(grant: str, request_: str, covered: bool) -> None:
    assert effect(granted(grant), request_) == ("allow" if covered else "deny")


@requirement("policy.grant.1")
def test_where_it_is_unclear_a_grant_gives_nothing_but_takes_away() -> None:
    inner = "net:egress:http://10.0.0.1:80"
    assert effect(granted("net:egress:*"), inner) == "deny"
    assert effect(granted(ask=["net:egress:*"]), inner) == "deny"
    assert effect(granted("*", deny=["net:egress:*"]), inner) == "deny"
    assert effect(granted("*", ask=["net:egress:*"]), inner) == "ask"
    assert effect(granted("net:egress:private", ask=["net:egress:*"]), inner) == "allow"
    assert effect(granted("fs:write"), "fs:write:/x") == "deny"
    assert effect(granted("*", deny=["fs:write"]), "fs:write:/x") == "deny"
    assert effect(granted("*", ask=["fs:write"]), "fs:write:/x") == "ask"
    assert effect(granted("pay:now:*"), "pay:now") == "deny"
    assert effect(granted("*", deny=["pay:now:x"]), "pay:now") == "deny"


@requirement("policy.grant.1", "policy.match.path")
def test_a_deny_counts_on_both_sides_of_a_link_and_an_allow_on_none(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folders = Folders(str(tmp_path))
    wanted = capabilities.canonical(parse("fs:read:link/x"), folders)
    assert wanted.resource == f"{folders.workspace}/real/x"
    denying = Grants(["*"], deny=["fs:read:${workspace}/link/**"], folders=folders)
    asking = Grants(["*"], ask=["fs:read:${workspace}/link/*"], folders=folders)
    allowing = Grants(["fs:read:${workspace}/link/**"], folders=folders)
    assert [one.judge(wanted).effect for one in (denying, asking, allowing)] == ["deny", "ask", "deny"]
    assert "goes through a link" in allowing.warnings[0]


@requirement("policy.match.path")
def test_a_request_that_is_not_canonical_is_made_so_or_denied() -> None:
    grants = granted("fs:read:${workspace}/**", "exec:cmd:git", "net:egress:shop.example", ungranted="ask")
    for text in (
        "fs:read:x/../y",
        "fs:read:/shop//desk/./a",
        "exec:cmd:/usr/bin/git",
        "net:egress:HTTP://Shop.example/a",
    ):
        assert effect(grants, text) == "allow"
    for text in ("fs:read:\0", "net:egress:file:///x", "net:egress:a b", "fs:read:/shop/desk/*/../../x"):
        assert grants.judge(parse(text)) == GrantDecision("deny", None)
    assert effect(grants, "fs:read:/shop/desk/../x") == "ask"


@requirement("policy.grant.1")
def test_a_program_in_a_trusted_folder_is_known_by_its_name() -> None:
    grants = granted("exec:cmd:/usr/bin/git", "exec:cmd:make", deny=["exec:cmd:/bin/r*"])
    effects = {name: effect(grants, f"exec:cmd:{name}") for name in ("git", "./git", "/srv/git", "make", "rm", "sh")}
    assert effects == {"git": "allow", "./git": "deny", "/srv/git": "deny", "make": "allow", "rm": "deny", "sh": "deny"}
    assert grants.judge(parse("exec:cmd:rm")).pattern == "exec:cmd:/bin/r*"


@requirement("policy.grant.2")
@pytest.mark.parametrize(
    "pattern",
    [
        *("", "fs", "**", "fs:", ":read", "fs:read:", "fs:read:${nowhere}/x", "fs:read:/a/*/../b", "net:egress:a/b"),
        *("net:egress:a*", "net:egress:file://x", "net:egress:a b", 5, None),
    ],
)
def test_a_grant_that_is_none_does_not_load(pattern: Any) -> None:
    for texts in (GrantTexts((pattern,)), GrantTexts(ask=(pattern,)), GrantTexts(deny=(pattern,))):
        with pytest.raises(BadRule) as raised:
            texts.bound(AT)
        assert str(pattern) in raised.value.what


def test_what_is_ungranted_is_deny_or_ask() -> None:
    with pytest.raises(BadRule):
        Grants(ungranted="allow")  # type: ignore[arg-type]


@requirement("policy.grant.1")
def test_a_family_is_covered_by_an_allow_or_an_ask() -> None:
    grants = granted("fs:read:/srv/**", ask=["db:*:x"], deny=["exec:cmd:rm"])
    families = ("fs:read", "fs:write", "db:read", "db:*", "exec:cmd", "exec:*")
    assert [grants.covers_family(family) for family in families] == [True, False, True, True, False, False]
    assert granted("*").covers_family("any:thing")


def test_messages_can_name_what_is_granted() -> None:
    grants = granted("fs:write:${workspace}/**", "fs:*:/srv/**", "fs:read:/x", "*", ask=["fs:write:/y"])
    assert grants.granted("fs", "write") == ["/shop/desk/**", "/srv/**", "*"]


@requirement("policy.preset.1")
def test_further_grants_are_added() -> None:
    both = granted("fs:read:/a").joined(GrantTexts(("fs:read:/b",), deny=("fs:read:/c",), ungranted="ask"))
    assert [effect(both, f"fs:read:/{name}") for name in "abcd"] == ["allow", "allow", "deny", "ask"]
    assert both.folders is AT


@requirement("policy.shell.7")
@pytest.mark.parametrize(
    "name", ["python3", "python*", "py*", "bash", "/bin/sh", "node", "xargs", "env", "ssh", "make", "*"]
)
def test_a_grant_of_an_interpreter_warns(name: str) -> None:
    (warning,) = granted(f"exec:cmd:{name}").warnings
    assert warning.startswith(f"exec:cmd:{name} grants arbitrary code")


@requirement("policy.shell.7")
def test_a_grant_of_many_domains_warns_too() -> None:
    assert "arbitrary code" in granted("*:cmd:bash").warnings[0]


@requirement("policy.shell.7")
def test_other_grants_do_not_warn() -> None:
    assert granted("exec:cmd:git", "exec:cmd:ls", "exec:cmd:j*q", "fs:read:/x/**", "net:egress:*").warnings == ()
    assert granted(ask=["exec:cmd:python3"], deny=["exec:cmd:bash"]).warnings == ()


@requirement("policy.shell.7")
def test_interpreters_are_known_with_versions_and_folders() -> None:
    yes = [
        "python",
        "python3",
        "python3.12",
        "/opt/x/python3.11",
        "perl5.36",
        "Rscript",
        "npx",
        "docker",
        "gawk",
        "lua5.4",
    ]
    assert [name for name in yes if not is_interpreter(name)] == []
    assert [name for name in ("git", "ls", "cat", "jq", "", "?", "pythonic", "shasum") if is_interpreter(name)] == []


@requirement("policy.match.net")
def test_a_wildcard_that_reaches_nothing_warns() -> None:
    assert "covers nothing" in granted("net:egress:*.internal").warnings[0]


# A slow judge that looks at every grant, with the matchers that have tests of their own.

RESOURCES = ["/a", "/a/b", "/a/b/c", "/b"]
PATTERNS = [
    *("*", "fs:read:/a", "fs:read:/a/**", "fs:*:/a/b/**", "fs:read:/a/*", "fs:read:*", "*:read:/b", "fs:write:/a/**"),
    *("fs:read:c", "fs:read:/**/b", "fs:r*:/[ab]", "fs:read", "db:read:*", "fs:read:/a/b/c"),
]


def slowly(found: dict[str, list[str]], wanted: Capability) -> str:
    def covers(pattern: str) -> bool:
        return Grants([pattern], folders=AT).judge(wanted).effect == "allow"

    if any(covers(one) or one == "fs:read" for one in found["deny"]):
        return "deny"
    allows, asks = ([one for one in found[side] if covers(one)] for side in ("allow", "ask"))
    if not allows:
        return "ask" if asks else "deny"
    narrowing = [one for one in found["ask"] if covers(one) or one == "fs:read"]
    return "ask" if min(map(_order, narrowing), default=(1, 0)) <= min(map(_order, allows)) else "allow"


def _order(pattern: str) -> tuple[int, int]:
    full = "fs:read:**" if pattern == "fs:read:*" else pattern
    return -globs.literal(full), globs.wildcards(full)


@requirement("policy.grant.1")
@given(
    st.fixed_dictionaries({side: st.lists(st.sampled_from(PATTERNS), max_size=4) for side in ("allow", "ask", "deny")}),
    st.sampled_from(RESOURCES),
)
def test_the_index_finds_what_a_slow_search_finds(found: dict[str, list[str]], resource: str) -> None:
    wanted = Capability("fs", "read", resource)
    assert Grants(found["allow"], found["ask"], found["deny"], folders=AT).judge(wanted).effect == slowly(found, wanted)


@requirement("policy.grant.1")
def test_a_thousand_grants_are_not_tried_one_by_one() -> None:
    grants = granted(*(f"fs:read:/srv/app{number}/**/*.py" for number in range(1000)), "fs:read:/srv/app7/**/t?.py")
    family = grants._family("fs", "read")
    tried = [entry for entries in family.given._points._near("/srv/app7/x/ta.py/") for entry in entries]
    assert [entry.text for entry in tried] == ["fs:read:/srv/app7/**/t?.py", "fs:read:/srv/app7/**/*.py"]
    assert effect(grants, "fs:read:/srv/app7/x/ta.py") == "allow"


@requirement("policy.match.domain")
@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
def test_all_actions_of_a_domain_come_with_all_its_resources(effect: str) -> None:
    given: dict[str, Any] = {effect: ["payments:*", "fs:*", "net:*"]}
    grants = Grants(**given, folders=AT)
    for text in ("payments:refund:42", "payments:refund:eu:42", "payments:refund", "fs:write:/etc/hosts"):
        assert grants.judge(parse(text)).effect == effect
    assert grants.judge(parse("net:egress:https://shop.example")).effect == effect
    assert grants.judge(parse("mail:send")).effect == "deny"


@requirement("policy.match.domain")
def test_all_actions_of_the_network_do_not_cover_private_hosts() -> None:
    assert Grants(allow=["net:*"], folders=AT).judge(parse("net:egress:http://localhost")).effect == "deny"


@requirement("policy.grant.3")
def test_an_unknown_program_asks_where_one_is_denied() -> None:
    beside = granted("exec:cmd:*", deny=["exec:cmd:rm"])
    assert [effect(beside, f"exec:cmd:{one}") for one in ("ls", "rm", "*")] == ["allow", "deny", "ask"]
    assert effect(granted("exec:cmd:*"), "exec:cmd:*") == "allow"
    assert effect(granted("exec:cmd:*", deny=["net:egress:*"]), "exec:cmd:*") == "allow"

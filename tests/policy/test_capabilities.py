"""policy.cap: what a call needs, made from the templates of its tool and its arguments."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.shared import case_data
from toolcrib.policy import capabilities
from toolcrib.policy.capabilities import Capability, derive, families, kinds_of, parse
from toolcrib.policy.errors import BadRule, UnfitArgument
from toolcrib.policy.grants import Grants
from toolcrib.policy.paths import Folders

CASES = case_data("policy/derive.json")
AT = Folders("/shop/desk", "/people/ada", str)


def texts(*templates: str, kinds: dict[str, str] | None = None, **args: Any) -> list[str]:
    return [found.text for found in derive(templates, args, AT, kinds)]


@requirement("policy.cap.2", "policy.cap.3", "policy.shell.4")
@pytest.mark.parametrize("case", CASES, ids=[f"{case['templates'][0]}-{case['args']}" for case in CASES])
def test_calls_need_what_the_shared_cases_say(case: dict[str, Any]) -> None:
    folders, kinds = Folders(case["workspace"]), case.get("kinds")
    if case.get("error"):
        with pytest.raises(UnfitArgument):
            derive(case["templates"], case["args"], folders, kinds)
    else:
        found = derive(case["templates"], case["args"], folders, kinds)
        assert [one.text for one in found] == case["expected"]


@requirement("policy.cap.1")
@pytest.mark.parametrize(
    "text", ["payments:initiate", "fs:read:/etc/hosts", "net:egress:https://a.example:443", "a:b:c:d"]
)
def test_a_capability_is_read_as_it_is_written(text: str) -> None:
    found = parse(text)
    assert (found.text, found.family, found.within) == (text, ":".join(text.split(":")[:2]), None)


@requirement("policy.cap.1")
@pytest.mark.parametrize("text", ["", "fs", "fs:", ":read", "fs:read:", "fs:*:/x", "f?:read:/x"])
def test_what_is_no_capability_is_an_error(text: str) -> None:
    with pytest.raises(BadRule):
        parse(text)


@requirement("policy.cap.2")
def test_templates_are_filled_with_canonical_arguments_in_order_and_once() -> None:
    templates = ("fs:read:{a}", "fs:read:{b}", "fs:write:{a}", "net:egress:{url}", "payments:initiate")
    found = texts(*templates, a="x/../y", b="./y", url="http://Shop.example/buy")
    assert found == ["fs:read:/shop/desk/y", "fs:write:/shop/desk/y", "net:egress:http://shop.example:80", templates[4]]


@requirement("policy.cap.2")
def test_one_capability_for_each_element_at_any_depth() -> None:
    assert texts("fs:read:{jobs[*].file}", jobs=[{"file": "a"}, {"file": None}, {}, {"file": "b"}]) == [
        "fs:read:/shop/desk/a",
        "fs:read:/shop/desk/b",
    ]
    assert texts("fs:read:{pair[1]}", pair=["a", "b"]) == ["fs:read:/shop/desk/b"]
    assert texts("db:{modes[*]}:{table}", modes=["read", "write"], table="t") == ["db:read:t", "db:write:t"]


@requirement("policy.cap.2")
def test_what_is_absent_adds_nothing() -> None:
    assert texts("fs:read:{path}", "fs:read:{paths[*]}", "fs:read:{a.b}") == []
    assert texts("fs:read:{path}", path=None) == []
    assert texts("fs:read:{paths[*]}", paths=[]) == []
    assert texts("db:{mode}:{table}", mode="read") == []


@requirement("policy.cap.2")
def test_a_value_of_another_shape_is_never_passed_over() -> None:
    assert texts("fs:read:{paths[*]}", paths="/etc/passwd") == ["fs:read:/etc/passwd"]
    assert texts("fs:read:{path}", path=["/a", "/b"]) == ["fs:read:/a", "fs:read:/b"]
    for template, value in [("{x}", {"y": 1}), ("{x.y}", "text"), ("{x}", 5), ("{x[0]}", "a"), ("{x}", "")]:
        with pytest.raises(UnfitArgument):
            texts(f"fs:read:{template}", x=value)


@requirement("policy.cap.2")
@pytest.mark.parametrize("value", ["a:b", "*", "a*", "", ":"])
def test_an_ordinary_value_adds_neither_parts_nor_wildcards(value: str) -> None:
    for template in ("db:{v}", "db:{v}:t", "db:read:{v}", "secrets:read:app-{v}"):
        with pytest.raises(UnfitArgument):
            texts(template, v=value)


@requirement("policy.cap.2")
def test_numbers_and_booleans_are_written_as_json() -> None:
    assert texts("db:read:{id}", id=7) == ["db:read:7"]
    assert texts("db:{force}:{id}", force=True, id=1.5) == ["db:true:1.5"]


@requirement("policy.cap.2")
def test_question_marks_and_brackets_in_a_value_mean_themselves() -> None:
    (found,) = derive(["db:read:{t}"], {"t": "u?er[s]"}, AT)
    assert found == Capability("db", "read", "u?er[s]")
    assert Grants([found.grant]).judge(found).effect == "allow"
    assert Grants([found.grant]).judge(Capability("db", "read", "users")).effect == "deny"


@requirement("policy.cap.2")
@pytest.mark.parametrize("template", ["fs:read:{", "fs:read:{path", "fs:read:path}", "fs:read:{{path}}", "fs:read:{}"])
def test_a_template_that_would_miss_its_argument_is_an_error(template: str) -> None:
    for work in (lambda: texts(template, path="x"), lambda: families([template]), lambda: kinds_of([template], {})):
        with pytest.raises(BadRule):
            work()


@requirement("policy.cap.2")
@pytest.mark.parametrize("template", ["fs", "fs:", "{x}:read", "*:read", "fs:*:{x}", "fs:read:{a b}", "fs:read:${x}/y"])
def test_a_template_that_is_none_is_an_error(template: str) -> None:
    with pytest.raises(BadRule):
        texts(template, x="x")


@requirement("policy.cap.2")
def test_a_template_for_an_argument_that_cannot_be_given_is_an_error() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
    assert kinds_of(["fs:read:{path}"], schema) == {"path": "path"}
    with pytest.raises(BadRule, match="no argument 'pth'"):
        kinds_of(["fs:read:{pth}"], schema)


@requirement("policy.cap.2")
def test_text_around_a_place_holder_is_judged_with_it() -> None:
    assert texts("fs:write:{dir}/out.txt", dir="../..") == ["fs:write:/out.txt"]
    assert texts("fs:write:${workspace}/{name}", name="../x") == ["fs:write:/shop/x"]
    assert texts("net:egress:https://{host}/v1", host="evil.test/?") == ["net:egress:https://evil.test:443"]
    assert texts("exec:cmd:git {args}", args="log; rm x") == ["exec:cmd:git", "exec:cmd:rm"]
    assert derive(["fs:read:{dir}/**"], {"dir": "a*b"}, AT) == [
        Capability("fs", "read", r"/shop/desk/a\*b/**", "/shop/desk")
    ]


@requirement("policy.cap.2")
def test_templates_without_place_holders_stand_for_every_call() -> None:
    found = derive(
        ["fs:read:${workspace}/**", "net:egress:shop.example", "exec:cmd:/usr/bin/git", "net:egress:*"], {}, AT
    )
    assert found == [
        Capability("fs", "read", "/shop/desk/**", "/shop/desk"),
        Capability("net", "egress", "https://shop.example:443"),
        Capability("exec", "cmd", "git"),
        Capability("net", "egress", "*", ""),
    ]


@requirement("policy.cap.3")
def test_the_template_tells_the_kind_and_the_schema_knows_better() -> None:
    templates = ["fs:read:{a}", "net:egress:{b}", "exec:cmd:{c}", "db:read:{d}", "fs:read:{e[*]}", "fs:write:{f}"]
    schema = {"properties": {"f": {"x-toolcrib-kind": "glob"}, "path": {"type": "string"}, "url": {"type": "string"}}}
    expected = {"a": "path", "b": "url", "c": "command", "d": "text", "e[*]": "path", "f": "glob"}
    assert kinds_of(templates, schema) == expected


@requirement("policy.cap.3")
def test_kinds_are_found_at_any_depth_of_a_schema() -> None:
    schema = {
        "properties": {
            "files": {"items": {"$ref": "#/$defs/file"}},
            "opt": {"properties": {"to": {"anyOf": [{"type": "null"}, {"x-toolcrib-kind": "url"}]}}},
            "key": {"format": "password"},
            "odd": {"x-toolcrib-kind": "unheard-of"},
        },
        "$defs": {"file": {"x-toolcrib-kind": "path", "properties": {"next": {"$ref": "#/$defs/file"}}}},
    }
    found = kinds_of([], schema)
    assert found.items() >= {"files[*]": "path", "opt.to": "url", "key": "secret", "files[*].next": "path"}.items()
    assert "odd" not in found


@requirement("policy.cap.3")
def test_an_argument_of_several_templates_has_the_strictest_kind() -> None:
    assert kinds_of(["db:read:{x}", "exec:cmd:{x}", "fs:read:{x}"], {}) == {"x": "command"}


@requirement("policy.cap.3")
def test_a_kind_from_the_schema_changes_how_a_value_is_taken() -> None:
    assert texts("net:egress:{host}", host="shop.example", kinds={"host": "text"}) == [
        "net:egress:https://shop.example:443"
    ]
    assert texts("exec:cmd:{program}", program="/usr/bin/ls", kinds={"program": "text"}) == ["exec:cmd:ls"]
    assert texts("docs:open:{file}", file="../a:b*", kinds={"file": "path"}) == ["docs:open:/shop/a:b*"]
    assert texts("crawl:page:{at}", at="HTTP://A.example/x", kinds={"at": "url"}) == ["crawl:page:http://a.example:80"]
    for template, kind in (("net:egress:{v}", "url"), ("fs:read:{v}", "text"), ("secrets:read:{v}", "secret")):
        with pytest.raises(UnfitArgument):
            texts(template, v="shop*", kinds={"v": kind})


@requirement("policy.cap.3")
def test_a_secret_never_becomes_part_of_a_capability() -> None:
    with pytest.raises(UnfitArgument) as raised:
        texts("vault:open:{key}", key="hunter2", kinds={"key": "secret"})
    assert "hunter2" not in str(raised.value)


@requirement("policy.cap.3")
def test_globs_ask_for_sets_and_paths_with_wildcards_do_not() -> None:
    kinds = {"pattern": "glob"}
    assert derive(["fs:read:{pattern}"], {"pattern": "src/*.py"}, AT, kinds) == [
        Capability("fs", "read", "/shop/desk/src/*.py", "/shop/desk/src")
    ]
    assert derive(["fs:read:{pattern}"], {"pattern": "src/a.py"}, AT, kinds) == [
        Capability("fs", "read", "/shop/desk/src/a.py")
    ]
    assert derive(["fs:read:{path}"], {"path": "src/*.py"}, AT) == [Capability("fs", "read", "/shop/desk/src/*.py")]


@requirement("policy.cap.1")
def test_families_are_known_before_the_arguments() -> None:
    templates = ["fs:read:{a}", "fs:read:{b}", "exec:cmd:{c}", "payments:initiate", "db:{mode}:{t}"]
    assert families(templates) == ["fs:read", "exec:cmd", "payments:initiate", "db:*"]


@requirement("policy.shell.4")
@pytest.mark.parametrize(
    ("command", "needs"),
    [
        ("sort < a > b", ["exec:cmd:sort", "fs:read:/shop/desk/a", "fs:write:/shop/desk/b"]),
        ("ls >> ../log 2>&1", ["exec:cmd:ls", "fs:write:/shop/log"]),
        ("ls >/dev/null 2>/dev/stderr </dev/stdin", ["exec:cmd:ls"]),
        ("ls | ls", ["exec:cmd:ls"]),
        ("./ls", ["exec:cmd:./ls"]),
        ("/srv/bin/git x", ["exec:cmd:/srv/bin/git"]),
        ("echo x > ~/y", ["exec:cmd:echo", "fs:write:/people/ada/y"]),
        ("echo x > ~eve/y", ["exec:cmd:echo", "fs:write:/**"]),
        ("HOME=/etc; echo x > ~/y", ["exec:cmd:echo", "exec:cmd:*", "fs:write:/**"]),
        ("echo x > $Y", ["exec:cmd:echo", "fs:write:/**"]),
        ("cat < $Y", ["exec:cmd:cat", "fs:read:/**"]),
        ("cd /etc && cat < passwd", ["exec:cmd:cd", "exec:cmd:cat", "fs:read:/**"]),
        ("env -C /etc cat < passwd", ["exec:cmd:env", "exec:cmd:cat", "fs:read:/**"]),
        ("env --chd=/etc cat < passwd", ["exec:cmd:env", "exec:cmd:cat", "fs:read:/**"]),
        ("sudo -D /etc cat < passwd", ["exec:cmd:sudo", "exec:cmd:cat", "fs:read:/**"]),
        ("chroot /etc cat < passwd", ["exec:cmd:chroot", "exec:cmd:cat", "fs:read:/**"]),
        ("find /etc -execdir cat x \\; > out", ["exec:cmd:find", "exec:cmd:cat", "fs:write:/**"]),
        ("cd /etc && cat < /shop/desk/a", ["exec:cmd:cd", "exec:cmd:cat", "fs:read:/shop/desk/a"]),
        ("$X", ["exec:cmd:*"]),
    ],
)
def test_a_command_needs_its_programs_and_redirections(command: str, needs: list[str]) -> None:
    assert texts("exec:cmd:{command}", command=command) == needs


@requirement("policy.cap.2")
def test_links_are_resolved_when_capabilities_are_made(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    folders = Folders(str(tmp_path))
    commands = {"path": "out/passwd", "command": "cat < out/passwd"}
    found = derive(["fs:write:{path}", "exec:cmd:{command}"], commands, folders)
    assert [one.text for one in found] == ["fs:write:/etc/passwd", "exec:cmd:cat", "fs:read:/etc/passwd"]


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
TEMPLATES = ["fs:read:{a}", "net:egress:{a.b}", "db:{a[*]}:{b}", "fs:write:{a[*].c}", "exec:cmd:{b}", "fs:read:{a}/{b}"]


@requirement("policy.cap.2")
@given(st.dictionaries(st.sampled_from("abc"), json), st.lists(st.sampled_from(TEMPLATES), max_size=3))
def test_any_arguments_are_judged_or_refused(args: dict[str, Any], templates: list[str]) -> None:
    try:
        found = derive(templates, args, AT)
    except UnfitArgument:
        return
    assert len(set(found)) == len(found)
    for one in found:
        assert one.text.count(":") >= 2
        assert capabilities.canonical(one, AT).resource is not None

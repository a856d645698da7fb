"""What people do in the console, screen by screen."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from tests.console.conftest import Visiting
from tests.console.place import REFUSED, UNFOUND, Shop, Visit, shop_at

pytestmark = pytest.mark.asyncio(loop_scope="session")


# Tools


async def test_a_tool_is_found_tried_and_its_call_is_shown(visit: Visit) -> None:
    await visit.go("tools")
    await visit.page.get_by_role("searchbox", name="Search tools").fill("look order up")
    await visit.region("Tools").get_by_role("link").filter(has_text="find_order").click()
    await visit.page.get_by_role("textbox", name="order").fill("A-7")
    await visit.button("Run").click()
    card = visit.call("shop.find_order succeeded")
    await expect(card.get_by_role("region", name="result")).to_contain_text('"cents": 4200')
    await expect(card).to_contain_text("policy: allowed")


async def test_filters_leave_the_tools_that_fit(visit: Visit) -> None:
    await visit.go("tools")
    rows = visit.region("Tools").get_by_role("link")
    namespace, effect = visit.page.get_by_label("namespace"), visit.page.get_by_label("effect")
    await namespace.select_option("space07")
    await expect(rows).to_have_count(15)
    await expect(effect.get_by_role("option")).to_have_text(["any effect", "idempotent (5)", "once (5)", "read (5)"])
    await effect.select_option("once")
    await expect(rows).to_have_count(5)
    await expect(namespace.get_by_role("option").filter(has_text="space19 (5)")).to_have_count(1)
    await visit.page.get_by_role("searchbox").fill("nothing like that")
    await expect(visit.text("No tool fits.")).to_be_visible()


async def test_a_tool_is_closed_and_the_whole_list_is_back(visit: Visit) -> None:
    await visit.go("tools", "shop.find_order")
    await expect(visit.region("shop.find_order")).to_be_visible()
    await visit.page.keyboard.press("Escape")
    await expect(visit.region("shop.find_order")).to_have_count(0)


async def test_tools_that_are_not_well_are_marked_and_can_be_filtered(visiting: Visiting, tmp_path: Path) -> None:
    peer = f"{sys.executable} {Path(__file__).parents[1]}/sources/mcp/peers/raw.py legacy"
    with shop_at(tmp_path, "--server", peer) as shop:
        async with visiting(shop) as visit:
            await visit.go("tools")
            await expect(visit.page.get_by_label("health").get_by_role("option")).to_have_count(2)
            for server in shop.servers():
                server.kill()
            while not shop.ask("GET", "/tools", health="degraded")["items"]:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)
            await visit.page.reload()
            await expect(visit.page.get_by_role("list", name="Sources that are not well")).to_contain_text("peer")
            await visit.page.get_by_label("health").select_option("degraded")
            rows = visit.region("Tools").get_by_role("link")
            await expect(rows.first).to_contain_text("degraded")
            await rows.filter(has_text="The tool echo.").click()
            await expect(visit.region("peer.echo")).to_contain_text("It ended by itself")


async def test_what_is_known_of_a_tool_can_be_read_and_its_examples_run(shop: Shop, visit: Visit) -> None:
    shop.call("known", "shop.find_order", {"order": "oops"})
    await visit.go("tools", "shop.find_order")
    known = visit.region("What is known")
    await expect(known).to_contain_text("Orders begin with a letter and a dash")
    await known.get_by_role("button", name="Run this").click()
    await expect(visit.call("shop.find_order succeeded")).to_be_visible()
    await expect(visit.region("Use")).to_contain_text("failed: not_found")
    await visit.text("recent calls").click()
    await expect(visit.region("Use").get_by_role("link").filter(has_text="known").first).to_be_visible()


async def test_a_form_is_made_of_any_schema(shop: Shop, visit: Visit) -> None:
    await visit.go("tools", "shop.pack")
    await visit.button("Add").click()
    await visit.page.get_by_label("article").fill("a bear")
    await visit.page.get_by_label("kind").select_option("toy")
    await visit.page.get_by_label("express").check()
    await visit.button("JSON").click()
    given = json.loads(await visit.page.get_by_label("Arguments").input_value())
    assert given == {"lines": [{"article": "a bear", "count": 1, "kind": "toy"}], "express": True}
    await visit.button("Run").click()
    await expect(visit.call("shop.pack succeeded")).to_contain_text('"express": true')


async def test_what_the_server_says_of_bad_arguments_is_shown(visit: Visit) -> None:
    visit.expected = REFUSED
    await visit.go("tools", "shop.find_order")
    await visit.button("JSON").click()
    await visit.page.get_by_label("Arguments", exact=True).fill('{"order": 7, "size": 1}')
    await visit.button("Run").click()
    await expect(visit.call("shop.find_order failed")).to_contain_text("invalid arguments")
    await visit.page.get_by_label("Arguments", exact=True).fill("{")
    await expect(visit.page.get_by_role("alert")).to_contain_text("This is not JSON yet")
    await expect(visit.button("Run")).to_be_disabled()


async def test_trying_a_tool_leaves_the_other_namespaces_open_to_the_session(shop: Shop, visit: Visit) -> None:
    await visit.go("tools", "space00.tool_00000")
    await visit.page.get_by_label("in session").fill("wide")
    await visit.button("Run").click()
    await expect(visit.call("space00.tool_00000 succeeded")).to_be_visible()
    assert shop.call("wide", "shop.find_order", {"order": "A-1"})["ok"]


# Live


async def test_calls_appear_as_they_are_made_with_progress_and_output(shop: Shop, visit: Visit) -> None:
    async with visit.page.expect_response(lambda answer: "/v1/live" in answer.url, timeout=60_000):
        await visit.go("live")
    id = shop.begin("watched", "shop.report", {"rows": 3, "hold": True})
    row = visit.region("Calls").get_by_role("link").filter(has_text="watched")
    await expect(row).to_contain_text("row 3 of 3")
    await row.click()
    await expect(visit.call("shop.report streaming").get_by_role("progressbar")).to_have_attribute(
        "aria-valuenow", "75"
    )
    await expect(visit.page.get_by_role("region", name="output")).to_contain_text("row 2: 84 cents")
    await visit.button("Cancel").click()
    await expect(visit.call("shop.report cancelled")).to_be_visible()
    assert shop.ask("GET", f"/sessions/watched/calls/{id}")["status"] == "cancelled"


async def test_child_calls_stand_below_the_call_that_made_them(shop: Shop, visit: Visit) -> None:
    await visit.go("live")
    made = shop.call("nested", "shop.check_orders", {"orders": ["A-1", "A-2"]})
    rows = visit.region("Calls").get_by_role("link").filter(has_text="nested")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(1)).to_contain_text("└")
    await visit.go("live", "nested", made["call"])
    whole = visit.call("shop.check_orders succeeded")
    await expect(whole.get_by_role("article", name="shop.find_order succeeded")).to_have_count(2)


async def test_a_call_of_the_past_is_run_again(shop: Shop, visit: Visit) -> None:
    made = shop.call("past", "shop.find_order", {"order": "none"})
    await visit.go("live")
    await visit.button("failed").click()
    await visit.region("Calls").get_by_role("link").filter(has_text="past").click()
    await expect(visit.call("shop.find_order failed")).to_contain_text("There is no order none")
    async with visit.page.expect_response(lambda answer: answer.request.method == "POST") as repeated:
        await visit.button("Run again").click()
    await (await repeated.value).finished()
    first, second = (call["id"] for call in shop.ask("GET", "/sessions/past/calls")["items"])
    await expect(visit.page).to_have_url(re.compile(second if first == made["call"] else first))
    await expect(visit.call("shop.find_order failed")).to_be_visible()


# Inbox


async def test_a_question_is_approved_as_it_was_asked(shop: Shop, visit: Visit) -> None:
    id = shop.begin("till-1", "shop.refund", {"order": "B-1", "cents": 77}, "waiting")
    await visit.go("inbox")
    await visit.region("Open questions").get_by_role("link").filter(has_text="till-1").click()
    question = visit.region("Question")
    await expect(question.get_by_role("region", name="Arguments of shop.refund")).to_contain_text('"cents": 77')
    await question.get_by_label("Reason").fill("the bear was torn")
    await question.get_by_role("button", name="Approve").click()
    lately = visit.region("Answered lately")
    await expect(lately).to_contain_text("the bear was torn")
    assert shop.ask("GET", f"/sessions/till-1/calls/{id}/result", wait=30)["data"] == {"receipt": "R-B-1-77"}


async def test_what_was_answered_is_read_again_once_its_call_is_over(shop: Shop, visit: Visit) -> None:
    id = shop.begin("till-6", "shop.refund", {"order": "B-6", "cents": 6}, "waiting")
    result = re.compile(rf"/calls/{id}/result")
    over = asyncio.Event()

    async def without_it(route: Route) -> None:
        if over.is_set():
            await route.continue_()
        else:
            await route.fulfill(json={"items": []})

    async def hold(route: Route) -> None:
        await over.wait()
        await route.continue_()

    await visit.page.route(re.compile(r"/v1/audit\?"), without_it)
    await visit.page.route(result, hold)
    await visit.go("inbox", f"{id}-1")
    async with visit.page.expect_request(result):
        await visit.button("Approve").click()
    over.set()
    await expect(visit.region("Answered lately")).to_contain_text("order = B-6")


async def test_a_question_can_be_read_before_it_is_opened(shop: Shop, visit: Visit) -> None:
    shop.begin("till-0", "shop.refund", {"order": "B-0", "cents": 7}, "waiting")
    await visit.go("inbox")
    row = visit.region("Open questions").get_by_role("link").filter(has_text="till-0")
    said = row.get_by_text("Allow shop.refund? (the tool is destructive)")
    await expect(said).to_be_visible()
    assert await said.evaluate("one => one.closest('b').scrollHeight <= one.closest('b').clientHeight")


async def test_arguments_are_edited_with_the_difference_in_view(shop: Shop, visit: Visit) -> None:
    id = shop.begin("till-2", "shop.refund", {"order": "B-2", "cents": 900}, "waiting")
    await visit.go("inbox", f"{id}-1")
    await visit.button("Edit").click()
    field = visit.page.get_by_label("Arguments", exact=True)
    await field.fill('{"order": "B-2", "cents": ')
    await expect(visit.button("Approve as edited")).to_be_disabled()
    await field.fill('{"order": "B-2", "cents": 90}')
    changed = visit.region("What is changed")
    await expect(changed.locator("del")).to_have_text('-   "cents": 900')
    await expect(changed.locator("ins")).to_have_text('+   "cents": 90')
    await visit.button("Approve as edited").click()
    await expect(visit.region("Answered lately")).to_contain_text("with other arguments")
    assert shop.ask("GET", f"/sessions/till-2/calls/{id}/result", wait=30)["data"] == {"receipt": "R-B-2-90"}


async def test_what_is_allowed_for_a_session_is_not_asked_again(shop: Shop, visit: Visit) -> None:
    id = shop.begin("till-3", "shop.refund", {"order": "B-3", "cents": 5}, "waiting")
    await visit.go("inbox", f"{id}-1")
    await expect(visit.text("allow shop.refund(")).to_be_visible()
    await visit.button("Allow for this session").click()
    await expect(visit.region("Answered lately")).to_contain_text("for the session")
    assert shop.call("till-3", "shop.refund", {"order": "B-3", "cents": 5})["ok"]


async def test_a_question_is_declined_and_the_badge_counts(shop: Shop, visit: Visit) -> None:
    await visit.go("tools")
    id = shop.begin("till-4", "shop.refund", {"order": "B-4", "cents": 1}, "waiting")
    badge = visit.page.get_by_role("link", name="Inbox")
    await expect(badge).to_contain_text(str(len(shop.ask("GET", "/questions")["items"])))
    await visit.go("inbox", f"{id}-1")
    await visit.button("Decline").click()
    await expect(visit.region("Answered lately")).to_contain_text("decline")
    failure = shop.ask("GET", f"/sessions/till-4/calls/{id}/result", wait=30)["failure"]
    assert failure["code"] == "declined"


async def test_a_question_with_a_schema_has_a_form(shop: Shop, visit: Visit) -> None:
    id = shop.begin("till-5", "shop.survey", {}, "waiting")
    await visit.go("inbox", f"{id}-1")
    await expect(visit.text("How was it?").last).to_be_visible()
    await visit.page.get_by_label("stars").fill("4")
    await visit.page.get_by_label("words").fill("fine")
    await visit.button("Answer").click()
    await expect(visit.page).not_to_have_url(re.compile(id))  # another question may follow
    answer = shop.ask("GET", f"/sessions/till-5/calls/{id}/result", wait=30)
    assert answer["data"] == {"stars": 4, "words": "fine"}


# Sessions


async def test_a_session_is_replayed_to_any_event(shop: Shop, visit: Visit) -> None:
    id = shop.begin("replayed", "shop.refund", {"order": "C-1", "cents": 3}, "waiting")
    shop.ask("POST", "/sessions/replayed/answers", {"question": f"{id}-1", "action": "accept"})
    shop.ask("GET", f"/sessions/replayed/calls/{id}/result", wait=30)
    await visit.go("sessions")
    await visit.page.get_by_role("searchbox", name="Search sessions").fill("replay")
    await visit.region("Sessions").get_by_role("link").filter(has_text="replayed").click()
    state = visit.page.get_by_role("region", name="State", exact=True)
    await expect(state).to_contain_text('"last_refund": "C-1"')
    await expect(visit.region("Done")).to_contain_text("shop.refund")
    await visit.page.get_by_label("At event").fill("3")
    await expect(visit.region("Waits")).to_contain_text("shop.refund")
    await expect(visit.region("Done")).to_have_count(0)
    await expect(visit.text("Tools keep nothing here.")).to_be_visible()
    await expect(visit.region("Events").get_by_role("button")).to_have_count(3)
    await visit.button("Now").click()
    await expect(visit.region("Done")).to_be_visible()


async def test_the_agent_at_any_event_is_told(shop: Shop, visit: Visit) -> None:
    shop.ask("POST", "/sessions", {"id": "handed"})
    shop.ask("POST", "/sessions/handed/messages", {"text": "it is about money", "agent": "desk", "wait": 60})
    await visit.go("sessions", "handed")
    state = visit.page.get_by_role("region", name="State", exact=True)
    await expect(state).to_contain_text("agent billing")
    await visit.page.get_by_label("At event").fill("4")
    await expect(state).to_contain_text("agent desk")


async def test_events_show_as_they_come_and_one_can_be_opened(shop: Shop, visit: Visit) -> None:
    shop.call("growing", "shop.find_order", {"order": "A-1"})
    await visit.go("sessions", "growing")
    rows = visit.region("Events").get_by_role("button")
    await expect(rows).to_have_count(4)
    shop.call("growing", "shop.find_order", {"order": "A-2"})
    await expect(rows.filter(has_text="accepted")).to_have_count(2)
    await rows.filter(has_text="accepted").last.click()
    await expect(visit.page.get_by_role("region", name="Event", exact=True)).to_contain_text('"order": "A-2"')


async def test_that_there_is_no_such_session_is_said_once(visit: Visit) -> None:
    visit.expected = UNFOUND
    await visit.go("sessions", "nobody-was-here")
    await expect(visit.page.get_by_role("alert")).to_have_count(1)
    await expect(visit.page.get_by_role("alert")).to_contain_text("session")


async def test_a_session_is_exported_line_by_line(shop: Shop, visit: Visit, tmp_path: Path) -> None:
    shop.call("kept", "shop.find_order", {"order": "A-1"})
    await visit.go("sessions", "kept")
    async with visit.page.expect_download() as download:
        await visit.button("Export").click()
    await (await download.value).save_as(tmp_path / "kept.ndjson")
    lines = [json.loads(line) for line in (tmp_path / "kept.ndjson").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["opened", "accepted", "started", "done"]


# Agents


async def test_a_talk_streams_shows_tool_cards_and_asks_in_place(shop: Shop, visit: Visit) -> None:
    await visit.go("agents")
    await visit.button("Talk to desk").click()
    await visit.page.get_by_label("Message").fill("look at A-7 and refund it")
    await visit.page.keyboard.press("Enter")
    talk = visit.page.get_by_role("log", name="Conversation")
    await expect(talk.get_by_role("article", name="shop.find_order succeeded")).to_be_visible()
    await talk.get_by_role("button", name="Approve").click()
    await expect(talk).to_contain_text("All done, says desk.")
    await expect(talk.get_by_role("article", name="shop.refund succeeded")).to_be_visible()
    await expect(visit.text("310 tokens · $0.0042")).to_be_visible()


async def test_a_handover_is_shown_and_the_next_agent_answers(visit: Visit) -> None:
    await visit.go("agents")
    await visit.button("Talk to desk").click()
    await visit.page.get_by_label("Message").fill("it is about money")
    await visit.button("Send").click()
    talk = visit.page.get_by_role("log", name="Conversation")
    await expect(talk).to_contain_text("desk → billing: it is about money")
    await expect(visit.page.get_by_role("heading", name="billing")).to_be_visible()


async def test_the_graph_says_who_may_reach_whom(visit: Visit) -> None:
    await visit.go("agents")
    graph = visit.region("Who works with whom").get_by_role("img")
    pairs = ("desk hands over to billing", "desk hands over to stock", "stock hands over to desk")
    said = "; ".join(rf"{pair}, (once|\d+ times) in the last week" for pair in pairs)
    await expect(graph).to_have_accessible_name(re.compile(f"^{said}$"))


# The rest


async def test_numbers_of_the_server_are_plotted(shop: Shop, visit: Visit) -> None:
    shop.call("counted", "shop.find_order", {"order": "A-1"})
    await visit.go("cluster")
    await expect(visit.page.get_by_role("img", name="calls a second")).to_be_visible()
    await expect(visit.page.locator(".figure").filter(has_text="sessions")).not_to_have_text("0sessions")
    await expect(visit.page.get_by_role("note")).to_contain_text("One process")


async def test_the_audit_is_searched(shop: Shop, visit: Visit, tmp_path: Path) -> None:
    shop.call("audited", "shop.find_order", {"order": "needle-1"})
    shop.call("audited", "shop.find_order", {"order": "needle"})
    await visit.go("audit")
    await visit.page.get_by_role("searchbox", name="Search").fill("needle")
    rows = visit.region("Calls").get_by_role("button")
    await expect(rows).to_have_count(2)
    await visit.page.get_by_label("Outcome").select_option("failed")
    await expect(rows).to_have_count(1)
    await rows.click()
    await expect(visit.region("What was recorded")).to_contain_text("There is no order needle")
    async with visit.page.expect_download() as download:
        await visit.button("Export").click()
    await (await download.value).save_as(tmp_path / "audit.ndjson")
    (line,) = (tmp_path / "audit.ndjson").read_text().splitlines()
    assert json.loads(line)["arguments"] == {"order": "needle"}

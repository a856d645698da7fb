"""What is told of a request that was not carried out: status, body and headers, for every reason there is."""

import json
from typing import Any

import pytest

from toolcrib.errors import Refused, StoreError, StoreUnavailable, ToolcribError, ToolFailure
from toolcrib.serve.api.errors import STATUS, ApiError, problem_of
from toolcrib.serve.asgi import UnreadableBody
from toolcrib.serve.principal import NotAdmitted


def told(error: Exception) -> tuple[int, dict[str, Any], dict[str, str]]:
    """The status, the error and the headers of an answer."""
    status, body, headers = problem_of(error).reply()
    return status, json.loads(body)["error"], {name.decode(): value.decode() for name, value in headers}


AGAIN = "ask again with the same key, which finds the call if it was accepted"


@pytest.mark.parametrize(
    ("error", "status", "code", "hint"),
    [
        (Refused("conflict", "m", "h"), 409, "conflict", "h"),
        (Refused("denied", "m"), 403, "denied", None),
        (ApiError("timeout", "m", "h"), 408, "timeout", "h"),
        (ApiError("something new", "m"), 400, "something new", None),
        (ToolFailure("unavailable", "m", hint="h"), 409, "failed", "h"),
        (NotAdmitted(403, "m", hint="h"), 403, "denied", "h"),
        (NotAdmitted(418, "m"), 403, "denied", None),
        (UnreadableBody(413, "m"), 413, "too_large", None),
        (StoreError("m"), 503, "unavailable", "try again"),
        (StoreUnavailable("m"), 503, "unavailable", "try again"),
        (StoreUnavailable("m", in_doubt=True), 503, "unavailable", AGAIN),
        (ToolcribError("m"), 400, "invalid_arguments", None),
    ],
)
def test_every_reason_has_its_status_its_code_and_what_to_do(
    error: Exception, status: int, code: str, hint: str | None
) -> None:
    found, body, headers = told(error)
    assert (found, body["code"], body["message"], body.get("hint")) == (status, code, "m", hint)
    assert headers["content-type"] == "application/json"
    assert ("retry-after" in headers, "retry_after" in body) == ((status == 503,) * 2)
    assert ("connection" in headers) == isinstance(error, UnreadableBody)


@pytest.mark.parametrize("challenge", [None, 'Bearer realm="shop"'])
def test_who_is_not_known_is_told_once_how_to_show_who_they_are(challenge: str | None) -> None:
    _, _, headers = problem_of(NotAdmitted(401, "m", challenge)).reply()
    challenges = [value.decode() for name, value in headers if name == b"www-authenticate"]
    assert len(challenges) == 1
    assert challenge in (None, *challenges)


@pytest.mark.parametrize(("seconds", "header"), [(0.0, "1"), (0.2, "1"), (1.0, "1"), (1.2, "2"), (30, "30")])
def test_when_to_come_again_is_told_in_whole_seconds_and_never_at_once(seconds: float, header: str) -> None:
    _, body, headers = told(ApiError("rate_limited", "m", retry_after=seconds))
    assert (headers["retry-after"], body["retry_after"]) == (header, seconds)


def test_of_what_nobody_expected_only_the_id_of_its_trace_is_told(caplog: pytest.LogCaptureFixture) -> None:
    status, body, _ = told(ZeroDivisionError("the password is hunter2"))
    assert (status, body["code"]) == (500, "internal")
    assert "hunter2" not in json.dumps(body)
    assert "hunter2" in caplog.text
    assert body["trace"] in caplog.text
    assert body["trace"] in body["hint"]


def test_every_status_says_that_something_was_not_done() -> None:
    assert all(400 <= status < 600 for status in STATUS.values())

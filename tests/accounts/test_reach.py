"""Servers of authorization are reached where it is safe, and nowhere else."""

import pytest

from tests.accounts.place import RETURN, OpenCrib
from tests.accounts.service import Service
from tests.requirements import requirement
from toolcrib import ToolFailure
from toolcrib.accounts import AccountSettings, AuthorizationError
from toolcrib.accounts.web import AuthorizationWeb


@requirement("accounts.oauth.3")
@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://login.example/token", "everybody can read"),
        ("https://127.0.0.1/token", "lies inside"),
        ("https://169.254.169.254/latest", "lies inside"),
        ("ftp://login.example/", "http"),
    ],
)
async def test_what_a_stranger_names_is_not_asked(url: str, problem: str) -> None:
    with pytest.raises(AuthorizationError, match=problem):
        await AuthorizationWeb(frozenset({"shop.example"})).get(url)


@requirement("accounts.oauth.3")
async def test_a_server_that_claims_to_be_another_is_not_believed(open_crib: OpenCrib, service: Service) -> None:
    crib = await open_crib(service, AccountSettings(name="shop", issuer=f"{service.base}/other"))
    with pytest.raises(ToolFailure, match="does not say how it is used"):
        await crib.accounts.begin("ada", "shop", RETURN)

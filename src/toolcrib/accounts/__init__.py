"""Accounts: services that owners connect with, and the tokens that tools use them with.

`AccountSettings` describes a service, `Accounts` gets tokens for its owners, renews them, and asks whoever has none to
connect. What is kept is encrypted with the key for secrets (`secret_key`), and each owner has their own.
"""

from toolcrib.accounts.account_log import ConnectedAccount
from toolcrib.accounts.accounts import Accounts, ServiceToken
from toolcrib.accounts.authorization import AuthorizationReply
from toolcrib.accounts.settings import AccountSettings
from toolcrib.accounts.web import AuthorizationError

__all__ = [
    "AccountSettings",
    "Accounts",
    "AuthorizationError",
    "AuthorizationReply",
    "ConnectedAccount",
    "ServiceToken",
]

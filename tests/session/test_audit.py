"""The chain of an audit: the hash of an entry is the same wherever and whenever it is made."""

from typing import Any

from tests.requirements import requirement
from toolcrib._session.audit import sealed

ENTRY: dict[str, Any] = {"prev": "0" * 64, "owner": "Zoë", "at": 1.5, "args": {"b": [1, None], "a": "größer"}}


@requirement("policy.audit.2")
def test_the_hash_of_an_entry_does_not_depend_on_the_order_of_its_fields() -> None:
    turned = {**dict(reversed(ENTRY.items())), "args": {"a": "größer", "b": [1, None]}}
    assert sealed(turned) == sealed(ENTRY) == sealed({**ENTRY, "hash": "x"})
    assert sealed({**ENTRY, "prev": "1" * 64}) != sealed(ENTRY)


@requirement("policy.audit.2")
def test_the_hash_of_an_entry_stays_what_it_is() -> None:
    assert sealed(ENTRY) == "2d7e03c706186495e57211c8f53bc6c48cf4d9ee6e2d4d68eb08603cc7bb9116"

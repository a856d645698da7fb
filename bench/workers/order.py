"""The workload document: a nested order of about 2 KB. pydantic only, since every peer's environment imports this."""

import json
from datetime import date, datetime

from pydantic import BaseModel


class Address(BaseModel):
    """A postal address."""

    street: str
    city: str
    postcode: str
    country: str


class Customer(BaseModel):
    """Who ordered."""

    id: int
    name: str
    email: str
    vip: bool
    since: date


class Item(BaseModel):
    """One line of the order."""

    sku: str
    title: str
    quantity: int
    cents: int
    weight: float
    gift: bool
    tags: list[str]


class Order(BaseModel):
    """The whole document."""

    id: str
    placed: datetime
    due: date
    customer: Customer
    shipping: Address
    billing: Address
    items: list[Item]
    tags: list[str]
    note: str | None = None


def _item(number: int) -> dict[str, object]:
    return {
        "sku": f"SKU-{number:05d}",
        "title": f"Adjustable wrench no. {number}",
        "quantity": 1 + number % 4,
        "cents": 1299 + 50 * number,
        "weight": 0.25 + number / 8,
        "gift": number % 3 == 0,
        "tags": ["tools", "steel"],
    }


def _document() -> dict[str, object]:
    address = {"street": "12 Harbour Road", "city": "Bristol", "postcode": "BS1 4ST", "country": "GB"}
    return {
        "id": "ORD-2025-000777",
        "placed": "2025-11-03T09:41:27Z",
        "due": "2025-11-10",
        "customer": {"id": 4711, "name": "Ada Byron", "email": "ada@example.org", "vip": True, "since": "2019-04-01"},
        "shipping": address,
        "billing": address,
        "items": [_item(number) for number in range(12)],
        "tags": ["web", "repeat", "spring"],
        "note": "Leave it at the side door, please.",
    }


ADD = json.dumps({"a": 123456, "b": 654321}, separators=(",", ":")).encode()
ORDER = json.dumps({"order": _document()}, separators=(",", ":")).encode()

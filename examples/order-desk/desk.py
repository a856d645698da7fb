"""The tools of an order desk."""

from toolcrib import Context, ToolFailure, tool

ORDERS = {"A-7": 12_000, "B-1": 900}


class Bank:
    """Stands for the bank; it writes down what it paid."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []

    async def pay(self, order: str, cents: int) -> str:
        """Pay, and return the number of the receipt."""
        self.paid.append((order, cents))
        return f"R-{len(self.paid)}"


@tool(namespace="desk", read_only=True)
async def look_up(order: str) -> dict[str, int]:
    """Tell what an order cost, in cents."""
    if order not in ORDERS:
        raise ToolFailure("not_found", f"There is no order {order}", hint=f"There are {', '.join(ORDERS)}.")
    return {"cents": ORDERS[order]}


@tool(namespace="desk", destructive=True, timeout=20, deps=["bank"])
async def refund(ctx: Context, order: str, cents: int, bank: Bank) -> dict[str, str]:
    """Pay money back. The step keeps a payment from happening twice."""
    ctx.progress("talking to the bank", 0.5)
    receipt = await ctx.step("pay", lambda: bank.pay(order, cents))
    return {"receipt": receipt}

"""When calls that wait are looked after."""

from tests.requirements import requirement
from toolcrib.adapters.alarm import Alarm


@requirement("adapters.wait.2")
async def test_who_has_just_come_is_not_woken_with_those_who_waited() -> None:
    alarm = Alarm()
    first = alarm.waiter()
    alarm._ring()
    second = alarm.waiter()
    assert not first.done()
    alarm._ring()
    assert first.done()
    assert not second.done()
    await second

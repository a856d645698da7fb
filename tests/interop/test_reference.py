"""The page of the reference names every form and function, and its example of a problem is true."""

import re
from types import ModuleType

import pytest

from tests.shared import ROOT, nonempty
from toolcrib import interop
from toolcrib.interop import InteropError, aios, aomi, awaken, distri
from toolcrib.interop.wire import aios as aios_wire
from toolcrib.interop.wire import aomi as aomi_wire
from toolcrib.interop.wire import awaken as awaken_wire
from toolcrib.interop.wire import distri as distri_wire

PAGE = (ROOT / "docs/reference/interop.md").read_text("utf-8")
FORMS = [wire.FORMS for wire in (aios_wire, awaken_wire, distri_wire, aomi_wire)]


@pytest.mark.parametrize("module", [interop, aios, awaken, distri, aomi], ids=lambda module: module.__name__)
def test_every_public_name_of_interop_is_mentioned(module: ModuleType) -> None:
    missing = [name for name in module.__all__ if not re.search(rf"`[^`]*\b{name}\b[^`]*`", PAGE)]
    assert missing == []


def test_every_form_is_in_the_row_of_its_module() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| `(aios|awaken|distri|aomi)` \| `[A-Z]", line)]
    for row, forms in zip(nonempty(rows), FORMS, strict=True):
        assert re.findall(r"`([A-Z]\w+)`", row) == list(forms.kinds)


def test_the_page_for_readers_names_a_true_problem() -> None:
    with pytest.raises(InteropError) as refused:
        awaken.loads("SuspendTicket", '{"resume_mode":"replay"}')
    assert (refused.value.problem, refused.value.field) == ("unknown_value", "resume_mode")

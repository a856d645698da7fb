"""The program of the page about notebooks, in a real kernel."""

from pathlib import Path
from textwrap import dedent

import nbformat
import pytest
from nbclient import NotebookClient

from tests.requirements import requirement

PROGRAM = Path(__file__).parents[3] / "docs_src/howto/in_a_notebook.py"
HEAD, _, CELL = PROGRAM.read_text("utf-8").partition("async def cell() -> None:\n")
BODY, _, LAST = CELL.partition("\n\n\n")
AT_ONCE = [f"{HEAD}async def cell() -> None:\n{BODY}", "await cell()"]
LINE_BY_LINE = [HEAD, *dedent(BODY).splitlines()]
pytestmark = pytest.mark.process


@requirement("adapters.pages.3")
@pytest.mark.parametrize("cells", [AT_ONCE, LINE_BY_LINE], ids=["at once", "line by line"])
def test_the_program_runs_in_the_cells_of_a_notebook(cells: list[str], tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    printed = [
        output["text"] for cell in notebook.cells for output in cell.outputs if output["output_type"] == "stream"
    ]
    assert LAST.startswith("asyncio.run(cell())")
    assert printed == ["{'order': 'A-7', 'state': 'paid'}\n"]

"""The engine that a URL names, and what is said where it names none."""

import subprocess
import sys
from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib.engine import open_engine
from toolcrib.engine.nats import Nats
from toolcrib.errors import ToolcribError
from toolcrib.extras import install


def opened(url: str) -> Nats:
    engine = open_engine(url)
    assert isinstance(engine, Nats)
    return engine


@requirement("engine.2")
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", {"works": True}),
        ("?work=no", {"works": False}),
        ("?work=0", {"works": False}),
        ("?work=yes&slots=3", {"works": True, "slots": 3}),
        ("?slots=2&slots=5", {"slots": 5}),
    ],
)
def test_an_engine_is_opened_with_the_options_of_its_url(query: str, wanted: dict[str, Any]) -> None:
    engine = opened(f"nats://one:4222,two:4222{query}")
    assert {name: getattr(engine, name) for name in wanted} == wanted
    assert [server.rpartition("/")[2] for server in engine.servers] == ["one:4222", "two:4222"]


@requirement("engine.2")
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("kafka://host", "Unknown engine 'kafka:'"),
        ("nats://host?slot=3", "Unknown option 'slot' of the engine. Known: slots, replicas, lease, work"),
        ("nats://host?lease=soon", "Option 'lease' of the engine is a number, not 'soon'"),
    ],
)
def test_a_url_that_makes_no_sense_is_refused(url: str, words: str) -> None:
    with pytest.raises(ToolcribError, match=words.partition(".")[0]):
        open_engine(url)


@requirement("engine.2")
@pytest.mark.process
def test_without_the_client_of_nats_it_is_said_how_to_get_it() -> None:
    code = "import sys; sys.modules['nats'] = None; from toolcrib.engine import open_engine; open_engine('nats://host')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(f"The engine needs nats: {install('nats')}")

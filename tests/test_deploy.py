"""What `deploy/` holds: the steps of the image run in a clean environment, and manifests fit their schemas."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.requirements import requirement
from tests.shared import ROOT
from tests.test_distribution import Built, built
from toolcrib import yaml

__all__ = ["built"]
DEPLOY = ROOT / "deploy"
NODES = ("api", "worker", "migrate")


def documents(path: Path) -> list[dict[str, Any]]:
    texts = re.split(r"^---$", path.read_text("utf-8"), flags=re.MULTILINE)
    return [dict(yaml.thaw(yaml.parse(text).value)) for text in texts]


MANIFESTS = [one for path in sorted(DEPLOY.glob("kubernetes/*.yaml")) for one in documents(path) if "kind" in one]


@pytest.fixture(scope="module")
def root(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment that the script of the image made; other packages than ours are borrowed, not fetched."""
    target = tmp_path_factory.mktemp("image") / "toolcrib"
    env = os.environ | {"PYTHON": sys.executable, "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    script = (DEPLOY / "build.sh").read_text("utf-8")
    lend = f'for place in "$target"/lib/python3*/site-packages; do echo "{borrowed}" > "$place/zz_borrowed.pth"; done\n'
    script = script.replace('"$target/bin/toolcrib" --version', f'{lend}"$target/bin/toolcrib" --version')
    done = subprocess.run(
        ["sh", "-s", str(target), str(built.wheel)], input=script, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout[:9]) == (0, "toolcrib "), done.stderr
    return target


@requirement("adoption.deploy.1")
@pytest.mark.process
def test_what_the_image_starts_is_ready_and_stops_when_it_is_told(root: Path, tmp_path: Path) -> None:
    for name in ("crib.yaml", "tools.py"):
        shutil.copy(DEPLOY / "kubernetes" / name, tmp_path)
    tmp_path.chmod(0o555)
    state = tmp_path.parent / f"{tmp_path.name}-state"
    state.mkdir()
    env = os.environ | {
        "TOOLCRIB_STORE": f"sqlite:///{state}/crib.db",
        "XDG_STATE_HOME": str(state),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TOOLCRIB_ALLOW_ROOT": "1",
        "TOOLCRIB_TRUST": "1",
    }
    argv = [str(root / "bin/toolcrib"), "serve", "--host", "127.0.0.1", "--port", "0", "--auth", "keys"]
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = next(line.split()[-1] for line in process.stdout if line.startswith("Toolcrib at "))
            for path in ("/healthz", "/readyz"):
                with urlopen(address + path, timeout=60) as answer:
                    assert answer.status == 200
            with pytest.raises(HTTPError, match="401"):
                urlopen(f"{address}/v1/tools", timeout=60)
        finally:
            process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(60) == 0


@requirement("adoption.deploy.1")
def test_the_image_runs_the_same_steps_as_nobody_special() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert "RUN sh /build.sh /opt/toolcrib" in text
    [user] = re.findall(r"^USER (\d+):\d+$", text, re.MULTILINE)
    assert int(user) > 0
    assert "/readyz" in text
    from toolcrib.cli.app import COMMANDS

    assert re.findall(r'^CMD \["(\w+)"', text, re.MULTILINE)[0] in COMMANDS


@requirement("adoption.deploy.2")
def test_every_node_of_the_compose_file_is_read_only_and_has_no_rights() -> None:
    [compose] = documents(DEPLOY / "compose.yaml")
    node = compose["x-node"]
    assert (node["read_only"], node["cap_drop"]) == (True, ["ALL"])
    assert set(compose["services"]) == {"postgres", "nats", *NODES}


@requirement("adoption.deploy.2")
@pytest.mark.parametrize("version", ["1.33", "1.35", "1.37"])
def test_the_manifests_fit_the_schemas_of_kubernetes(version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="the extra toolcrib[dev] is not installed")
    checked = [one for one in MANIFESTS if one["kind"] != "Kustomization"]
    assert len(checked) == 8
    for manifest in checked:
        assert validator.validate(manifest, version, strict=True)


@requirement("adoption.deploy.2")
@pytest.mark.process
def test_the_manifests_are_put_together() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    argv = ["kubectl", "kustomize", str(DEPLOY / "kubernetes")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("image: registry.example/toolcrib:") == len(NODES)


@requirement("adoption.deploy.2")
@pytest.mark.parametrize("name", NODES)
def test_a_pod_is_nobody_special(name: str) -> None:
    workloads = [one for one in MANIFESTS if one["kind"] in ("Deployment", "Job")]
    [pod] = [one["spec"]["template"]["spec"] for one in workloads if one["metadata"]["name"].startswith(name)]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["terminationGracePeriodSeconds"] > 30


@requirement("adoption.deploy.2")
@pytest.mark.process
def test_the_unit_is_one_that_systemd_reads() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    argv = ["systemd-analyze", "verify", str(DEPLOY / "toolcrib.service")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if "toolcrib.service" in line]
    assert [line for line in told if "is not executable" not in line] == []

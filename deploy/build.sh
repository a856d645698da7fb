#!/bin/sh
# Puts Toolcrib into a folder of its own, from a wheel: the steps of the image, for any machine with Python 3.11 or newer.
#   deploy/build.sh TARGET WHEEL [EXTRAS]
# PYTHON names another interpreter; PIP_* are read by pip as usual.
set -eu

target=$1
wheel=$2
extras=${3:-serve,cluster,models}

"${PYTHON:-python3}" -m venv "$target"
"$target/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check "$wheel[$extras]"
# A root file system that is read-only cannot take byte code later, and an image needs no installer.
"$target/bin/python" -m compileall -q "$target/lib" >/dev/null 2>&1 || true
"$target/bin/python" -m pip uninstall --quiet --yes pip setuptools >/dev/null 2>&1 || true
"$target/bin/toolcrib" --version

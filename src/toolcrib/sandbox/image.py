"""QuickJS in WebAssembly, prepared once: the guest is compiled, the engine started in it and the prelude evaluated.

What is kept is an image of the whole memory. Written over the memory of an instance, it makes that instance fresh.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from wasmtime import Config, Engine, Linker, Memory, Module, Store, WasiConfig, WasmtimeError

from toolcrib.sandbox import SandboxError
from toolcrib.sandbox.guest import guest

NATIVE_STACK = 2 * 1024 * 1024
"""What a call in the guest may take of the thread's stack: WebAssembly keeps a part of its frames there."""

STACK = 768 * 1024
"""What the engine takes of its own stack before it throws a RangeError, which is before the other one is full."""

SLACK = 512 * 1024
"""Free memory in the image, so that a small run does not make it grow. It counts as memory of the run."""

PAGE = 65536
SCRATCH = 64
HERE = Path(__file__).parent
PRELUDE, DRIVER = HERE / "prelude.js", HERE / "driver.wat"
ENTRIES = ("begin", "finish", "settled", "failed")
"""The functions of the prelude that the driver calls."""

BAD_SETUP, THROWN = -1, -2
UNDEFINED, EXCEPTION = 3 << 32, 6
CODES = {"bad_setup": BAD_SETUP, "thrown": THROWN, "undefined": UNDEFINED, "exception": EXCEPTION}


@dataclass(frozen=True, slots=True)
class Image:
    """A prepared engine: the compiled guest, the text of its driver, its memory, and how much of that is in use.

    `scratch` is a small place in the memory; another one, `begun`, is not zero once the code of a run has begun.
    """

    compiled: bytes
    driver: str
    memory: bytearray
    used: int
    scratch: int
    begun: int


class Instance:
    """An instance of a module and the calls into it, each checked by wasmtime against the function's signature."""

    def __init__(self, store: Store, exports: Mapping[str, Any]) -> None:
        memory = exports["memory"]
        assert isinstance(memory, Memory)
        self.store = store
        self._memory = memory
        self._exports = exports

    @property
    def size(self) -> int:
        """How large its memory is."""
        return self._memory.data_len(self.store)

    def call(self, name: str, *arguments: int) -> int:
        """What the function gives."""
        value: int = self._exports[name](self.store, *arguments)
        return value

    def put(self, data: bytes) -> int:
        """Where the guest finds the bytes, with the zero behind them that it wants.

        Raises:
            Fault: they do not fit into its memory.
        """
        place = self.call("malloc", len(data) + 1)
        if not place:
            raise SandboxError("memory")
        self.write(place, data + b"\0")
        return place

    def write(self, place: int, data: bytes | bytearray) -> None:
        """Puts the bytes there. Addresses come out of the guest as signed numbers."""
        self._memory.write(self.store, data, place & 0xFFFFFFFF)

    def read(self, place: int, size: int) -> bytes:
        """The bytes there, as far as the memory reaches."""
        start = place & 0xFFFFFFFF
        return bytes(self._memory.read(self.store, start, start + size))

    def grow(self, size: int) -> None:
        """Makes the memory that large."""
        self._memory.grow(self.store, (size - self.size) // PAGE)

    def close(self) -> None:
        """Gives the memory back."""
        self.store.close()


def engine() -> Engine:
    """A new engine. Interrupting is done by engine, so each machine has one; they can share what was compiled."""
    config = Config()
    config.epoch_interruption = True
    config.max_wasm_stack = NATIVE_STACK
    try:
        # Compiling takes most of a second; wasmtime keeps the result in the user's cache folder.
        config.cache = True
    except WasmtimeError:
        pass  # A user without such a folder compiles in every process.
    return Engine(config)


def new_store(host: Engine) -> Store:
    """A store for one instance, which the next interrupt of the engine ends; of WASI it has the clock."""
    store = Store(host)
    store.set_wasi(WasiConfig())
    store.set_epoch_deadline(1)
    return store


def prepared() -> Image:
    """The image of this process; whoever comes first makes it."""
    with _preparing:
        return _prepare()


_preparing = threading.Lock()


@lru_cache(maxsize=1)
def _prepare() -> Image:
    host = engine()
    module = Module(host, guest())
    linker = Linker(host)
    linker.define_wasi()
    store = new_store(host)
    instance = Instance(store, linker.instantiate(store, module).exports(store))
    instance.call("_initialize")
    runtime = instance.call("JS_NewRuntime")
    instance.call("JS_SetMaxStackSize", runtime, STACK)
    context = instance.call("JS_NewContext", runtime)
    scratch, begun, empty = (instance.put(bytes(size)) for size in (SCRATCH, SCRATCH, 0))

    def evaluated(code: bytes) -> int:
        value = instance.call("JS_Eval", context, instance.put(code), len(code), empty, 0)
        assert value >> 32 != EXCEPTION, f"the guest does not take: {code[:40]!r}"
        return value

    evaluated(PRELUDE.read_bytes())
    places = {"runtime": runtime, "context": context, "scratch": scratch, "begun": begun, "empty": empty}
    entries = {name: evaluated(f"entries.{name}".encode()) for name in ENTRIES}
    evaluated(b"delete globalThis.entries")
    used = instance.size
    instance.call("free", instance.call("malloc", SLACK))
    memory = bytearray(instance.read(0, instance.size))
    instance.close()
    driver = DRIVER.read_text(encoding="utf-8").format(**CODES, **places, **entries)
    return Image(bytes(module.serialize()), driver, memory, used, scratch, begun)

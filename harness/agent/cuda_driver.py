"""The CUDA driver API through cuda-bindings: every call in one place, every error by its name and number.

cuda-bindings asks the driver for its calls with cuGetProcAddress_v2, which came with CUDA 12.0: the floor is driver 525 (NVIDIA's
CUDA compatibility table). Only libcuda.so.1 is needed, no toolkit.
"""

import ctypes
import os
from typing import Any, Dict

from .trouble import Trouble

TOO_MANY_PEERS = 711
_FLOOR = 12000
_WRAPPER = "name a Python that has it in host.python, or a container in host.wrapper, of the bench file"


class CudaFailure(Exception):
    """A call failed: ``name`` is as in cuda.h, ``code`` its number."""

    def __init__(self, call: str, name: str, code: int) -> None:
        super().__init__("{}: {} ({})".format(call, name, code))
        self.call = call
        self.name = name
        self.code = code


class Cuda:
    """The driver, after ``open``. Contexts and memory belong to the process: whoever forks, forks before."""

    def __init__(self) -> None:
        self._api: Any = None

    def open(self) -> "Cuda":
        """Load the library and start the driver. Raises Trouble with what is missing and what to do."""
        try:
            from cuda.bindings import driver
        except ImportError as error:
            raise Trouble(
                "cuda-bindings", "it is not there: {}".format(error), "pip install cuda-bindings, or " + _WRAPPER
            ) from None
        self._api = driver
        # CUDA sorts by speed unless told otherwise, and then numbers mean nothing from one machine to the next
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        try:
            self.call("cuInit", 0)
            version = self.call("cuDriverGetVersion")
        except CudaFailure as failure:
            raise Trouble("CUDA driver", str(failure), "see what the gpu stage says") from None
        except Exception as error:
            why = "libcuda.so.1 cannot be loaded: {}".format(str(error).strip().splitlines()[0][:200] if str(error) else error)
            raise Trouble("CUDA driver", why, "install the nvidia driver, or " + _WRAPPER) from None
        if version < _FLOOR:
            why = "it speaks CUDA {}.{}".format(version // 1000, version % 1000 // 10)
            raise Trouble("CUDA driver", why, "cuda-bindings needs CUDA 12.0, which is driver 525 or later")
        return self

    def call(self, name: str, *arguments: Any) -> Any:
        """What the call gives: nothing, one value or several. Raises CudaFailure."""
        found = getattr(self._api, name)(*arguments)
        code = int(found[0])
        if code:
            raise CudaFailure(name, _name_of(found[0]), code)
        return found[1] if len(found) == 2 else found[1:]

    def cuda_version(self) -> str:
        """The version of CUDA that the driver speaks, as in ``12.2``."""
        version = int(self.call("cuDriverGetVersion"))
        return "{}.{}".format(version // 1000, version % 1000 // 10)

    def gpus(self) -> Dict[int, Dict[str, str]]:
        """Address, UUID and name of each GPU by CUDA's index. No context is made."""
        found = {}
        for index in range(int(self.call("cuDeviceGetCount"))):
            device = self.call("cuDeviceGet", index)
            address = _text(self.call("cuDeviceGetPCIBusId", 32, device)).lower()
            uuid = bytes(self.call("cuDeviceGetUuid", device).bytes).hex()
            found[index] = {
                "address": address,
                "uuid": "GPU-" + "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:])),
                "name": _text(self.call("cuDeviceGetName", 64, device)),
            }
        return found

    def can_access(self, source: int, target: int) -> bool:
        """What the driver says before any copy: may ``source`` address the memory of ``target``?"""
        devices = (self.call("cuDeviceGet", source), self.call("cuDeviceGet", target))
        return bool(self.call("cuDeviceCanAccessPeer", *devices))

    def has_nvlink(self, source: int, target: int) -> bool:
        """Are native atomics possible between the two? On this generation that means NVLink."""
        devices = (self.call("cuDeviceGet", source), self.call("cuDeviceGet", target))
        attribute = self._api.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
        return bool(self.call("cuDeviceGetP2PAttribute", attribute, *devices))

    def word(self) -> "HostWord":
        """A word of page-locked memory that every GPU can wait for."""
        portable, mapped = 1, 2
        return HostWord(int(self.call("cuMemHostAlloc", 4, portable | mapped)))

    def hold_until(self, stream: Any, word: "HostWord", value: int) -> None:
        """Keep what comes next in the stream from starting until the word is at least ``value``."""
        at_least = 0
        self.call("cuStreamWaitValue32", stream, word.address, value, at_least)

    def launch(self, function: Any, stream: Any, values: Any) -> None:
        """Start a kernel of 512 blocks of 256 threads; ``values`` are (value, ctypes type) in the order of its parameters."""
        arguments = (tuple(value for value, _ in values), tuple(kind for _, kind in values))
        self.call("cuLaunchKernel", function, 512, 1, 1, 256, 1, 1, 0, stream, arguments, 0)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the memory of the current context's GPU."""
        buffer = bytearray(size)
        self.call("cuMemcpyDtoH", (ctypes.c_char * size).from_buffer(buffer), address, size)
        return bytes(buffer)

    def write(self, address: int, data: bytes, stream: Any) -> None:
        """Write a few bytes to the memory of the stream's GPU, in the order of the stream."""
        self.call("cuMemcpyHtoDAsync", address, data, len(data), stream)

    def is_ready(self, event: Any) -> bool:
        """Has the event happened? Raises CudaFailure for what went wrong before it."""
        not_ready = 600
        code = int(self._api.cuEventQuery(event)[0])
        if code not in (0, not_ready):
            raise CudaFailure("cuEventQuery", _name_of(self._api.CUresult(code)), code)
        return code == 0


class HostWord:
    """A 32-bit word that program and GPUs share."""

    def __init__(self, address: int) -> None:
        self.address = address

    def set(self, value: int) -> None:
        """Let everything go on that waits for at most ``value``."""
        ctypes.c_uint32.from_address(self.address).value = value


def _name_of(result: Any) -> str:
    return str(getattr(result, "name", result))


def _text(raw: Any) -> str:
    return bytes(raw).split(b"\0")[0].decode("ascii", "replace").strip()

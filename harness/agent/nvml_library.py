"""NVML, the driver's library, through nvidia-ml-py: opened in one place, with the driver's own words where it says no."""

import contextlib
from types import TracebackType
from typing import Any, Callable, Dict, Optional, Type

from .trouble import Trouble

NOT_SUPPORTED = "Not Supported"
_ABSENT = "this version of the driver's library has no such call"
_ADVICE = {
    4: "run as root",
    9: "load the nvidia module: the kernel log says why it is not there",
    12: "install the nvidia driver's libraries (libnvidia-ml.so.1), or name a container with them in host.wrapper of the bench",
    18: "reboot, or reload the nvidia modules: the driver was updated under a running kernel",
}
"""What to do by NVML's error number (nvml.h): no permission, no driver, no library, version mismatch."""


class Nvml:
    """The opened library, for a ``with``. Raises Trouble where nvidia-ml-py is missing or the driver does not answer."""

    def __init__(self) -> None:
        self._module: Any = None

    def __enter__(self) -> "Nvml":
        try:
            import pynvml
        except ImportError as error:
            raise Trouble("NVML", "nvidia-ml-py is not there: {}".format(error), "pip install nvidia-ml-py") from None
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise Trouble("NVML", str(error), _ADVICE.get(error.value, "see what the kernel log says of NVRM")) from None
        self._module = pynvml
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        # a lost GPU can make even this fail; nothing is left open that the end of the process does not close
        with contextlib.suppress(self._module.NVMLError):
            self._module.nvmlShutdown()

    def call(self, name: str, *arguments: Any) -> Any:
        """What ``nvml<name>`` answers. Raises Refused with the driver's words."""
        try:
            found = getattr(self._module, "nvml" + name)(*arguments)
        except self._module.NVMLError_FunctionNotFound:
            raise Refused(_ABSENT) from None
        except self._module.NVMLError as error:
            raise Refused(str(error)) from None
        except AttributeError:
            raise Refused(_ABSENT) from None
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found

    def handle(self, index: int) -> Any:
        """The GPU of that index. Raises Refused where the driver cannot open it."""
        return self.call("DeviceGetHandleByIndex", index)


class Refused(Exception):
    """The driver's reason, in its own words."""


class Notes:
    """The fields of one GPU: what the driver gives, and why it gives no others."""

    def __init__(self) -> None:
        self.given: Dict[str, Any] = {}
        self.unread: Dict[str, str] = {}

    def take(self, read: Callable[[], Dict[str, Any]], *names: str) -> None:
        """Take the fields that ``read`` returns, or note for all of ``names`` why there are none."""
        try:
            self.given.update(read())
        except Refused as refusal:
            self.unread.update((name, str(refusal)) for name in names)

"""From the agent's JSON lines and the kernel log to one Snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.devices.host import Host
from harness.devices.pcie.config_space import decode_config
from harness.devices.pcie.facts import Function, HostFacts, IommuGroup, Link, PhysicalSlot, Snapshot, Unread
from harness.devices.pcie.kernel_log import parse_kernel_log
from harness.devices.pcie.registers import LEGACY_SIZE
from harness.devices.pcie.resources import Bar, RootWindow
from harness.errors import BenchError, CommandFailed, DeviceError

_WINDOWS = 4
_FIRST_WINDOW = 13


def read_snapshot(host: Host) -> Snapshot:
    """Read the tree and the kernel log. A kernel log that cannot be read is noted as unread.

    Raises BenchError where the agent cannot do its work, CommandFailed or DeviceError where it breaks off.
    """
    objects = host.agent("pci")
    try:
        log = host.kernel_log()
    except CommandFailed as failed:
        why = failed.tail or f"dmesg ended with status {failed.status}"
        return parse_snapshot((*objects, _unread_line("the kernel log", why, "run as root on the host itself")))
    return parse_snapshot(objects, log)


def parse_snapshot(objects: Iterable[Mapping[str, Any]], kernel_log: Sequence[str] | None = None) -> Snapshot:
    """Read the objects of the agent's ``pci`` worker and the lines of ``dmesg``; None where there is no log to read.

    Raises BenchError for an error object, DeviceError for an object that is not what the worker prints.
    """
    functions: list[Function] = []
    slots: list[PhysicalSlot] = []
    windows: list[RootWindow] = []
    unread: list[Unread] = []
    host = HostFacts()
    for line in objects:
        try:
            match line.get("kind"):
                case "function":
                    functions.append(_function(line))
                case "slot":
                    slots.append(PhysicalSlot(line["name"], line["address"]))
                case "window":
                    windows.append(RootWindow(line["root"], line["start"], line["end"], line["space"] == "io"))
                case "unread":
                    unread.append(Unread(line["what"], line["why"], line["do"], tuple(line["of"])))
                case "host":
                    host = _host(line)
                case "error":
                    raise BenchError(f"agent pci: {line['what']}: {line['why']}{'; ' + line['do'] if line['do'] else ''}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DeviceError(f"agent pci: a {line.get('kind')} line is not as expected: {error!r}") from error
    functions.sort(key=lambda function: function.bdf)
    log = parse_kernel_log(kernel_log or ())
    if kernel_log is not None and not log.reaches_boot:
        unread.append(Unread("the kernel log of the boot", "newer lines have overwritten it", "boot with log_buf_len=4M"))
    unread.extend(_unreachable(functions))
    return Snapshot(tuple(functions), host, tuple(slots), tuple(windows), tuple(unread), log)


def _host(line: Mapping[str, Any]) -> HostFacts:
    return HostFacts(
        kernel=line["kernel"],
        uid=line["uid"],
        python=line["python"],
        command_line=line["command_line"],
        boot_id=line["boot_id"],
        machine=line["machine"],
        serial=line.get("serial", ""),
        iommus=tuple(line["iommus"]),
    )


def _function(line: Mapping[str, Any]) -> Function:
    group = line["iommu_group"]
    node = line["numa_node"]
    length = line["config_length"]
    return Function(
        bdf=line["bdf"],
        path=line["path"],
        parent=line["parent"],
        vendor=line["vendor"],
        device=line["device"],
        subsystem_vendor=line["subsystem_vendor"],
        subsystem_device=line["subsystem_device"],
        class_code=line["class"],
        revision=line["revision"],
        bars=bars_of(line["resource"], is_bridge=line["class"].startswith("0604")),
        link=Link(**line["link"]),
        numa_node=None if node is None or node < 0 else node,
        local_cpulist=line["local_cpulist"],
        iommu_group=None if group is None else IommuGroup(group["id"], group["type"]),
        driver=line["driver"],
        power_state=line["power_state"],
        enabled=None if line["enable"] is None else line["enable"] > 0,
        secondary_bus=line["secondary_bus"],
        subordinate_bus=line["subordinate_bus"],
        aer=line["aer"],
        sriov_total=line["sriov_total"],
        sriov_enabled=line["sriov_enabled"],
        physical=line["physical"],
        config=None if line["config"] is None else decode_config(bytes.fromhex(line["config"]).ljust(length, b"\0")),
    )


def bars_of(resources: Sequence[Sequence[int]], *, is_bridge: bool) -> tuple[Bar, ...]:
    """The resources that are there, numbered as in kernel messages.

    A kernel built without SR-IOV has no lines for VF BARs, so a bridge's windows are its last four lines in any case
    (Linux drivers/pci/pci-sysfs.c ``resource_show()``, include/linux/pci.h).
    """
    first_window = len(resources) - _WINDOWS if is_bridge and len(resources) > 7 else len(resources)
    bars = (
        Bar(index if index < first_window else _FIRST_WINDOW + index - first_window, *resource)
        for index, resource in enumerate(resources)
    )
    return tuple(bar for bar in bars if bar.start or bar.end or bar.flags)


def _unreachable(functions: Sequence[Function]) -> list[Unread]:
    """PCI Express functions whose extended configuration space root did not get either."""
    cut = tuple(
        function.bdf
        for function in functions
        if function.config is not None and function.config.express is not None and len(function.config.raw) == LEGACY_SIZE
    )
    if not cut:
        return []
    why = "the kernel gives only 256 bytes, so it has no memory-mapped configuration space"
    return [Unread("extended configuration space", why, "check for pci=nommconf and the firmware's MCFG table", cut)]


def _unread_line(what: str, why: str, do: str) -> Mapping[str, Any]:
    return {"kind": "unread", "what": what, "of": [], "why": why, "do": do}

"""Faults of the GPUs, of the copies between them and of training on them, and what looks like one and is none.

What each one hits stands in ``harness.lab.model``: ``nvml``, ``p2p``, ``resnet50`` and, for the driver, ``driver``. All of them
leave the PCIe tree of the named slots healthy. Choices that need a word:

* **Wrong copies and training.** The corrupt pairs are no neighbours in the ring that the all-reduce uses, so training does not
  see them: passing ResNet-50 does not prove peer-to-peer copies.
* **A GPU that falls off the bus** during the copies is not there for the training either; the others train without it.
* **Replays** show at rest and under load.
"""

from __future__ import annotations

from harness.errors import Blame
from harness.lab.fault import Fault

_RULES = "field rules of the lab: what has gone wrong on benches before"

_GPU = (
    Fault(
        "gpu.driver-bound.nouveau",
        "nouveau holds all GPUs.",
        "gpu.driver-bound",
        "the NVIDIA driver's own message that nouveau obtained ownership of the devices (mattshma/bigdata#133)",
        consequences=("gpu.nvml",),
    ),
    Fault(
        "gpu.driver-bound.signature",
        "Secure Boot is on and nvidia.ko is unsigned: the kernel refuses it, and nothing holds the GPUs.",
        "gpu.driver-bound",
        "Linux security/lockdown and kernel/module/signing.c",
        consequences=("gpu.nvml",),
    ),
    Fault(
        "gpu.nvml",
        "The driver was updated under a running kernel: NVML refuses to start (driver/library version mismatch).",
        "gpu.nvml",
        "nvml.h, NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    ),
    Fault(
        "gpu.nvml-count",
        "The driver cannot start the GPU in jbogB/slot07: RmInitAdapter fails, NVML cannot open it.",
        "gpu.nvml-count",
        "NVIDIA/open-gpu-kernel-modules#789, NVIDIA/gpu-operator#649",
    ),
    Fault(
        "gpu.unexpected",
        "A GPU sits in an eleventh port of jbogA, which neither the platform nor the bench names.",
        "gpu.unexpected",
        _RULES,
    ),
    Fault(
        "gpu.memory",
        "One of twelve memory partitions of the GPU in jbogB/slot09 is off: eleven twelfths of its memory are there.",
        "gpu.memory",
        _RULES,
    ),
    Fault(
        "gpu.ecc",
        "The GPU in jbogA/slot06 had a double-bit error: one uncorrected, a page waits for its retirement.",
        "gpu.ecc",
        "NVIDIA's dynamic page retirement documentation",
    ),
    Fault(
        "gpu.xids",
        "The driver reported Xid 48 (an uncorrectable memory error) of the GPU in jbogA/slot04 since the start; it works again.",
        "gpu.xids",
        "NVIDIA's Xid documentation",
    ),
    Fault(
        "gpu.replay-rate",
        "The link of jbogB/slot01 replays eighty packets a minute.",
        "gpu.replay-rate",
        "NVIDIA/DCGM diag-skus.yaml: more than 80 replays fail its PCIe test",
        consequences=("p2p.link-under-load", "resnet50.watched"),
    ),
    Fault(
        "gpu.alike",
        "The GPU in jbogA/slot09 has an older VBIOS than the others.",
        "gpu.alike",
        "facebookresearch/gcm checks for VBIOS mismatches",
    ),
)

_VIEWS = (
    Fault(
        "gpu.four-view",
        "The driver reads another serial number from the GPU in jbogA/slot08 than fabric and system have.",
        "gpu.four-view",
        _RULES,
    ),
)

_P2P = (
    Fault(
        "p2p.preflight",
        "An X server holds five peers of the GPU in jbogA/slot01: three are left of eight.",
        "p2p.preflight",
        "NVIDIA/nccl#241, tensorflow/tensorflow#30887",
        Blame.BENCH,
    ),
    Fault(
        "p2p.watchdog",
        "The copy from jbogA/slot02 to jbogB/slot03 hangs: Xid 79, the target fell off the bus. All other pairs go on.",
        "p2p.watchdog",
        "NVIDIA/open-gpu-kernel-modules#507; NVIDIA/nccl#606: a hang on one pair",
    ),
    Fault(
        "p2p.integrity.dropped",
        "Peer writes from jbogA/slot04 to jbogB/slot06 are dropped without an error; the other way is clean.",
        "p2p.integrity",
        "CAPS-UMU/FIDESlib#28: enabling peer access makes writes vanish, disabling it heals",
    ),
    Fault(
        "p2p.integrity.misrouted",
        "What jbogB/slot02 writes to jbogB/slot05 arrives in part as data of jbogB/slot08.",
        "p2p.integrity",
        _RULES,
    ),
    Fault(
        "p2p.path.staged",
        "Every copy from jbogA/slot03 silently goes through host memory, at 11 GB/s.",
        "p2p.path",
        "host-staged copies of eight TITAN RTX at 9.9 to 11.4 GB/s and 12.8 to 14.4 us (wohlbier/gpu-micro)",
    ),
    Fault(
        "p2p.path.impossible",
        "The copy from jbogB/slot04 to jbogB/slot10 is timed at 103.88 GB/s.",
        "p2p.path",
        "NVIDIA/cuda-samples#390",
    ),
    Fault(
        "p2p.path.one-line",
        "Between jbogA/slot05 and jbogA/slot09 both directions go over one line: each alone is healthy, together they halve.",
        "p2p.path",
        "voipmonitor/rtx6kpro: 50 instead of 103 GB/s both ways with ACS redirects on",
    ),
    Fault(
        "p2p.loopback",
        "A bit flips in copies within the memory of the GPU in jbogA/slot06.",
        "p2p.loopback",
        _RULES,
    ),
    Fault(
        "p2p.link-under-load",
        "The link of jbogA/slot08 stays at 2.5 GT/s under load.",
        "p2p.link-under-load",
        "local-inference-lab/rtx6kpro#88: a card stuck below its speed for hours",
        consequences=("resnet50.watched",),
    ),
    Fault(
        "p2p.link-under-load.hot",
        "The GPU in jbogB/slot02 reaches 95 C and is slowed down by its hardware.",
        "p2p.link-under-load",
        "leptonai/gpud counts slowdowns by the hardware",
        consequences=("resnet50.watched",),
    ),
    Fault(
        "p2p.contention",
        "Writes of several GPUs below jbogB collapse to 7 % together; each alone, and reads, are healthy.",
        "p2p.contention",
        "voipmonitor/rtx6kpro: 37 to 2.7 GB/s for writes only",
    ),
)

_RESNET50 = (
    Fault(
        "resnet50.hash",
        "The GPU in jbogB/slot04 computes other bits than the rest from the same seeded steps.",
        "resnet50.hash",
        "microsoft/superbenchmark compares deterministic training runs for this reason",
    ),
    Fault(
        "resnet50.straggler",
        "The GPU in jbogA/slot07 runs hot and at 90 % of the others' rate.",
        "resnet50.straggler",
        "NVIDIA/nccl#893, pytorch/pytorch#46874",
        consequences=("resnet50.watched",),
    ),
    Fault(
        "resnet50.watched.power",
        "The power brake slows the GPU in jbogA/slot04 down for moments, too short to cost it its rate.",
        "resnet50.watched",
        "pytorch/pytorch#85334: a power cable",
    ),
    Fault(
        "resnet50.watched.xid",
        "The driver reports Xid 92 (many single-bit errors) of the GPU in jbogB/slot06 while it trains.",
        "resnet50.watched",
        "NVIDIA's Xid documentation",
    ),
    Fault(
        "resnet50.nan",
        "The loss on the GPU in jbogB/slot08 is no number from step 41 on, everywhere from step 42 on.",
        "resnet50.nan",
        "tensorflow/tensorflow#105552",
    ),
    Fault(
        "resnet50.ranks",
        "The rank on jbogA/slot10 ends with other parameters than the rest, and its sums are wrong.",
        "resnet50.ranks",
        "pytorch/pytorch#84803",
    ),
    Fault(
        "resnet50.spread",
        "The windows of the training run differ by 6 %.",
        "resnet50.spread",
        "lambdal/lambda-tensorflow-benchmark: badly scaling runs spread by 4.2 to 10.9 %, healthy ones by 1.7 % at most",
    ),
    Fault(
        "resnet50.efficiency",
        "Twenty GPUs together are only sixteen times as fast as one: the all-reduce goes through host memory.",
        "resnet50.efficiency",
        "NVIDIA/nccl src/graph/paths.cc: no peer access across a host bridge by default",
    ),
    Fault(
        "resnet50.floor",
        "All is even and scales, and the total is 12,600 images/s with the very software that reaches 15,000.",
        "resnet50.floor",
        "lambdal/deeplearning-benchmark: 632 images/s a GPU with the PyTorch of 2020",
    ),
)

_BENIGN = (
    Fault(
        "benign.ninth-peer",
        "Each GPU's probe asks for a ninth peer and gets error 711: the limit, not a fault.",
        None,
        "CUDA programming guide: eight peers a device, system-wide, without NVSwitch",
    ),
    Fault(
        "benign.old-replays",
        "The replay counter of jbogA/slot05 stands at 150 and does not move.",
        None,
        _RULES,
    ),
    Fault(
        "benign.xid-of-a-program",
        "A program on jbogA/slot05 touched memory that it does not have: Xid 31, which says nothing of the GPU.",
        None,
        "NVIDIA's Xid documentation",
    ),
    Fault(
        "benign.nvml-not-supported",
        "NVML does not support serial number, aperture, power, clocks reasons or page retirement on these cards.",
        None,
        "nvml.h, NVML_ERROR_NOT_SUPPORTED",
    ),
    Fault(
        "benign.nvlink-pair",
        "An NVLink bridge joins jbogA/slot01 and jbogA/slot02: 47 GB/s, three times what PCIe carries.",
        None,
        "lambdal/lambda-tensorflow-benchmark has RTX 8000 with NVLink bridges; NVIDIA's data sheet: 100 GB/s both ways",
    ),
)

FAULTS: tuple[Fault, ...] = (*_GPU, *_VIEWS, *_P2P, *_RESNET50, *_BENIGN)

"""The worker with ranks on the processor that say they sit on GPUs of a fake NVML: those are watched while they train.

python _watched.py [ARGUMENT ...]      what it starts is ``python _watched.py --rank``
"""

import os
import sys


def main():
    if sys.argv[1] == "--rank":
        from harness.agent.resnet50 import rank

        facts_of = rank.facts_of
        uuid = f"GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae{int(os.environ['RANK']):02x}"
        rank.facts_of = lambda device: dict(facts_of(device), uuid=uuid)
        rank.main()
    from harness.agent.__main__ import main as work
    from harness.agent.resnet50 import crew, pytorch

    crew.rank_command = lambda: [sys.executable, "-B", __file__, "--rank"]
    pytorch.is_watched = lambda options: True
    sys.exit(work(["resnet50", *sys.argv[1:]]))


if __name__ == "__main__":
    main()

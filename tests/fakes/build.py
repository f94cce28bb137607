"""Compile the fake driver libraries: ``python tests/fakes/build.py FOLDER`` puts libcuda.so.1 and libnvidia-ml.so.1 there."""

import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = {"libcuda.so.1": "fake_libcuda.c", "libnvidia-ml.so.1": "fake_libnvidia_ml.c"}


def main() -> int:
    """Exit status 3 where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        sys.stderr.write("no C compiler here (cc): the fake driver libraries cannot be made\n")
        return 3
    here, folder = Path(__file__).parent, Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in SOURCES.items():
        subprocess.run([compiler, "-O2", "-fPIC", "-shared", "-o", str(folder / name), str(here / source)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

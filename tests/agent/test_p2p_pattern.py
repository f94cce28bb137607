"""The pattern, the kernels that write and compare it, and what wrong words tell."""

import re
import shutil
import struct
import subprocess

import pytest

from harness.agent.p2p_pattern import CLEAN, TALLY, Seeds, classify, mix, ptx

UUIDS = {gpu: f"GPU-{gpu}" for gpu in range(4)}
COUNT = 64
PTXAS = shutil.which("ptxas")


def seeds():
    made = Seeds(1, UUIDS)
    for source in UUIDS:
        for target in UUIDS:
            made.of(source, target, "write", 4 * COUNT)
    return made


def words(seed, start=0, count=COUNT):
    return [mix(index, seed) for index in range(start, start + count)]


def told(got, *, count=None, start=0, made=None):
    made = made or seeds()
    right, poison = made.of(0, 1, "write", 4 * COUNT), made.of(0, 1, "poison", 0)
    wrong = sum(word != mix(start + place, right) for place, word in enumerate(got)) if count is None else count
    window = struct.pack(f"<{len(got)}I", *got)
    return classify(window, start, wrong, right=right, poison=(poison, 1024), seeds=made)


def test_no_two_pairs_sizes_directions_or_places_have_the_same_words():
    made = Seeds(1, UUIDS)
    found = [made.of(a, b, way, size) for a in UUIDS for b in UUIDS for way in ("write", "read") for size in (4, 4096)]
    assert len(set(found)) == len(found)
    assert len({word for seed in found for word in words(seed)}) > 0.999 * COUNT * len(found)
    assert Seeds(2, UUIDS).of(0, 1, "write", 4) != found[2]


def test_zeros_and_ones_are_told():
    assert told([0] * COUNT) == {"class": "zero"}
    assert told([0xFFFFFFFF] * COUNT) == {"class": "all ones"}


def test_the_targets_own_pattern_means_a_dropped_write():
    made = seeds()
    assert told(words(made.of(0, 1, "poison", 0), 1024), made=made) == {"class": "dropped"}
    assert told(words(made.of(0, 1, "poison", 0), 1024 + 10, 20), start=10, made=made) == {"class": "dropped"}


def test_the_pattern_of_another_pair_names_its_gpu():
    made = seeds()
    assert told(words(made.of(3, 2, "write", 4 * COUNT)), made=made) == {"class": "misrouted", "of": 3}


def test_the_right_words_in_the_wrong_place_are_shifted():
    right = words(seeds().of(0, 1, "write", 4 * COUNT), 0, 100)
    assert told(right[16 : 16 + COUNT]) == {"class": "shifted"}
    assert told(right[4:8] * 16, start=0)["class"] == "other"


@pytest.mark.parametrize("bit", [0, 31])
def test_one_bit_is_a_single_bit_and_two_are_not(bit):
    right = words(seeds().of(0, 1, "write", 4 * COUNT))
    assert told([right[0] ^ 1 << bit, *right[1:]]) == {"class": "single bit"}
    assert told([right[0] ^ 1 << bit ^ 2, *right[1:]])["class"] == ("single bit" if bit == 1 else "other")
    assert told([right[0] ^ 1, right[1] ^ 1, *right[2:]])["class"] == "other"


def test_the_kernels_are_text_for_old_and_new_gpus():
    text = ptx()
    assert text.endswith(b"\0")
    assert b".target sm_50" in text


@pytest.mark.skipif(PTXAS is None, reason="no ptxas here (it comes with the CUDA toolkit): the kernels are not assembled")
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_the_kernels_are_assembled_for_turing_and_hopper(target, tmp_path):
    source = tmp_path / "kernels.ptx"
    source.write_bytes(ptx()[:-1])
    done = subprocess.run([PTXAS, f"-arch={target}", source, "-o", tmp_path / "kernels"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


class Gpu:
    """Runs the few PTX instructions that the kernels have, one thread after the other."""

    THREADS, BLOCKS = 4, 2

    def __init__(self, kernel):
        body = re.search(rf"\.entry {kernel}\((.*?)\)\s*\{{(.*?)\n\}}", ptx().decode(), re.DOTALL)
        lines = [line.strip().rstrip(";") for line in body.group(2).splitlines()]
        self.code = [line for line in lines if line and not line.startswith(".reg")]
        self.memory = {}

    def run(self, *parameters):
        for block in range(self.BLOCKS):
            for thread in range(self.THREADS):
                self._thread(parameters, {"%ctaid.x": block, "%ntid.x": self.THREADS, "%tid.x": thread, "%nctaid.x": self.BLOCKS})

    def _thread(self, parameters, values):
        at = 0
        while True:
            line = self.code[at]
            at += 1
            guard = re.match(r"@(%p\d) (.*)", line)
            if guard:
                if not values[guard.group(1)]:
                    continue
                line = guard.group(2)
            if line.endswith(":"):
                continue
            name, _, rest = line.partition(" ")
            operands = [operand.strip() for operand in rest.split(",")]
            if name == "ret":
                return
            if name == "bra":
                at = self.code.index(f"{operands[0]}:")
                continue
            self._do(name, operands, parameters, values)

    def _do(self, name, operands, parameters, values):
        def value(text):
            return values[text] if text.startswith("%") else int(text, 0)

        def place(text):
            register, _, offset = text.strip("[]").partition("+")
            return value(register) + int(offset or 0)

        mask = 0xFFFFFFFFFFFFFFFF if name.endswith("64") or ".wide" in name else 0xFFFFFFFF
        kind = name.split(".")[0]
        if name.startswith("ld.param"):
            values[operands[0]] = parameters[int(operands[1].strip("[]p"))]
        elif name.startswith("ld.global"):
            values[operands[0]] = self.memory[place(operands[1])]
        elif name.startswith("st.global"):
            self.memory[place(operands[0])] = value(operands[1])
        elif kind == "atom":
            change = {"add": lambda a, b: a + b, "min": min, "max": max, "or": lambda a, b: a | b}[name.split(".")[2]]
            self.memory[place(operands[1])] = change(self.memory[place(operands[1])], value(operands[2])) & 0xFFFFFFFF
        elif kind == "setp":
            a, b = value(operands[1]), value(operands[2])
            values[operands[0]] = a >= b if ".ge" in name else a == b
        else:
            numbers = [value(operand) for operand in operands[1:]]
            done = {
                "mov": lambda a: a, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "mad": lambda a, b, c: a * b + c,
                "xor": lambda a, b: a ^ b, "shr": lambda a, b: a >> b,
            }[kind](*numbers)  # fmt: skip
            values[operands[0]] = done & mask


SEED = (0x12345678, 0x9ABCDEF0)


def test_the_kernel_fill_writes_the_pattern_and_nothing_else():
    gpu = Gpu("fill")
    gpu.run(1000, 21, 7, *SEED)
    assert gpu.memory == {1000 + 4 * index: mix(index + 7, SEED) for index in range(21)}


def test_the_kernel_check_counts_the_wrong_words_and_says_where_they_are():
    gpu = Gpu("check")
    gpu.memory = {1000 + 4 * index: mix(index + 7, SEED) for index in range(21)}
    gpu.memory |= dict(zip((0, 4, 8, 12), TALLY.unpack(CLEAN), strict=True))
    gpu.run(1000, 21, 7, *SEED, 0)
    assert [gpu.memory[place] for place in (0, 4, 8, 12)] == [0, 0xFFFFFFFF, 0, 0]
    gpu.memory[1000 + 4 * 3] ^= 0x10
    gpu.memory[1000 + 4 * 17] ^= 0x400
    gpu.run(1000, 21, 7, *SEED, 0)
    assert [gpu.memory[place] for place in (0, 4, 8, 12)] == [2, 3, 17, 0x410]

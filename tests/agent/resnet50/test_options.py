import pytest

from harness.agent.resnet50.options import choose_batch, choose_precision, read_options
from harness.agent.trouble import Trouble

GIB = 2**30


def test_without_arguments_every_gpu_trains_at_full_size():
    options = read_options([])
    assert (options.framework, options.device, options.ranks, options.windows, options.pixels) == ("pytorch", "cuda", 0, 12, 224)
    assert read_options(["--device", "cpu"]).pixels == 64


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--windows", "0"], "--windows 0 cannot be meant"),
        (["--windows", "many"], "invalid int value: 'many'"),
        (["--steps", "0"], "--steps 0"),
        (["--ranks", "-1"], "--ranks -1"),
        (["--size", "31"], "five halvings"),
        (["--size", "32", "--batch", "1"], "one value a channel"),
        (["--device", "cpu", "--precision", "fp16"], "fp16 is for GPUs"),
        (["--compiler", "xla"], "inductor"),
        (["--framework", "tensorflow", "--compiler", "inductor"], "xla"),
        (["--framework", "mxnet"], "invalid choice: 'mxnet'"),
        (["--what"], "unrecognized arguments: --what"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused_with_one_line(arguments, why):
    with pytest.raises(Trouble) as refused:
        read_options(arguments)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("capabilities", "precision"),
    [
        ([(7, 5)] * 20, "fp16"),  # torch claims bf16 for Turing, and emulates it
        ([(9, 0), (8, 0)], "bf16"),
        ([(9, 0), (7, 5)], "fp16"),  # the weakest decides
        ([(6, 1)], "fp32"),
        ([(0, 0)], "fp32"),
        ([], "fp32"),
    ],
)
def test_the_precision_is_what_the_weakest_gpu_is_fast_in(capabilities, precision):
    assert choose_precision("auto", capabilities) == precision


def test_a_precision_that_is_asked_for_is_taken():
    assert choose_precision("fp32", [(9, 0)]) == "fp32"


def test_the_batch_fits_the_smallest_gpu():
    options = read_options([])
    assert choose_batch(options, [48 * GIB, 46 * GIB]) == 256
    assert choose_batch(options, [48 * GIB, 16 * GIB]) == 128
    assert choose_batch(options, [8 * GIB]) == 64
    assert choose_batch(read_options(["--batch", "512"]), [8 * GIB]) == 512
    assert choose_batch(read_options(["--device", "cpu"]), [0, 0]) == 4

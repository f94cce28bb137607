"""What nvidia-smi says of pairs of GPUs, against itself, against the tree and against an earlier sample."""

import random


def test_a_table_that_agrees_with_the_tree_says_nothing(mailed):
    analysis = mailed.analysed(mailed.machine(3), mailed.topology("PIX", "PIX PIX"))
    assert mailed.told(analysis, "topology") == ""


def test_sys_between_gpus_that_share_a_switch_fails(mailed):
    analysis = mailed.analysed(mailed.machine(3), mailed.topology("SYS", "SYS SYS"))
    assert mailed.faults(analysis) == ["topology"]
    words = mailed.told(analysis, "topology")
    assert "share a switch in the tree" in words
    assert "GPU0-GPU1 SYS" in words
    assert "3 pairs" in words


def test_pxb_for_gpus_behind_one_switch_warns(mailed):
    alone = mailed.analysed(mailed.machine(3), mailed.topology("PXB", "PXB PXB"))
    assert (mailed.faults(alone), mailed.warnings(alone)) == ([], ["topology"])
    assert "PXB for PIX" in mailed.told(alone, "topology")


def test_without_a_tree_two_gpus_that_share_a_switch_with_a_third_cannot_be_sockets_apart(mailed):
    analysis = mailed.analysed(mailed.topology("PIX", "SYS PIX", "SYS SYS SYS"))
    assert mailed.faults(analysis) == ["topology"]
    assert "GPU0-GPU2 SYS, though PIX and PIX to GPU1" in mailed.told(analysis, "topology")


def test_a_table_that_says_another_thing_from_each_side_only_warns(mailed):
    text = mailed.topology("PIX", "PIX PIX").replace("GPU2\t PIX ", "GPU2\t SYS ")
    analysis = mailed.analysed(text)
    assert (mailed.faults(analysis), mailed.warnings(analysis)) == ([], ["topology"])
    assert "GPU0-GPU2 PIX and SYS" in mailed.told(analysis, "topology")


def test_a_pair_that_moved_apart_since_the_sample_before_is_named(mailed):
    before, after = mailed.topology("PIX", "SYS SYS", "SYS SYS PIX"), mailed.topology("PIX", "SYS SYS", "SYS SYS SYS")
    analysis = mailed.analysed(before, after)
    assert mailed.faults(analysis) == ["topology"]
    assert "PIX before, SYS now" in mailed.told(analysis, "topology")
    assert "GPU2-GPU3" in mailed.told(analysis, "topology")
    assert mailed.faults(mailed.analysed(after, before)) == [], "nearer than before is no loss"


def test_nvlink_hides_how_far_apart_a_pair_is(mailed):
    assert mailed.faults(mailed.analysed(mailed.topology("NV2", "SYS NV2"))) == []
    assert mailed.faults(mailed.analysed(mailed.machine(2), mailed.topology("NV4"))) == []


def test_a_table_of_another_number_of_gpus_is_not_laid_over_the_tree(mailed):
    assert mailed.faults(mailed.analysed(mailed.machine(3), mailed.topology("SYS"))) == []


def test_every_table_that_comes_from_a_tree_is_free_of_contradictions(mailed):
    dice = random.Random(12)
    for _ in range(40):
        gpus = [tuple(dice.randrange(3) for _ in range(4)) for _ in range(dice.randint(2, 8))]
        rows = [" ".join(level_of(gpus[number], gpus[other]) for other in range(number)) for number in range(1, len(gpus))]
        assert mailed.told(mailed.analysed(mailed.topology(*rows)), "topology") == ""


def level_of(one, other):
    """The level of two GPUs, each placed by socket, host bridge, switch and port."""
    names = ["SYS", "NODE", "PHB", "PXB", "PIX"]
    return names[next((depth for depth in range(4) if one[depth] != other[depth]), 4)]

import pytest

pytestmark = pytest.mark.slow  # importing PyTorch takes seconds


def test_every_rank_and_every_place_has_another_pattern(torch, part):
    pattern = part("exchange").pattern
    patterns = [pattern(rank, "cpu") for rank in range(20)]
    for rank, own in enumerate(patterns):
        assert len(own[:1000].unique()) > 200
        assert not any((own == other).float().mean() > 0.02 for other in patterns[:rank])


def test_sums_over_many_ranks_are_held_exactly(torch, part):
    pattern = part("exchange").pattern
    exact = sum(pattern(rank, "cpu").long() for rank in range(64))
    assert torch.equal(sum(pattern(rank, "cpu") for rank in range(64)).long(), exact)


def test_channels_are_counted_by_the_way_they_go(torch, part):
    log = """
node:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
node:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/direct pointer
node:1:2 [0] NCCL INFO Channel 00 : 1[41000] -> 2[81000] via SHM/direct/direct
node:1:2 [0] NCCL INFO Channel 00/0 : 2[2] -> 3[3] [send] via NET/Socket/0
node:1:2 [0] NCCL INFO Channel 00/02 :    0   1   2   3
node:1:2 [0] NCCL INFO Connected all rings
"""
    assert part("exchange").count_channels(log) == {"p2p": 2, "shm": 1, "net": 1}
    assert part("exchange").count_channels("") == {"p2p": 0, "shm": 0, "net": 0}

"""A failure's message taken apart: what a person must read first, the cause, the next step."""

from __future__ import annotations

from harness.report.account import take_apart

LOST = """jbogB/slot07 (serial 99) is lost at its link
    chain   expected 20 > links up 19
    where   pci0000:d7/00.0
    seen    SltSta PresDet+, LnkSta DLActive-
    likely  the card in the slot does not train
    next    reseat the card"""

CORRUPT = """jbogB/slot02 -> jbogB/slot05 p2p.bad-bytes = 2 MiB  [0 B]  FAIL
DATA CORRUPTION jbogB/slot02 -> jbogB/slot05: do not use
  write: the data of another GPU arrived"""


def test_the_lines_of_a_loss_are_told_apart():
    account = take_apart(LOST)
    assert account.said == "jbogB/slot07 (serial 99) is lost at its link"
    assert (account.seen, account.likely, account.next) == (
        "SltSta PresDet+, LnkSta DLActive-",
        "the card in the slot does not train",
        "reseat the card",
    )
    assert not account.is_alarm
    assert account.short == f"{account.said} Likely: {account.likely}"


def test_data_corruption_comes_before_the_violated_limit():
    account = take_apart(CORRUPT)
    assert account.is_alarm
    assert account.said.startswith("DATA CORRUPTION")
    assert account.rest.startswith("jbogB/slot02 -> jbogB/slot05 p2p.bad-bytes")


def test_a_violated_limit_is_told_with_what_explains_it():
    account = take_apart(
        "resnet50.total = 12600 images/s  [>= 15000]  FAIL\nresnet50.median = 630  [>= 750]  FAIL\nthe software path"
    )
    assert account.said.startswith("resnet50.total = 12600")
    assert account.why == "the software path"
    assert account.short.endswith("FAIL: the software path")


def test_a_next_step_on_a_line_of_its_own_is_found():
    assert take_apart("no progress in POST\nnext: ForceOff, then detach the GPUs").next == "ForceOff, then detach the GPUs"


def test_no_message_is_said_to_be_none():
    assert take_apart("").said == take_apart(" \n ").said == "failed without a message"


def test_a_long_sentence_is_cut_in_a_list_and_says_so():
    assert len(take_apart("x" * 5000).short) < 200
    assert take_apart("x" * 5000).short.endswith(" ...")

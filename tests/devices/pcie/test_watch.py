"""Links and corrected errors over some seconds, as a host prints them."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.devices.pcie.watch import SCRIPT, changes, parse_watch
from harness.errors import DeviceError

TEXT = """at 100.50
0000:3b:00.0/current_link_width:16
0000:3b:00.0/current_link_speed:8.0 GT/s PCIe
0000:3b:00.0/aer_dev_correctable:TOTAL_ERR_COR 150
0000:3c:00.0/current_link_width:63
0000:3c:00.0/current_link_speed:Unknown
at 103.50
0000:3b:00.0/current_link_width:8
0000:3b:00.0/current_link_speed:2.5 GT/s
0000:3b:00.0/aer_dev_correctable:TOTAL_ERR_COR 153
"""


def test_samples_come_with_their_times_and_values():
    watch = parse_watch(TEXT)
    assert [sample.at for sample in watch.samples] == [100.5, 103.5]
    assert watch.seconds == 3.0
    assert watch.widths("0000:3b:00.0") == (16, 8)
    assert watch.speeds("0000:3b:00.0") == (8.0, 2.5)


def test_a_rate_is_told_of_what_was_counted_twice_only():
    watch = parse_watch(TEXT)
    assert watch.errors_per_minute("0000:3b:00.0") == 60.0
    assert watch.errors_per_minute("0000:3c:00.0") is None
    assert parse_watch(TEXT.split("at 103.50", maxsplit=1)[0]).errors_per_minute("0000:3b:00.0") is None


def test_a_function_that_reads_all_ones_has_no_width_and_no_speed():
    watch = parse_watch(TEXT)
    assert (watch.widths("0000:3c:00.0"), watch.speeds("0000:3c:00.0")) == ((), ())


def test_changes_are_counted_from_one_sample_to_the_next():
    assert [changes(values) for values in ((), (16,), (16, 16), (16, 8, 16), (16, 8, 8, 16))] == [0, 0, 0, 2, 2]


@pytest.mark.parametrize("text", ["", "sh: not found\n", "at noon\n0000:3b:00.0/current_link_width:16\n"])
def test_a_host_that_prints_no_sample_is_told_in_one_line(text):
    with pytest.raises(DeviceError, match="printed no sample"):
        parse_watch(text)


@given(st.text(max_size=80), st.integers(0, len(TEXT)))
@settings(max_examples=100, deadline=None)
def test_a_text_that_was_cut_or_damaged_never_raises_anything_else(noise, cut):
    watch = parse_watch(f"at 1.0\n{TEXT[:cut]}{noise}{TEXT[cut:]}")
    assert watch.samples[0].at == 1.0


@pytest.mark.skipif(not Path("/sys/bus/pci/devices").is_dir(), reason="needs a sysfs with a PCI bus")
def test_the_script_runs_in_a_plain_shell_and_samples_as_often_as_asked():
    ran = subprocess.run(["sh", "-c", SCRIPT.format(count=3, every="0.01")], capture_output=True, text=True, check=True)
    assert len(parse_watch(ran.stdout).samples) == 3

"""The whole command against a host over real ssh: this machine, on loopback, judged as it is judged from within."""

import shutil

import pytest

pytestmark = pytest.mark.socket


@pytest.fixture
def judged(bringup, sshd, tmp_path):
    """Run the PCIe stage on a bench drafted from this machine, as it is or over ssh to an address of the test's configuration."""
    folder, temp, programs = tmp_path / "lab", tmp_path / "t", tmp_path / "bin"
    done = bringup("bench", "new", "--from-live", "local", folder=folder)
    assert done.status == 0, done.out + done.err
    bench = folder / "fixtures" / "benches" / "local.toml"
    local = bench.read_text()
    assert 'via = "local"' in local
    temp.mkdir()
    programs.mkdir()
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {sshd.config} "$@"\n')
    (programs / "ssh").chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "TMPDIR": str(temp)}

    def run(address=""):
        bench.write_text(local.replace('via = "local"', f'via = "ssh"\naddress = "{address}"') if address else local)
        shutil.rmtree(folder / "reports", ignore_errors=True)
        done = bringup("run", "--bench", "local", "--live", "--stage", "pcie", folder=folder, env=environment)
        assert "Traceback" not in done.out + done.err
        assert not list(temp.glob("bringup-ssh-*"))
        return done

    return run


def judge(done):
    return {case: (line["outcome"], line.get("reason", "")) for case, line in done.cases.items() if case.startswith("pcie")}


def test_the_pcie_stage_says_over_ssh_what_it_says_here(judged, sshd):
    near = judged()
    here = judge(near)
    before = sshd.relay.accepted
    far = judged("bench")
    assert (far.status, judge(far)) == (near.status, here), far.out + far.err
    assert "passed" in {outcome for outcome, _ in here.values()}
    assert sshd.relay.accepted == before + 1


def test_a_refused_login_is_the_benchs_fault_and_one_attempt(judged, sshd):
    shutil.copy(sshd.folder / "other_key.pub", sshd.folder / "authorized_keys")
    before = sshd.relay.accepted
    try:
        done = judged("bench")
    finally:
        shutil.copy(sshd.folder / "key.pub", sshd.folder / "authorized_keys")
    assert done.status == 3, done.out + done.err
    assert "Permission denied (publickey)" in " ".join(done.out.split())
    assert sshd.relay.accepted == before + 1


def test_a_host_that_is_not_there_is_the_benchs_fault(judged):
    done = judged("gone.invalid")
    assert done.status == 3, done.out + done.err
    assert "Could not resolve hostname gone.invalid" in " ".join(done.out.split())

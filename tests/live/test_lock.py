from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta

import pytest

import harness.live.lock
import harness.live.process
from harness.clock import wall_time
from harness.errors import OwnershipError
from harness.live.lock import MachineLock, owner_of_run

HOLD = """
import pathlib, sys, time
from harness.live.lock import MachineLock
lock = MachineLock("r640-07", "ben@lab2 run-1", pathlib.Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""

RACE = """
import pathlib, sys
from harness.errors import OwnershipError
from harness.live.lock import MachineLock
won = 0
sys.stdin.readline()
for n in range(30):
    try:
        MachineLock(f"machine-{n}", sys.argv[2], pathlib.Path(sys.argv[1])).acquire()
        won += 1
    except OwnershipError:
        pass
print(won, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def lock_of(tmp_path):
    return lambda owner, machine="r640-07", **other: MachineLock(machine, owner, tmp_path / "locks", **other)


@pytest.fixture
def holder(lock_of):
    """Another process that holds the lock as ben."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(lock_of("").path.parent)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def rewrite(lock, **changes):
    fields = json.loads(lock.path.read_text())
    lock.path.write_text(json.dumps({**fields, **changes}))


class TestHolding:
    def test_the_file_says_who_holds_what_and_until_when(self, lock_of):
        lock = lock_of("ann@lab1 run-1")
        lock.acquire()
        said = json.loads(lock.path.read_text())
        assert (said["machine"], said["owner"], said["pid"]) == ("r640-07", "ann@lab1 run-1", os.getpid())
        assert said["host"] == os.uname().nodename
        assert said["since"].endswith("+00:00")
        assert lock.holding().expires - lock.holding().since == timedelta(hours=12)

    def test_a_held_lock_names_its_owner_the_time_and_the_way_to_steal_it(self, lock_of):
        lock_of("ann@lab1 run-1").acquire()
        with pytest.raises(OwnershipError) as caught:
            lock_of("ben@lab2 run-2").acquire()
        said = str(caught.value)
        assert "r640-07 is held by 'ann@lab1 run-1'" in said
        assert f"since {wall_time():%Y-%m-%dT%H}" in said
        assert "to steal it, name its owner exactly" in said
        assert "\n" not in said

    def test_a_lock_held_by_a_living_process_is_refused(self, lock_of, holder):
        with pytest.raises(OwnershipError, match=f"'ben@lab2 run-1' .pid {holder.pid} on"):
            lock_of("ann@lab1 run-1").acquire()

    def test_the_same_owner_twice_is_two_people(self, lock_of):
        lock_of("ann@lab1 run-1").acquire()
        with pytest.raises(OwnershipError):
            lock_of("ann@lab1 run-1").acquire()

    def test_two_machines_are_two_locks(self, lock_of):
        names = ["r640-07", "r640-08", "a/b", "a_b", "a:b", "..", ".", "", "x" * 300]
        for name in names:
            lock_of("ann", name).acquire()
        assert len({lock_of("ann", name).path for name in names}) == len(names)
        assert {lock_of("ann", name).path.parent for name in names} == {lock_of("ann").path.parent}

    def test_acquiring_ones_own_lock_again_renews_it(self, lock_of):
        lock = lock_of("ann")
        lock.acquire()
        since = (wall_time() - timedelta(hours=11)).isoformat()
        rewrite(lock, since=since, expires=(wall_time() + timedelta(hours=1)).isoformat())
        lock.acquire()
        assert lock.holding().since.isoformat()[:16] == since[:16]
        assert lock.holding().expires > wall_time() + timedelta(hours=11)

    def test_a_block_holds_the_lock_and_gives_it_back_even_when_it_fails(self, lock_of):
        lock = lock_of("ann")
        with suppress(RuntimeError), lock:
            assert lock.holding().owner == "ann"
            raise RuntimeError
        assert lock.holding() is None
        lock_of("ben").acquire()

    def test_only_one_of_many_processes_gets_each_lock(self, lock_of):
        folder = str(lock_of("").path.parent)
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", RACE, folder, f"racer-{n}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for n in range(4)
        ]
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        won = [int(racer.stdout.readline()) for racer in racers]
        for racer in racers:
            racer.communicate("done\n", timeout=10)
        assert sum(won) == 30


class TestTakingOver:
    def test_the_lock_of_a_killed_process_is_taken_over(self, lock_of, holder):
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        lock = lock_of("ann")
        lock.acquire()
        assert lock.holding().owner == "ann"

    def test_the_lock_of_a_killed_process_that_nobody_waited_for_is_taken_over(self, lock_of, holder):
        holder.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        lock_of("ann").acquire()

    def test_a_process_number_used_again_is_not_the_holder(self, lock_of, holder):
        lock = lock_of("ann")
        boot, space, start = lock.holding().process.split()
        rewrite(lock, process=f"{boot} {space} {int(start) - 1}")
        lock.acquire()

    def test_a_lock_from_before_the_restart_is_taken_over(self, lock_of, holder):
        lock = lock_of("ann")
        _, space, start = lock.holding().process.split()
        rewrite(lock, process=f"another-boot {space} {start}")
        lock.acquire()

    def test_a_process_that_cannot_be_looked_at_may_live(self, lock_of, holder):
        """From another container: same machine, other process numbers."""
        lock = lock_of("ann")
        boot, _, start = lock.holding().process.split()
        rewrite(lock, process=f"{boot} pid:[1] {start}", pid=2**22 + 1)
        with pytest.raises(OwnershipError):
            lock.acquire()

    def test_a_process_whose_start_is_hidden_may_live(self, lock_of, holder, monkeypatch):
        monkeypatch.setattr(harness.live.process, "_state_and_start", lambda pid: ("-", "-"))
        with pytest.raises(OwnershipError):
            lock_of("ann").acquire()

    def test_a_lock_from_another_host_is_held_until_it_expires(self, lock_of, holder):
        lock = lock_of("ann")
        rewrite(lock, host="elsewhere", pid=2**22 + 1)
        with pytest.raises(OwnershipError, match="on elsewhere"):
            lock.acquire()
        rewrite(lock, expires=(wall_time() - timedelta(seconds=1)).isoformat())
        lock.acquire()

    def test_an_expired_lock_is_taken_over_and_its_holder_does_not_release_the_new_one(self, lock_of):
        late = lock_of("ann", lasts=timedelta(seconds=-1))
        late.acquire()
        lock = lock_of("ben")
        lock.acquire()
        late.release()
        assert lock.holding().owner == "ben"

    def test_a_longer_holding_that_was_cut_off_in_writing_leaves_no_trace(self, lock_of):
        lock = lock_of("ann")
        lock.acquire()
        with lock.path.open("a") as file:
            file.write('run-of-a-longer-name", "pid": 1}\n')
        assert lock.holding().owner == "ann"

    @pytest.mark.parametrize(
        "text", ["nonsense", "[]", "{}", '{"machine": 1}', "\x00\x01", '{"since": "2026-01-01", "expires": 3}', "[" * 100_000]
    )
    def test_a_file_that_cannot_be_understood_is_named_and_left_alone(self, lock_of, text):
        lock = lock_of("ann")
        lock.acquire()
        lock.path.write_text(text)
        with pytest.raises(OwnershipError, match=str(lock.path)):
            lock_of("ben").acquire(steal_from="ann")
        lock.release()
        assert lock.path.read_text() == text

    @pytest.mark.parametrize("change", [{"pid": "12"}, {"process": "a b"}, {"process": 3}, {"expires": "2026-01-01T00:00:00"}])
    def test_a_field_that_cannot_be_meant_is_no_licence(self, lock_of, change):
        lock_of("ann").acquire()
        rewrite(lock_of("ann"), **change)
        with pytest.raises(OwnershipError, match="cannot be read"):
            lock_of("ben").acquire()


class TestStealing:
    def test_the_exact_name_steals(self, lock_of, holder):
        lock = lock_of("ann")
        lock.acquire(steal_from="ben@lab2 run-1")
        assert lock.holding().owner == "ann"
        assert json.loads(lock.path.read_text())["owner"] == "ann", "nothing of the longer holding is left"

    @pytest.mark.parametrize("name", ["ben", "BEN@lab2 run-1", "ben@lab2 run-1 ", "*"])
    def test_nearly_the_name_does_not(self, lock_of, holder, name):
        with pytest.raises(OwnershipError, match="is not its owner"):
            lock_of("ann").acquire(steal_from=name)
        assert lock_of("ann").holding().owner == "ben@lab2 run-1"

    def test_a_free_lock_needs_no_stealing(self, lock_of):
        lock = lock_of("ann")
        lock.acquire(steal_from="ben")
        assert lock.holding().owner == "ann"

    def test_who_was_stolen_from_learns_it_and_releases_nothing(self, lock_of):
        robbed = lock_of("ann")
        robbed.acquire()
        robbed.check()
        thief = lock_of("ben")
        thief.acquire(steal_from="ann")
        with pytest.raises(OwnershipError, match="not ours any more: held by 'ben'"):
            robbed.check()
        robbed.release()
        thief.check()

    def test_a_lock_never_taken_is_not_ours(self, lock_of):
        with pytest.raises(OwnershipError, match="nobody holds it"):
            lock_of("ann").check()


class TestFolder:
    def test_folder_and_file_are_everybodys_whatever_the_umask(self, lock_of):
        lock = lock_of("ann")
        before = os.umask(0o077)
        try:
            lock.acquire()
        finally:
            os.umask(before)
        assert stat.S_IMODE(lock.path.parent.stat().st_mode) == 0o1777
        assert stat.S_IMODE(lock.path.stat().st_mode) == 0o666

    @pytest.mark.skipif(os.getuid() != 0, reason="needs root to become two other users")
    def test_one_users_dead_lock_is_taken_over_by_another_user(self, tmp_path):
        folder = tmp_path / "locks"
        for above in (tmp_path, *tmp_path.parents):
            if above.name.startswith(("pytest-", "popen-")):
                above.chmod(0o755)
        tmp_path.chmod(0o777)

        def as_user(number: int) -> int:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    os.setuid(number)
                    MachineLock("r640-07", f"user{number}", folder).acquire()
                    status = 0
                finally:
                    os._exit(status)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        assert [as_user(65533), as_user(65534)] == [0, 0]
        assert '"user65534"' in (folder / "r640-07.lock").read_text()

    def test_a_symbolic_link_is_not_followed(self, lock_of, tmp_path):
        lock = lock_of("ann")
        lock.path.parent.mkdir()
        (tmp_path / "precious").write_text("kept")
        lock.path.symlink_to(tmp_path / "precious")
        with pytest.raises(OwnershipError, match="cannot open the lock"):
            lock.acquire()
        assert (tmp_path / "precious").read_text() == "kept"

    def test_a_folder_that_cannot_be_is_one_clear_line(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(OwnershipError, match=f"cannot open the lock {tmp_path}/file/m.lock of m"):
            MachineLock("m", "ann", tmp_path / "file").acquire()

    def test_the_default_folder_is_in_the_systems_temporary_one(self, tmp_path, monkeypatch):
        monkeypatch.setattr(harness.live.lock.tempfile, "gettempdir", lambda: str(tmp_path))
        lock = MachineLock("m", "ann")
        assert lock.path == tmp_path / "bringup-locks" / "m.lock"
        assert not lock.path.parent.exists(), "making a lock touches nothing"
        assert lock.holding() is None
        lock.release()
        assert not lock.path.parent.exists()

    def test_an_owner_is_user_host_and_run(self):
        user, _, rest = owner_of_run("run-7").partition("@")
        assert user
        assert rest == f"{os.uname().nodename} run-7"

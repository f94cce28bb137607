"""``bringup map learn`` as a program: what it prints and writes, and with which status it ends."""

import subprocess
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from harness import locator
from harness.cli.map import is_right, learned, look, verdict
from harness.errors import UsageMistake


@pytest.fixture
def learn(program, tmp_path):
    def asked(*arguments):
        return subprocess.run(
            [*program, "map", "learn", *arguments], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
        )

    return asked


def test_the_recording_gives_the_map_that_its_platform_has(learn, tmp_path):
    done = learn("--bench", "model-lqd8360", "--replay", "--out", "map.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("MAP of bench model-lqd8360, REPLAY of ")
    assert first.endswith("(source model): 20 of 20 GPUs that the fabric gave to model-lqd8360 have their place")
    assert "platform lqd8360 says the same of all 20" in done.stdout
    assert len(tomllib.loads((tmp_path / "map.toml").read_text())["slot"]) == 20
    again = learn("--bench", "model-lqd8360", "--replay", "--out", "map.toml")
    assert again.returncode == 2
    assert "--force" in again.stderr


def test_the_model_gives_the_same_map_and_names_the_neighbours_part(learn):
    done = learn("--bench", "model-lqd8360", "--fault", "pcie.four-view")
    assert done.returncode == 1
    assert "LIVE: a MODELLED machine: 19 of 19 GPUs" in done.stdout
    assert "1 more belongs to other machines" in done.stdout
    assert "stranger: 0000:e2:00.0" in done.stdout


def test_the_healthy_model_contradicts_nothing():
    seen = look("model-lqd8360")
    assert is_right(seen, learned(seen))


def test_a_window_that_is_not_the_platforms_is_told():
    seen = look("model-lqd8360", faults=("pcie.bars",))
    assert not is_right(seen, learned(seen))
    told = "\n".join(verdict(seen, learned(seen)))
    assert "PCIe Slot 3: 32-bit MMIO is 216 MiB by the platform and 138 MiB on the machine" in told


def test_a_gpu_whose_link_is_down_is_unseen():
    seen = look("model-lqd8360", faults=("pcie.chain-link",))
    told = "\n".join(verdict(seen, learned(seen)))
    assert "unseen: jbogB/slot07, serial 9990000000017" in told
    assert not is_right(seen, learned(seen))


@pytest.mark.parametrize(
    ("bench", "options", "says"),
    [
        ("nowhere", {}, "nowhere"),
        ("virtual-r640", {"replay": True}, "has no fabric on it"),
        ("virtual-r640", {}, "a virtual machine has no fabric to ask"),
        ("bare.toml", {}, "there is no [fabric] to ask"),
        ("bare.toml", {"faults": ("pcie.bars",)}, "--fault belongs to the virtual lab"),
        ("model-lqd8360", {"replay": True, "faults": ("pcie.buses",)}, "--replay touches none"),
    ],
)
def test_a_mistake_is_one_line(bench, options, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bare.toml").write_text('schema = 1\nname = "bare"\nplatform = "lqd8360"\n[host]\nvia = "local"\n')
    with pytest.raises(UsageMistake) as mistake:
        look(f"./{bench}" if bench.endswith(".toml") else bench, **options)
    assert says in str(mistake.value)
    assert len(str(mistake.value).splitlines()) == 1


def test_a_file_that_cannot_be_written_is_one_line_and_status_two(learn):
    done = learn("--bench", "model-lqd8360", "--replay", "--out", "no/such/folder/map.toml")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.socket
def test_a_real_benchs_controller_is_asked_over_http(tmp_path, learn, recorded_controller):
    """The operating system is this one, which shows none of the fabric's parts; the controller was asked once."""
    url, asked = recorded_controller
    (tmp_path / "here.toml").write_text(
        f'schema = 1\nname = "here"\nplatform = "lqd8360"\n[host]\nvia = "local"\n'
        f'[fabric]\nurl = "{url}"\nmachine = "model-lqd8360"\n'
    )
    done = learn("--bench", "here.toml")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == (
        "MAP of bench here, LIVE: hardware: 0 of 20 GPUs that the fabric gave to model-lqd8360 have their place"
    )
    assert "unseen: jbogA/slot01" in done.stdout
    assert "there is no map to write" in done.stderr
    assert asked == ["GET /liqid/api/v2/device/info/gpu"]


@pytest.fixture
def recorded_controller():
    """A service that gives the answer of the bundled recording's controller, and what it was asked."""
    body = (locator.find_tape("model-lqd8360") / "bodies" / "fabric-liqid-api-v2-device-info-gpu@1.json").read_bytes()
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(f"{self.command} {self.path}")
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Standard error is for the tests."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    thread.join()
    server.server_close()

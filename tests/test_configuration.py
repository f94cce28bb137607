import pickle

import pytest

from harness import locator
from harness.bench import load_bench
from harness.errors import BringupError, ConfigError, UsageMistake, blame_for
from harness.lab.model.parts import GPUS
from harness.platform import load_platform
from harness.secret import MASK, Secret, SecretReference

PLATFORM = (locator.shipped() / "fixtures" / "platforms" / "lqd8360.toml").read_text()
BENCH = """
schema = 1
name = "r640-07"
platform = "lqd8360"
service_tag = "ABC1234"
[bmc]
url = "https://192.0.2.10"
user = "root"
password = { env = "BMC_PASSWORD" }
pin = "sha256:%s"
""" % ("ab" * 32)


def line_of(error: BaseException) -> str:
    assert "\n" not in str(error)
    return str(error)


def test_the_shipped_platform_has_the_slots_of_the_modelled_machine():
    platform = load_platform(PLATFORM, "lqd8360.toml")
    assert [slot.path for slot in platform.slots] == [gpu.path for gpu in GPUS]
    assert platform.models_for(platform.slots[0]) == platform.models


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("efficiency", "eficiency", "resnet50.eficiency: unknown key; did you mean 'efficiency'?"),
        ("no_progress", "no_progres", "boot.no_progres: unknown key; did you mean 'no_progress'?"),
        ('device = "10de:1e30"', 'device = "10DE:1E30"', "not vendor:device"),
        ("schema = 1", "schema = 2", "schema 2 is newer than this version reads"),
        ('name = "jbogA/slot02"', 'name = "jbogA/slot01"', "slot 'jbogA/slot01' stands twice"),
        ('"45 min"', '"45 mim"', "unknown unit 'mim'; did you mean 'min'?"),
        ("[bios]", "[bios", "not valid TOML"),
    ],
)
def test_a_wrong_platform_is_one_line_with_file_and_key(old, new, says):
    with pytest.raises(ConfigError) as caught:
        load_platform(PLATFORM.replace(old, new, 1), "lqd8360.toml")
    assert line_of(caught.value).startswith("lqd8360.toml: ")
    assert says in str(caught.value)


def test_a_platform_without_slots_is_refused():
    with pytest.raises(ConfigError, match="declares no slot"):
        load_platform('schema = 1\nname = "empty"\n', "empty.toml")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('service_tag = "ABC1234"', "", "service_tag is missing"),
        ("https://", "http://", "is not https://HOST"),
        ("pin =", "pim =", "bmc.pim: unknown key; did you mean 'pin'?"),
        ('pin = "sha256:', 'ca = "', None),
        ("ab" * 32, "ab" * 31, "a pin is sha256:"),
        ('{ env = "BMC_PASSWORD" }', '"calvin"', "bmc.password"),
        ("[bmc]", '[lab]\ngrade = "model"\n[bmc]', "exclude each other"),
        ('name = "r640-07"', 'name = "../r640"', "is not a name of letters"),
    ],
)
def test_a_wrong_bench_is_one_line(old, new, says):
    text = BENCH.replace(old, new, 1)
    if says is None:
        assert load_bench(text, "b.toml").bmc is not None
        return
    with pytest.raises(ConfigError) as caught:
        load_bench(text, "b.toml")
    assert says in line_of(caught.value)


def test_a_populated_slot_that_the_platform_lacks_is_refused():
    platform = load_platform(PLATFORM, "p.toml")
    bench = load_bench(BENCH.replace("[bmc]", 'populated = ["jbogA/slot01", "jbogC/slot01"]\n[bmc]'), "b.toml")
    with pytest.raises(ConfigError, match="no slot 'jbogC/slot01'"):
        bench.slots(platform, "b.toml")


def test_a_missing_secret_names_the_variable_and_the_place():
    reference = load_bench(BENCH, "b.toml").password("b.toml")
    assert reference is not None
    with pytest.raises(ConfigError, match=r"b.toml: bmc.password: the environment variable BMC_PASSWORD is not set"):
        reference.read({})
    assert reference.read({"BMC_PASSWORD": "hunter2"}).reveal() == "hunter2"


def test_a_secret_in_a_file_loses_only_its_newline(tmp_path):
    (tmp_path / "password").write_text(" spaced word \n")
    assert SecretReference(file=str(tmp_path / "password")).read().reveal() == " spaced word "
    with pytest.raises(ConfigError, match="cannot read the secret's file"):
        SecretReference(file=str(tmp_path / "other"), where="b.toml", key="bmc.password").read()


def test_a_secret_never_shows_itself():
    secret = Secret("hunter2")
    assert {str(secret), repr(secret), f"{secret}", f"{secret:>20}", str([secret]), str({"a": secret})} >= {MASK}
    assert "hunter2" not in str([secret]) + f"{secret:>20}"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)


def test_an_unknown_bench_names_the_nearest_and_the_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageMistake, match="did you mean 'model-lqd8360'") as caught:
        locator.find_bench("model-lqd836")
    line_of(caught.value)


def test_the_working_folder_is_looked_in_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures" / "benches").mkdir(parents=True)
    (tmp_path / "fixtures" / "benches" / "model-lqd8360.toml").write_text(BENCH)
    assert locator.find_bench("model-lqd8360")[0].name == "r640-07"


def test_a_bench_file_finds_the_platform_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab" / "benches").mkdir(parents=True)
    (tmp_path / "lab" / "platforms").mkdir()
    file = tmp_path / "lab" / "benches" / "mine.toml"
    file.write_text(BENCH)
    (tmp_path / "lab" / "platforms" / "lqd8360.toml").write_text(PLATFORM.replace('system = "PowerEdge R640"', 'system = "mine"'))
    bench, found = locator.find_bench(str(file))
    assert locator.find_platform(bench.platform, found)[0].system == "mine"


def test_blame_follows_the_branch_of_the_exception():
    def branches(kind):
        yield kind
        for below in kind.__subclasses__():
            yield from branches(below)

    blames = {kind.__name__: kind.blame.value for kind in branches(BringupError)}
    assert {name for name, blame in blames.items() if blame == "bench"} == {
        "BenchError", "Unreachable", "Untrusted", "AuthRefused", "Timeout",
    }  # fmt: skip
    assert {name for name, blame in blames.items() if blame == "product"} == {"DeviceError", "RedfishError", "CommandFailed"}
    assert blame_for(AssertionError()).value == "product"
    assert blame_for(ZeroDivisionError()).value == "harness"


HOST = """
schema = 1
name = "r640-07"
platform = "lqd8360"
[host]
via = "ssh"
"""


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("", 'host.address: missing: via = "ssh" needs user@host'),
        ('address = ""', "host.address: missing"),
        ('address = "-oProxyCommand=x"', "host.address: '-oProxyCommand=x' is not user@host"),
        ('address = "a b"', "host.address: 'a b' is not user@host"),
        ('adress = "lab"', "host.adress: unknown key (and 1 more); did you mean 'address'?"),
    ],
)
def test_a_host_over_ssh_needs_an_address(more, says):
    with pytest.raises(ConfigError) as caught:
        load_bench(HOST + more, "r640-07.toml")
    assert line_of(caught.value).startswith(f"r640-07.toml: {says}")


def test_a_host_over_ssh_is_an_address_or_an_alias():
    assert load_bench(HOST + 'address = "root@192.0.2.7"', "r640-07.toml").host.address == "root@192.0.2.7"
    assert load_bench(HOST.replace("ssh", "local"), "r640-07.toml").host.address == ""

import contextlib
import io
import pickle
import re
from pathlib import Path

import pytest

from harness import locator
from harness.bench import load_bench
from harness.cli.bench import describe, draft
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
        ("/02.0/00.0", "/01.0/00.0", "has the path of another slot"),
        ('"45 min"', '"45 mim"', "unknown unit 'mim'; did you mean 'min'?"),
        ("[bios]", "[bios", "not valid TOML"),
        ('within = "45 min"', "within = inf", "boot.within: takes a finite number"),
        ('within = "45 min"', "within = -1", "boot.within: takes a number of more than 0"),
        ("at_least = 0.85", "at_least = nan", "resnet50.efficiency: takes a finite number"),
        ("at_least = 0.85", "at_least = 0.85, marginal = 0.8", "resnet50.efficiency: marginal lies outside the limit"),
        ('within = "1 %"', "within = -1", "memory.within: takes a number of at least 0"),
        ('within = "45 min"', 'within = "45"', 'boot.within: "45" has no unit: write "45 s" or "45 min"'),
        ('within = "45 min"', 'within = "45 MiB"', "boot.within: takes seconds, as in 's', not '45 MiB'"),
        ('within = "45 min"', "within = [45]", 'boot.within: takes a quantity such as "45 s" or "15 min", not a list'),
        ("efficiency = { at_least = 0.85 }", 'efficiency = "85 %"', "resnet50.efficiency: takes a number without unit and quotes"),
        ("efficiency = { at_least = 0.85 }", 'efficiency = { at_least = "85 %" }', "resnet50.efficiency: takes a number without"),
        ("efficiency = { at_least = 0.85 }", "efficiency = true", "resnet50.efficiency: takes a number, not true or false"),
        ("contention_ratio = { at_least = 0.5 }", 'contention_ratio = "50 %"', "p2p.contention_ratio: takes a number without"),
        ("uncorrected_ecc = 0", 'uncorrected_ecc = "0"', "gpu.uncorrected_ecc: takes a number without unit"),
        ('{ at_most = "3 %" }', '{ at_most = "3 s" }', "resnet50.spread: takes percent, as in '%', not '3 s'"),
        ('0 = "16 MiB"', '0 = "16"', 'bars.0: "16" has no unit: write "16 B"'),
        ('within = "1 %"', 'within = "1 s"', "within: takes percent, as in '%', not '1 s'"),
        ('within = "1 %"', 'within = "11 %"', "within: takes a number of at most 10"),
        ("peers = 8", 'peers = "many"', "p2p.peers: takes a whole number, not a string"),
        ("staged_ratio = 1.05", 'staged_ratio = "5 %"', "p2p.staged_ratio: takes a number, not a string"),
        ('deny = ["2.4.7"]', 'deny = "2.4.7"', "bios.deny: takes a list, not a string"),
        (
            'EmbVideo = "Enabled"',
            'SetupPassword = "calvin"',
            "a password never stands in the file, and none is ever set: leave SetupPassword out",
        ),
    ],
)
def test_a_wrong_platform_is_one_line_with_file_and_key(old, new, says):
    with pytest.raises(ConfigError) as caught:
        load_platform(PLATFORM.replace(old, new, 1), "lqd8360.toml")
    assert line_of(caught.value).startswith("lqd8360.toml: ")
    assert says in str(caught.value)
    assert "calvin" not in str(caught.value)


def test_without_a_line_of_its_own_a_limit_still_judges():
    whole = load_platform(PLATFORM, "p.toml")
    less = load_platform(PLATFORM.replace("replay_rate = { at_most", "# { at_most").replace("efficiency = {", "# {"), "p.toml")
    assert whole.gpu is not None
    assert less.gpu is not None
    assert str(less.gpu.replay_rate) == str(whole.gpu.replay_rate) == "<= 8 /min"
    assert less.resnet50.efficiency == whole.resnet50.efficiency


def test_a_platform_without_slots_is_refused():
    with pytest.raises(ConfigError, match="declares no slot"):
        load_platform('schema = 1\nname = "empty"\n', "empty.toml")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('service_tag = "ABC1234"', "", "service_tag is missing"),
        ("https://", "http://", "takes https://HOST"),
        ("pin =", "pim =", "bmc.pim: unknown key; did you mean 'pin'?"),
        ('pin = "sha256:', 'ca = "', None),
        ("ab" * 32, "ab" * 31, "a pin is sha256:"),
        (
            '{ env = "BMC_PASSWORD" }',
            '"calvin"',
            'bmc.password: a password never stands in the file: give { env = "NAME" } or { file',
        ),
        ('{ env = "BMC_PASSWORD" }', '["calvin"]', "bmc.password: a password never stands in the file"),
        ('{ env = "BMC_PASSWORD" }', '{ env = "calvin!" }', "bmc.password.env: takes the name of an environment variable"),
        ('{ env = "BMC_PASSWORD" }', "{ env = 5 }", "bmc.password.env: takes a string, not a whole number"),
        ("https://", "https://root:calvin@", "bmc.url: a user or password never stands in a URL"),
        ("https://192", "root:calvin@192", "bmc.url: a user or password never stands in a URL"),
        ("192.0.2.10", "192.0.2.10:99999", "bmc.url: takes https://HOST[:PORT] with a host and a port from 1 to 65535"),
        ("192.0.2.10", "192.0.2.10:0", "a port from 1 to 65535"),
        ("192.0.2.10", "192.0.2.10:https", "a port from 1 to 65535"),
        ("192.0.2.10", "192.0.2.10/?password=calvin", "bmc.url: takes https://HOST[:PORT] without user, path or query"),
        ('user = "root"', "user = 5", "bmc.user: takes a string, not a whole number"),
        ("[bmc]", 'populated = "x"\n[bmc]', "populated: takes a list of slot names"),
        ("[bmc]", "populated = [1]\n[bmc]", "populated: takes a list of slot names"),
        ("[bmc]", "host = 3\n[bmc]", "host: takes a table, not a whole number"),
        ("[bmc]", '[host]\nvia = "telnet"\n[bmc]', "host.via: takes one of 'local', 'ssh' or 'console'"),
        ("[bmc]", '[console]\nurl = "socket://root:calvin@192.0.2.1:7000"\n[bmc]', "console.url: a user or password never"),
        ("[bmc]", '[fabric]\nmachine = "m"\nurl = "https://root:calvin@192.0.2.1"\n[bmc]', "fabric.url: a user or password never"),
        ('"ABC1234"', '"CHANGE-ME"', "service_tag: still the draft's placeholder"),
        ("192.0.2.10", "CHANGE-ME", "bmc.url: still the draft's placeholder"),
        ("ab" * 32, "00" * 32, "bmc.pin: still the draft's placeholder"),
        ("[bmc]", '[lab]\ngrade = "model"\n[bmc]', "exclude each other"),
        ("[bmc]", '[lab]\ngrade = "model"\nhost = "ssh"\n[bmc]', 'lab: host = "ssh" needs grade = "qemu"'),
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
    assert "calvin" not in str(caught.value)


@pytest.mark.parametrize("printed", ["sha256 Fingerprint={}", "SHA256 Fingerprint={}", "{}", "sha256:{}"])
def test_a_pin_is_taken_as_openssl_prints_it(printed):
    pin = printed.format(":".join(["AB"] * 32))
    bmc = load_bench(BENCH.replace("sha256:" + "ab" * 32, pin), "b.toml").bmc
    assert bmc is not None
    assert bmc.pin == "sha256:" + "ab" * 32


def test_an_ipv6_address_with_a_port_is_a_url():
    bmc = load_bench(BENCH.replace("192.0.2.10", "[2001:db8::1]:8443"), "b.toml").bmc
    assert bmc is not None
    assert bmc.url == "https://[2001:db8::1]:8443"


def checked(file):
    """What ``bringup bench check`` prints of a bench, and its problems."""
    lines, told = [], io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            lines.extend(describe(str(file)))
    except UsageMistake as mistake:
        return lines, told.getvalue().splitlines() or [str(mistake)]
    return lines, []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("BRINGUP_BMC_PASSWORD", raising=False)
    return tmp_path


def test_a_fresh_draft_is_checked_as_far_as_possible_and_every_problem_is_a_line(folder):
    (file,) = draft("fresh", None, force=False)
    lines, problems = checked(file)
    assert any(line.startswith("slots: 20 populated") for line in lines)
    keys = ("service_tag", "bmc.url", "bmc.pin", "bmc.password")
    assert [key for key in keys if any(f": {key}: " in problem for problem in problems)] == list(keys)
    assert "BRINGUP_BMC_PASSWORD is not set" in "\n".join(problems)
    with pytest.raises(ConfigError, match=r"service_tag: still the draft's placeholder.*and 2 more"):
        locator.find_bench("fresh")


@pytest.mark.parametrize(("made", "says"), [(None, "cannot read"), ("not a certificate", "holds no PEM certificate")])
def test_a_check_reads_the_certificate_file(folder, monkeypatch, made, says):
    monkeypatch.setenv("BMC_PASSWORD", "hunter2")
    if made is not None:
        (folder / "ca.pem").write_text(made)
    file = folder / "b.toml"
    file.write_text(BENCH.replace('pin = "sha256:' + "ab" * 32, f'ca = "{folder}/ca.pem'))
    lines, problems = checked(file)
    assert len(problems) == 1
    assert says in problems[0]
    assert "hunter2" not in "\n".join(lines + problems)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('url = "https://192.0.2.3"', "give pin"),
        ('url = "http://192.0.2.3:8080"\nuser = "u"\npassword = { env = "X" }', "a login is sent over https only"),
        (f'url = "https://192.0.2.3:8443"\npin = "sha256:{"ab" * 32}"\nuser = "u"', "user and password belong together"),
        ('url = "ftp://192.0.2.3"', "takes http://HOST[:PORT]"),
        ('url = "http://192.0.2.3/liqid"', "takes http://HOST[:PORT]"),
        ('url = "http://192.0.2.3:0"', "takes http://HOST[:PORT]"),
    ],
)
def test_a_fabric_that_could_leak_a_login_or_be_somebody_else_is_refused(folder, monkeypatch, table, says):
    monkeypatch.setenv("BMC_PASSWORD", "x")
    file = folder / "b.toml"
    file.write_text(f'{BENCH}\n[fabric]\nmachine = "m"\n{table}\n')
    _, problems = checked(file)
    assert len(problems) == 1
    assert "b.toml: fabric" in problems[0]
    assert says in problems[0]


def test_a_check_says_what_of_the_fabric_is_reached(folder, monkeypatch):
    monkeypatch.setenv("BMC_PASSWORD", "x")
    file = folder / "b.toml"
    table = f'[fabric]\nmachine = "m7"\nurl = "https://192.0.2.3:8443"\npin = "sha256:{"ab" * 32}"\nuser = "u"'
    file.write_text(f'{BENCH}\n{table}\npassword = {{ env = "FABRIC_PASSWORD" }}\n')
    lines, problems = checked(file)
    assert "fabric: https://192.0.2.3:8443, where this machine is m7; it is only read" in lines
    assert len(problems) == 1
    assert "FABRIC_PASSWORD" in problems[0]


def test_a_check_of_a_broken_file_lists_everything_that_is_wrong(folder):
    file = folder / "b.toml"
    file.write_text(BENCH.replace("pin =", "pim =").replace('user = "root"', "user = 5"))
    _, problems = checked(file)
    assert [problem.split(": ")[2] for problem in problems] == ["bmc.pim", "bmc.user"]


@pytest.mark.parametrize("source", [None, "local"])
def test_a_new_bench_does_not_hide_one_that_exists(folder, source):
    with pytest.raises(UsageMistake, match="would hide it") as caught:
        draft("model-lqd8360", source, force=False)
    line_of(caught.value)
    assert not list(folder.rglob("*.toml"))
    assert draft("model-lqd8360", None, force=True)


def test_a_new_platform_does_not_hide_one_that_exists(folder):
    with pytest.raises(UsageMistake, match="there is a platform 'lqd8360' already"):
        draft("lqd8360", "local", force=False)


def test_an_unknown_bench_without_a_near_one_ends_its_sentence(folder):
    with pytest.raises(UsageMistake, match=r"no bench 'zzz'\. Known: "):
        locator.find_bench("zzz")


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


def test_the_folder_of_platforms_comes_before_a_bench_that_is_called_like_the_platform(tmp_path):
    for folder in ("benches", "platforms"):
        (tmp_path / folder).mkdir()
    file = tmp_path / "benches" / "mine.toml"
    for name in ("mine.toml", "lqd8360.toml"):
        (tmp_path / "benches" / name).write_text(BENCH)
    (tmp_path / "platforms" / "lqd8360.toml").write_text(PLATFORM)
    assert locator.find_platform("lqd8360", file)[0].name == "lqd8360"


@pytest.mark.parametrize(
    ("reached", "is_on_console"),
    [
        ('[lab]\ngrade = "model"', False),
        ('[lab]\ngrade = "qemu"', True),
        ('[lab]\ngrade = "qemu"\nhost = "ssh"', False),
        ('[host]\nvia = "console"\n[console]\nurl = "socket://192.0.2.1:7000"', True),
        ('[host]\nvia = "ssh"\naddress = "r640"\n[console]\nurl = "socket://192.0.2.1:7000"', False),
    ],
)
def test_a_bench_knows_whether_the_console_is_the_way_to_its_host(reached, is_on_console):
    bench = load_bench(f'schema = 1\nname = "b"\nplatform = "p"\n{reached}\n', "b.toml")
    assert bench.host_is_on_console is is_on_console


def test_blame_follows_the_branch_of_the_exception():
    def branches(kind):
        yield kind
        for below in kind.__subclasses__():
            yield from branches(below)

    blames = {kind.__name__: kind.blame.value for kind in branches(BringupError)}
    assert {name for name, blame in blames.items() if blame == "bench"} == {
        "BenchError", "Unreachable", "Untrusted", "AuthRefused", "Timeout",
    }  # fmt: skip
    assert {name for name, blame in blames.items() if blame == "product"} == {
        *("DeviceError", "RedfishError", "CommandFailed", "Unreadable")
    }
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
        ('adress = "lab"', "host.adress: unknown key; did you mean 'address'? (and 1 more)"),
    ],
)
def test_a_host_over_ssh_needs_an_address(more, says):
    with pytest.raises(ConfigError) as caught:
        load_bench(HOST + more, "r640-07.toml")
    assert line_of(caught.value).startswith(f"r640-07.toml: {says}")


def test_a_host_over_ssh_is_an_address_or_an_alias():
    assert load_bench(HOST + 'address = "root@192.0.2.7"', "r640-07.toml").host.address == "root@192.0.2.7"
    assert load_bench(HOST.replace("ssh", "local"), "r640-07.toml").host.address == ""


def test_tapes_may_be_a_folder_of_tapes_one_tape_or_the_name_of_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("own/toy", "fixtures/tapes/toy", "fixtures/tapes/toy-broken"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "tape.toml").touch()
    assert locator.find_tape("toy", Path("own")) == Path("own/toy")
    assert locator.find_tape("toy", Path("own/toy")) == Path("own/toy")
    assert locator.find_tape("toy", Path("toy-broken")).resolve() == tmp_path / "fixtures/tapes/toy-broken"
    with pytest.raises(UsageMistake, match="no tape of bench 'toy' in elsewhere"):
        locator.find_tape("toy", Path("elsewhere"))


HUGE = "1" + "0" * 400


@pytest.mark.parametrize("value", [HUGE, f"{{ at_most = {HUGE} }}", f"{{ between = [1, {HUGE}] }}", "1e999", "{ at_least = inf }"])
def test_a_number_beyond_all_measure_is_one_line(value):
    text = re.sub(r"(?m)^spread = .*$", f"spread = {value}", PLATFORM)
    assert text != PLATFORM
    with pytest.raises(ConfigError, match=r"resnet50\.spread: takes a"):
        load_platform(text, "p.toml")


@pytest.mark.parametrize("value", [HUGE, '"1e999 s"', "inf"])
def test_a_time_beyond_all_measure_is_one_line(value):
    text = re.sub(r"(?m)^no_progress = .*$", f"no_progress = {value}", PLATFORM)
    assert text != PLATFORM
    with pytest.raises(ConfigError, match="no_progress: takes a finite number"):
        load_platform(text, "p.toml")


@pytest.mark.parametrize(
    ("text", "says"), [(".".join("a" * 200_000) + " = 1", "line 1 has more than 100 dots"), ("a = " + "[" * 100_000, "too deep")]
)
def test_a_file_that_would_end_python_s_reader_is_one_line(text, says):
    with pytest.raises(ConfigError, match=says):
        load_platform(text, "p.toml")

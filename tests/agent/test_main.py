import json

import pytest

from harness.agent import __main__ as agent
from harness.agent.trouble import Trouble


class Worker:
    """A worker that says one thing and then does as it is told."""

    def __init__(self, after):
        self.after = after

    def run(self, arguments):
        yield {"kind": "said", "arguments": arguments}
        if self.after is not None:
            raise self.after


def lines_of(monkeypatch, capsys, after):
    monkeypatch.setattr(agent.importlib, "import_module", lambda name, package: Worker(after))
    status = agent.main(["pci", "x"])
    captured = capsys.readouterr()
    return status, [json.loads(line) for line in captured.out.splitlines()], captured.err


def test_what_a_worker_says_is_followed_by_its_count(monkeypatch, capsys):
    status, lines, err = lines_of(monkeypatch, capsys, None)
    assert (status, err) == (0, "")
    assert lines == [{"kind": "said", "arguments": ["x"]}, {"kind": "end", "lines": 1}]


def test_foreseen_trouble_is_an_error_line_and_no_failure_of_the_process(monkeypatch, capsys):
    status, lines, err = lines_of(monkeypatch, capsys, Trouble("nvml", "no driver", "load nvidia"))
    assert (status, err) == (0, "")
    assert lines[1:] == [
        {"kind": "error", "what": "nvml", "why": "no driver", "do": "load nvidia"},
        {"kind": "end", "lines": 2},
    ]


def test_an_unforeseen_fault_keeps_what_was_said_and_fails_the_process(monkeypatch, capsys):
    status, lines, err = lines_of(monkeypatch, capsys, ZeroDivisionError("oops"))
    assert status == 1
    assert [line["kind"] for line in lines] == ["said", "error", "end"]
    assert lines[1]["why"] == "ZeroDivisionError: oops"
    assert err.rstrip().endswith("ZeroDivisionError: oops")


def test_a_worker_that_cannot_be_loaded_is_refused(monkeypatch, capsys):
    def missing(name, package):
        raise ImportError("No module named 'x'")

    monkeypatch.setattr(agent.importlib, "import_module", missing)
    assert agent.main(["pci"]) == agent.NOT_LOADED
    assert json.loads(capsys.readouterr().out.splitlines()[0])["why"] == "it cannot be loaded here: No module named 'x'"


@pytest.mark.parametrize("do", ["", "load nvidia"])
def test_trouble_reads_as_one_line(do):
    assert str(Trouble("nvml", "no driver", do)) == "nvml: no driver" + ("; load nvidia" if do else "")

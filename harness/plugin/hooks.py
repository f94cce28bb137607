"""The hooks of a run: tracks, gates, verdicts and the record, each at its place in pytest's protocol."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest

from harness.errors import Blame, Blocked, BringupError, NotApplicable, NotMeasured, NoVerdict, UsageMistake, blame_for
from harness.plugin import collection
from harness.plugin.case import Case
from harness.plugin.measuring import OutOfLimits, spoken
from harness.plugin.run import CASE, Run, headline_before
from harness.plugin.signals import orderly_ends
from harness.tape.tracks import track_name

_OUTCOMES = {Blocked: "blocked", NotMeasured: "not measured", NotApplicable: "not applicable"}


class RunHooks:
    """One object that pytest calls; all state is in the run.

    ``tells``: pytest was called by itself, so nobody else shows verdict and hand-over or writes the reports.
    """

    def __init__(self, run: Run, *, tells: bool) -> None:
        self.run = run
        self._tells = tells
        self._broken: dict[str, BaseException] = {}
        self._stage = ""

    # collection

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        collection.parametrise(metafunc, self.run)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self.run.problems:
            return
        try:
            left_out = collection.order(items, self.run)
        except UsageMistake as mistake:
            self.run.problems.append(str(mistake))
            raise pytest.UsageError(*([str(mistake)] if self._tells else [])) from None
        if left_out:
            config.hook.pytest_deselected(items=left_out)

    def pytest_report_header(self) -> list[str]:
        return [headline_before(self.run)]

    # the run

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        if not (session.config.option.collectonly or session.testsfailed or self.run.is_open):
            for line in (headline_before(self.run), *([] if self.run.resumption is None else self.run.resumption.told)):
                self.run.settings.watcher.begins(line)
            try:
                self.run.open()
            except BringupError as error:
                self.run.refusal = error
                raise pytest.UsageError(*([self.run.redactor.text(str(error))] if self._tells else [])) from None
        with orderly_ends():
            if self.run.is_open:
                self.run.plan([item.stash[CASE] for item in session.items])
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.failed:
            self.run.problems.append(f"{collector.path}: {_last_words(report.longreprtext)}")
        return report

    def pytest_internalerror(self, excrepr: object, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """What pytest could not go on after: an error of the set-up, such as a full disk, or one of the harness itself."""
        if isinstance(excinfo.value, BringupError):
            self.run.harness_fails("harness.internal", str(excinfo.value), blame=blame_for(excinfo.value))
        else:
            self.run.harness_fails("harness.internal", str(excrepr))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Ctrl-C; pytest calls this for errors of collection too, with an exception of its own."""
        self.run.interrupted |= not isinstance(excinfo.value, pytest.Session.Interrupted)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self.run.is_open:
            self._end_stage()
            self.run.close()
            if self._tells and self.run.folder is not None:
                from harness.report.files import write_reports

                write_reports(self.run.folder)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Say in another plugin's JUnit file, too, where the answers come from."""
        for plugin in session.config.pluginmanager.get_plugins():
            add = getattr(plugin, "add_global_property", None)
            if add is not None:
                for name, value in (("source", self.run.source), ("mode", self.run.settings.mode), ("bench", self.run.bench.name)):
                    add(f"bringup.{name}", value)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The last lines on the screen: verdict and source, what was left on the machine, where the report is."""
        if self.run.folder is not None and self.run.verdict is not None:
            from harness.record.reader import read_record
            from harness.report.headline import headline

            terminalreporter.write_line(headline(read_record(self.run.folder)))
            terminalreporter.write_line(self.run.handover.line())
            terminalreporter.write_line(f"report: {self.run.folder / 'report.html'}")

    # one case

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self,
        item: pytest.Item,
        nextitem: pytest.Item | None,  # noqa: ARG002 - pytest calls it so
    ) -> Generator[None, object, object]:
        case = item.stash[CASE]
        if case.stage != self._stage:
            self._end_stage()
            self._stage = case.stage
            self.run.chronicle.begin_stage(case.stage, _count(item.session.items, case.stage))
        case.began = self.run.clock.now()
        case.information = self.run.gates.is_degraded(case.stage)
        track = _track_of(item)
        with self.run.tracks.on(track):
            result = yield
        self._judge_unplayed(case, track)
        case.settle(case.outcome or "not measured", case.message or ("" if case.outcome else "it ended without an outcome"))
        self.run.end_case(case)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        case = item.stash[CASE]
        if (reason := self._blocked(case)) is not None:
            case.settle("blocked", reason)
            pytest.skip(reason)
        if case.has_nothing:
            self._skip(case, NotApplicable("the platform declares no uplink"))
        for name in getattr(item, "fixturenames", ()):
            if name in self._broken:
                self._skip(case, _without_verdict(name, self._broken[name]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        case = item.stash[CASE]
        try:
            try:
                yield
            except OutOfLimits:
                raise
            except AssertionError as failed:
                if case.measure is None:
                    raise
                case.measure.judge(failed)
            else:
                if case.measure is not None:
                    case.measure.judge()
        except NoVerdict as reason:
            self._skip(case, reason)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """A fixture's traffic belongs to the fixture, whichever test happened to ask first."""
        if fixturedef.scope == "function":
            return (yield)
        name = fixturedef.argname
        track = track_name("session", name)
        tracks = self.run.tracks
        fixturedef.addfinalizer(lambda: tracks.leave(track))  # runs last
        tracks.enter(track)
        try:
            result = yield
        except (BringupError, NoVerdict) as error:
            self._broken.setdefault(name, error)
            if isinstance(error, NoVerdict):
                self._skip(_current(request), error)
            raise
        finally:
            tracks.leave(track)
            fixturedef.addfinalizer(lambda: tracks.enter(track))  # runs first
        self.run.fact_entered(track)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        case = item.stash[CASE]
        self._settle(case, report, call)
        if report.failed and (waived := self.run.waiver_of(case)):
            report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1] or 0, f"{waived}\n{case.message}")
        _mask(report, self.run.redactor.text)
        return report

    def _settle(self, case: Case, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
        error = None if call.excinfo is None else call.excinfo.value
        if report.failed and error is not None:
            text = _say(error, report)
            if isinstance(error, BringupError | OutOfLimits):
                report.longrepr = text
            case.fail(blame_for(error).value, self.run.redactor.text(text))
        elif report.failed:
            case.fail(Blame.HARNESS.value, self.run.redactor.text(report.longreprtext or "failed without a reason"))
        elif report.skipped and not case.outcome:
            case.settle("not measured", self.run.redactor.text(_skip_reason(report)))
        elif report.when == "call" and report.passed and not case.outcome:
            case.settle("passed")

    def _judge_unplayed(self, case: Case, track: str) -> None:
        """In a test that passed, a recorded write that never came is a change of the harness."""
        if self.run.player is not None and case.outcome == "passed" and (unplayed := self.run.player.unplayed(track)):
            case.outcome = ""
            case.fail("harness", "recorded writes that never came:\n" + "\n".join(unplayed))

    def _blocked(self, case: Case) -> str | None:
        if len(case.parts) > 1:
            lost = [self.run.gates.block(case.stage, part) for part in case.parts]
            return lost[0] if all(lost) else self.run.gates.block(case.stage, None)
        return self.run.gates.block(case.stage, case.slot)

    def _skip(self, case: Case | None, reason: NoVerdict) -> None:
        outcome = _OUTCOMES.get(type(reason), "not measured")
        text = self.run.redactor.text(str(reason))
        if case is not None:
            case.settle(outcome, text)
        pytest.skip(f"{outcome.upper()}: {text}" if not text.startswith(outcome.upper()) else text)

    def _end_stage(self) -> None:
        if self._stage:
            self.run.chronicle.end_stage(self._stage, self.run.gates)
        self._stage = ""


def _count(items: Sequence[pytest.Item], stage: str) -> int:
    return sum(item.stash[CASE].stage == stage for item in items)


def _current(request: pytest.FixtureRequest) -> Case | None:
    """The case that asked for a wider fixture; pytest keeps it under a private name."""
    item = getattr(request, "_pyfuncitem", None)
    return None if item is None else item.stash.get(CASE, None)


def _without_verdict(fixture: str, error: BaseException) -> NoVerdict:
    if isinstance(error, NoVerdict):
        return error
    return Blocked(f"{fixture} could not be read: {error}")


def _track_of(item: pytest.Item) -> str:
    return track_name(item.path.parent.name, item.path.stem, item.name)


def _say(error: BaseException, report: pytest.TestReport) -> str:
    if isinstance(error, BringupError | OutOfLimits):
        return str(error)
    if isinstance(error, AssertionError) and str(error):
        return spoken(error)
    place = report.longreprtext.rsplit("\n", 1)[-1].rsplit(": ", 1)[0]
    named = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return f"{named} ({place})\n{report.longreprtext}"


def _last_words(dump: str) -> str:
    """The line of a collection's dump that says what is wrong."""
    lines = [line.removeprefix("E").strip() for line in dump.splitlines() if line.strip()]
    wrong = [line for line in lines if "Error" in line or "rror:" in line]
    return (wrong or lines or ["cannot be collected"])[-1]


def _skip_reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(getattr(report, "wasxfail", "") or report.longrepr or "skipped")


def _mask(report: pytest.TestReport, mask: Callable[[str], str]) -> None:
    """Take secrets out of everything that another plugin, such as pytest's own JUnit writer, could show."""
    if isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        report.longrepr = (path, line, mask(reason))
    elif report.longrepr is not None and mask(text := str(report.longrepr)) != text:
        report.longrepr = mask(text)
    report.user_properties[:] = [(name, mask(value) if isinstance(value, str) else value) for name, value in report.user_properties]
    report.sections[:] = [(name, mask(content)) for name, content in report.sections]


def worker_options(config: pytest.Config) -> Sequence[str]:
    """The options of pytest-xdist that ask for workers."""
    return [name for name in ("numprocesses", "tx", "dist") if config.getoption(name, None) not in (None, [], "no", 0)]

from __future__ import annotations

from harness.clock import VirtualClock
from harness.lab.idrac.timeline import Timeline


def test_what_is_due_happens_in_order_and_each_at_its_own_time() -> None:
    clock = VirtualClock()
    timeline = Timeline(clock)
    seen: list[tuple[str, float]] = []
    timeline.after(30, lambda: seen.append(("later", timeline.now)))
    timeline.after(10, lambda: seen.append(("sooner", timeline.now)))
    timeline.after(100, lambda: seen.append(("too late", timeline.now)))

    clock.sleep(50)
    timeline.settle()

    assert seen == [("sooner", 10.0), ("later", 30.0)]
    assert timeline.next() == 100.0
    assert timeline.now == 50.0


def test_an_action_counts_from_its_own_time_not_from_the_clock() -> None:
    clock = VirtualClock()
    timeline = Timeline(clock)
    seen: list[float] = []
    timeline.after(10, lambda: timeline.after(5, lambda: seen.append(timeline.now)))

    clock.sleep(1000)
    timeline.settle()

    assert seen == [15.0]


def test_dropping_a_tag_leaves_the_others() -> None:
    clock = VirtualClock()
    timeline = Timeline(clock)
    seen: list[str] = []
    timeline.after(1, lambda: seen.append("post"), tag="post")
    timeline.after(1, lambda: seen.append("job"), tag="job")

    timeline.drop("post")
    clock.sleep(2)
    timeline.settle()

    assert seen == ["job"]
    assert timeline.next() is None


def test_looking_often_or_once_leaves_the_same_history() -> None:
    def history(steps: int) -> list[float]:
        clock = VirtualClock()
        timeline = Timeline(clock)
        seen: list[float] = []

        def tick() -> None:
            seen.append(timeline.now)
            timeline.after(7, tick)

        timeline.after(7, tick)
        for _ in range(steps):
            clock.sleep(70 / steps)
            timeline.settle()
        return seen

    assert history(1) == history(70)

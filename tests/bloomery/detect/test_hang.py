"""Test when heartbeats are reported as a hang. Slow file systems and suspended launchers are not reported."""

from __future__ import annotations

import pytest
from heartbeats import group, heartbeat

from bloomery.contracts.heartbeat import Heartbeat, Place
from bloomery.detect.hang import Hang, HangDetector


class Watched:
    """A detector with a simulated clock and the records of the ranks, all of which wait for rank 1."""

    def __init__(self, ranks: int = 2) -> None:
        self.detector = HangDetector(ranks, first_seconds=1800.0, beat_seconds=1.0)
        self.now, self.beat = 1000.0, 0
        waiting, late = group(8, *range(ranks)), group(7, *range(ranks))
        self.beats: dict[int, Heartbeat] = {
            rank: heartbeat(rank, call=None if rank == 1 else waiting, channels=(late if rank == 1 else waiting,))
            for rank in range(ranks)
        }
        self.look()

    def look(self, seconds: float = 1.0, alive: tuple[int, ...] = (0, 1), **values: object) -> Hang | None:
        """Look after `seconds`. The ranks in `alive` have written new records with the values."""
        self.now += seconds
        self.beat += 1
        for rank in alive:
            self.beats[rank] = self.beats[rank].model_copy(update={"beat": self.beat, **values})
        return self.detector.look(self.now, self.beats)

    def until_hang(self, most: int, **look: object) -> tuple[int, Hang]:
        """Look every second. Return the seconds until the hang, and the hang."""
        for second in range(1, most + 1):
            if (hang := self.look(**look)) is not None:  # type: ignore[arg-type]
                return second, hang
        raise AssertionError(f"no hang within {most} s")


def test_a_hang_is_noticed_one_look_after_the_limit_and_names_the_awaited_rank() -> None:
    assert Watched().until_hang(100) == (66, Hang(66.0, (1,), False))


def test_a_stopped_process_is_named_although_others_wait_in_equal_places() -> None:
    watched = Watched(4)
    second, hang = watched.until_hang(100, alive=(0, 1, 3))
    assert (second, hang) == (66, Hang(66.0, (2,), True))


def test_any_progress_of_any_rank_begins_the_wait_again() -> None:
    watched = Watched()
    for progress in range(10):
        assert all(watched.look() is None for _ in range(60))
        watched.beats[0] = watched.beats[0].model_copy(update={"progress": 100 + progress})
    assert watched.until_hang(100)[0] == 67, "the first look sees the progress"


def test_the_largest_limit_of_a_living_rank_applies() -> None:
    watched = Watched()
    watched.beats[0] = watched.beats[0].model_copy(update={"allowed_seconds": 400.0, "place": Place.SAVING})
    assert watched.until_hang(500)[0] == 402, "the change of the place is progress"


def test_the_limit_of_an_old_record_of_a_stopped_process_does_not_apply() -> None:
    watched = Watched()
    watched.beats[1] = watched.beats[1].model_copy(update={"allowed_seconds": 1800.0})
    assert watched.until_hang(100, alive=(0,)) == (66, Hang(66.0, (1,), True))


def test_a_file_system_that_stalls_for_minutes_is_no_hang() -> None:
    watched = Watched()
    assert all(watched.look(alive=()) is None for _ in range(900))
    assert watched.detector.silent_seconds == pytest.approx(900, abs=6)
    # The threads write again before the main threads make progress.
    assert all(watched.look() is None for _ in range(50))
    assert watched.detector.silent_seconds == 0.0


def test_a_launcher_that_was_suspended_does_not_count_that_time() -> None:
    watched = Watched()
    assert watched.look(3600.0) is None
    assert watched.look() is None


def test_all_ranks_silent_for_the_limit_of_the_start_is_a_hang() -> None:
    second, hang = Watched().until_hang(2000, alive=())
    assert 1800 <= second <= 1810
    assert (hang.ranks, hang.silent) == ((0, 1), True)


def test_a_rank_that_never_wrote_a_record_has_the_limit_of_the_start_and_is_named() -> None:
    watched = Watched(3)
    del watched.beats[2]
    watched.detector = HangDetector(3, first_seconds=1800.0, beat_seconds=1.0)
    watched.look()
    second, hang = watched.until_hang(2000)
    assert second == 1801
    assert hang.ranks == (2,)


def test_a_record_that_cannot_be_read_at_the_moment_is_not_missing() -> None:
    watched = Watched()
    assert all(watched.look() is None for _ in range(64))
    watched.detector.look(watched.now + 0.5, {0: watched.beats[0]})
    assert watched.until_hang(100)[1] == Hang(66.0, (1,), False)


def test_ranks_that_have_ended_do_not_hang() -> None:
    watched = Watched()
    assert all(watched.look(place=Place.ENDED) is None for _ in range(4000))


def test_a_new_process_of_a_rank_counts_as_progress() -> None:
    watched = Watched()
    assert all(watched.look() is None for _ in range(60))
    assert all(watched.look(pid=999) is None for _ in range(60))

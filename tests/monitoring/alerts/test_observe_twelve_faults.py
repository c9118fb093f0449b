"""Test that faults of a run are reported exactly once, and their ends exactly once, through a real local webhook."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_scenario import FURTHER, TWELVE, Fault, messages, run_fault, scenario
from webhook import running_webhook

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("faults", "count"), [(TWELVE, 12), (FURTHER, 4)])
def test_each_fault_sends_exactly_one_alert_and_one_recovery(
    tmp_path: Path, faults: tuple[Fault, ...], count: int
) -> None:
    limits = {"queue_hours": 2}
    with (
        running_webhook() as hook,
        scenario(tmp_path, {"BLOOMERY_ALERT_URLS": f"json://127.0.0.1:{hook.port}/secret-path"}, limits=limits) as run,
    ):
        for _ in range(5):
            run.look()
        assert messages(run) == []
        for fault in faults:
            run_fault(run, fault)
        for _ in range(20):
            run.look()
        # The run's own list of messages contains the expected messages.
        events = [(each["event"], each["key"]) for each in messages(run)]
        assert events == [(event, fault.key) for fault in faults for event in ("alert", "recovery")]
        assert len(events) == 2 * count == len(set(events))
        # The webhook got each of them once, in the same order.
        assert hook.titles == [each["title"] for each in messages(run)]
        assert [body["message"] for body in hook.bodies] == [each["text"] for each in messages(run)]
        assert sum(title.startswith("[ok] big: ended: ") for title in hook.titles) == count
        assert set(hook.paths) == {"/secret-path"}
        # The URL is a secret. No file of the run contains it.
        for path in tmp_path.rglob("*"):
            assert not path.is_file() or b"secret-path" not in path.read_bytes(), path

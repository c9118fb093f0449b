"""Test that signals are noted or raised once, and that the earlier handlers return."""

from __future__ import annotations

import signal

import pytest

from bloomery.base.errors import TryAgainError
from training.processes.stop_signals import StopSignals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted_and_the_earlier_handler_returns(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopSignals(raise_error=False) as stop:
        assert not stop.asked
        signal.raise_signal(number)
        assert stop.asked
    assert signal.getsignal(number) is before


def test_the_first_signal_raises_an_error_and_the_second_one_does_not_disturb_the_end() -> None:
    with StopSignals(raise_error=True) as stop:
        with pytest.raises(TryAgainError, match="asked to stop between two segments"):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked

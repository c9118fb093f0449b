"""Compute what `bloomery plan` shows: reports, risk, suggestions, simulations, log checks, figures and pages."""

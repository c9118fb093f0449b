"""Settings that every test shares."""

from hypothesis import HealthCheck, settings

# Time limits on single examples fail on a busy machine and say nothing about the code; derandomised, so that a green
# run stays green and a failure is found again by running again.
settings.register_profile("bloomery", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bloomery")

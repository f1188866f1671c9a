"""What holds for all tests: how long one example of a property may take says nothing on a busy machine."""

from hypothesis import HealthCheck, settings

settings.register_profile("steelyard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steelyard")

"""Facts of one phase: what each source of the telemetry says by itself, a module a source."""

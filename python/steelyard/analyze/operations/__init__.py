"""An application's operations over time, and which telemetry moves with them."""

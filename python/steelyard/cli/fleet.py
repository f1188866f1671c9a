"""``steelyard fleet``: keep a fleet's store, and ask it.

Each ``fleet_*`` module adds its commands by ``register(app)``; their options are those of ``fleet_options``.
A command imports what it needs when it runs.
"""

import typer

from steelyard.cli import (
    fleet_capacity,
    fleet_cpi,
    fleet_decide,
    fleet_import,
    fleet_locality,
    fleet_place,
    fleet_pressure,
    fleet_simulate,
    fleet_store,
    fleet_top,
)
from steelyard.cli.output import EXIT_CODES

app = typer.Typer(
    help="Keep a fleet's store, and ask it: CPI, locality, effectiveness, placement, profiles.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)

fleet_store.register(app)
fleet_import.register(app)
fleet_simulate.register(app)
fleet_decide.register(app)
fleet_top.register(app)
fleet_cpi.register(app)
fleet_locality.register(app)
fleet_place.register(app)
fleet_capacity.register(app)
fleet_pressure.register(app)

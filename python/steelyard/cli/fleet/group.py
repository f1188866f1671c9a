"""``steelyard fleet``: keep a fleet's store, and ask it.

Each module of this folder adds its commands by ``register(app)``; their options are those of ``options``.
A command imports what it needs when it runs.
"""

import typer

from steelyard.cli.fleet import capacity as fleet_capacity
from steelyard.cli.fleet import cpi as fleet_cpi
from steelyard.cli.fleet import importers as fleet_import
from steelyard.cli.fleet import numa as fleet_locality
from steelyard.cli.fleet import placement as fleet_place
from steelyard.cli.fleet import pressure as fleet_pressure
from steelyard.cli.fleet import profiles as fleet_top
from steelyard.cli.fleet import rue as fleet_decide
from steelyard.cli.fleet import simulate as fleet_simulate
from steelyard.cli.fleet import store as fleet_store
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

"""The types of ``steelyard``: what it loads from ``steelyard.api`` when it is asked for."""

from steelyard.api import (
    Figure as Figure,
)
from steelyard.api import (
    FleetStore as FleetStore,
)
from steelyard.api import (
    Reading as Reading,
)
from steelyard.api import (
    Result as Result,
)
from steelyard.api import (
    SteelyardError as SteelyardError,
)
from steelyard.api import (
    choose as choose,
)
from steelyard.api import (
    compare as compare,
)
from steelyard.api import (
    open_store as open_store,
)
from steelyard.api import (
    project as project,
)
from steelyard.api import (
    read as read,
)
from steelyard.api import (
    run as run,
)
from steelyard.api import (
    run_experiment as run_experiment,
)
from steelyard.api import (
    score as score,
)
from steelyard.api import (
    size as size,
)
from steelyard.api import (
    this_machine as this_machine,
)

__version__: str

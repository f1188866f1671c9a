"""Redis: five commands, one after the other, on one or several instances."""

"""The store of a fleet: its tables, its files, what of them counts, and the engines that read them."""

"""The page and the terminal text of a health check."""

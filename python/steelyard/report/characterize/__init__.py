"""Pages and terminal texts of a characterization."""

"""Pages and terminal texts of a comparison."""

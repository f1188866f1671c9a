"""TaoBench: a read-through cache tier under get requests."""

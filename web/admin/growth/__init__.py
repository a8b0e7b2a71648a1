"""Pages on growth: what agents learned, and what people think of it."""

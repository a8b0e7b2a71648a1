"""Pages on growth: what agents learned, what they do by themselves, and what people think of it."""

"""Pages on growth: what agents learned, who they are, and what they do by themselves."""

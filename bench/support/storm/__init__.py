"""The storm: what goes wrong, what goes on meanwhile, and what must be the same in the end."""

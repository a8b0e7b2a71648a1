"""How far what was grown is trusted, and what became of it."""

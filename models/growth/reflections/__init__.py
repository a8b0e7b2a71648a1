"""When an agent looks at itself, and what came of it."""

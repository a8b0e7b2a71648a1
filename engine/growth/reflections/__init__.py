"""An agent's look at itself: when it is due, and what comes of it."""

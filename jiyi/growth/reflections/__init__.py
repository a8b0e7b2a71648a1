"""An agent's look at itself: when it is due, and what comes of it (ZC-140, ZC-141)."""

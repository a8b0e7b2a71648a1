"""What a graph declares: its stores, and which node reads and writes which of them at which stage."""

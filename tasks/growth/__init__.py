"""Work of growth: appointments that are due, heartbeats."""

"""The way in: batches of events, and the rows that they become."""

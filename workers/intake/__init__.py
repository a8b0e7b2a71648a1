"""The intake: events from the exchange into the database, in batches, acknowledged after the commit."""

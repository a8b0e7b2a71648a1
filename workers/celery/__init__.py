"""What is added to Celery's workers and beat: reconnecting, heartbeat, watchdog, meters, logging, garbage collection, canaries."""

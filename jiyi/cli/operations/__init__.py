"""Commands that operate the service: queues, jobs, models, backups."""

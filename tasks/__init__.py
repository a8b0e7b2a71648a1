"""Celery tasks, thin: load by ids → pure function → write."""

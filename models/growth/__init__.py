"""What is stored of growth: schedules, heartbeats and their alerts."""

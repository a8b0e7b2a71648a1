"""The processes of the service and their wiring."""

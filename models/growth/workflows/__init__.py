"""What can be done with workflows."""

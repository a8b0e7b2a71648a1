"""What can be done with skills."""

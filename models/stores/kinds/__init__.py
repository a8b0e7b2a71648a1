"""What the service does for each type of store that it keeps."""

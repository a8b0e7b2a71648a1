"""What an erasure deletes and changes of each subject."""

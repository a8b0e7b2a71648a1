"""What an agent looks after by itself, and when it speaks up."""

"""What goes before an answer: chosen and put into words."""

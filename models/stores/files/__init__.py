"""What is stored of the stores of files: which there are, their chunks, what is owed for them."""

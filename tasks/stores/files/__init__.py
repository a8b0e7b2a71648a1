"""Work of the stores of files: look through the sources, index a file, search the chunks."""

"""Documents of others are parsed in child processes, each within limits of memory, time and output."""

"""The store of files: what is read, how it is cut and compared, what answers a question. No I/O."""

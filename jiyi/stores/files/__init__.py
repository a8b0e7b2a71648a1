"""The store of files: what is read, how it is cut and compared, what answers a question (DA-38…DA-47). No I/O."""

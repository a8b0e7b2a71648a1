"""Every door at once: what is tried follows from the table of operations and that of actions, so that new
ones are in by themselves.
"""

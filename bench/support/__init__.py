"""What several benchmarks share: the service under test, figures of rankings, peers and their environments,
recorded calls.
"""

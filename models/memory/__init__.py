"""Events, memory nodes and agents: tables, actions, reads. Below: ``ingestion`` (events become rows),
``nodes``, ``agents``.
"""

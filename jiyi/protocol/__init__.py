"""The contract between programs and the service: events, requests, answers, REST bodies and the broker's
declarations.
"""

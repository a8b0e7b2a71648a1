"""Requests and answers about conversations."""

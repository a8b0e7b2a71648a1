"""Requests and answers of the commands on growth."""

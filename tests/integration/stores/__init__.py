"""Tests of declared stores over PostgreSQL and Valkey."""

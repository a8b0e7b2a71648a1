"""PostgreSQL and Valkey from their wheels, in one folder."""

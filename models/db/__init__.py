"""The connections: engine, unit of work, scope and roles, COPY, Valkey and its keys."""

"""Commands by their names: on conversations, and on what agents do by themselves."""

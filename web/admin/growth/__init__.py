"""Admin pages for what agents do by themselves."""

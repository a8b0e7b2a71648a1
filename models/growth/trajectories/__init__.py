"""Steps of conversations, and the trajectories that they are compressed to, in the database."""

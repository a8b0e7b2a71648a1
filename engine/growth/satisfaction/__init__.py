"""How content a user is with what the agent did, from their last words."""

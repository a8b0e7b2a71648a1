"""What the messages of a conversation tell, by rules. The patterns and lists of words lie beside the modules as text."""

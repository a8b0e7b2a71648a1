"""What is stored of conversations: addresses, turns, memories, experiences, profiles, and when turns are looked through."""

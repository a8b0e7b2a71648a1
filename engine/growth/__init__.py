"""What an agent grows of what it lived through, and the appointments it keeps: pure logic."""

"""Pain points, their evidence and the proposals against them."""

"""The commands on growth over REST: a module for each part."""

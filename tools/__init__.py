"""Tools for those who work on Jiyi."""

"""The demonstration: a diary, a debate, and a helper, for ``jiyi demo`` and ``jiyi up --demo``."""

"""Namespaces of the client whose verbs are commands of a subject: conversations, growth, items, stores."""

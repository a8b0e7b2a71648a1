"""The contract of declared stores: items, questions, declarations."""

"""How the heads are trained: rows by writer, features, fits that leave one writer out at a time."""

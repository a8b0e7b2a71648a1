"""Jiyi in other programs' terms. Each module needs an extra of its name (:mod:`jiyi.extras`)."""

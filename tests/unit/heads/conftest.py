"""The judges that the package brings."""

from tests.unit.conversations.conftest import judges

__all__ = ["judges"]

"""Jiyi 记忆: a self-hosted, event-driven memory service for AI agents.

``from jiyi import Client`` is what an agent's program needs. Importing this package connects to nothing.
"""

from jiyi.client.client import Client
from jiyi.errors import JiyiError

__version__ = "0.1.0"
__all__ = ["Client", "JiyiError", "__version__"]

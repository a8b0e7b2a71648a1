"""From chains of tools that worked to workflows, and how those are run."""

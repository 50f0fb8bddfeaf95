"""The page that a consortium puts on the table: who gains, who loses, and which setting is fair."""

from lossgap.reporting.compose import Report, report

__all__ = ["Report", "report"]

"""Who gains and who loses by a model from any framework: losses go in, a page and a verdict come out."""

from lossgap.auditing.verdict import Audit, audit

__all__ = ["Audit", "audit"]

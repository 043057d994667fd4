"""What training minimises; an objective knows models only as something that gives logits."""

from clearhead.objectives.cross_entropy import CrossEntropy
from clearhead.objectives.loss import Loss

__all__ = ["CrossEntropy", "Loss"]

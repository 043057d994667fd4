"""The loop: updates, schedules, checkpoints, and the handlers around them."""

"""The ground floor: errors, atomic files, seeds, the log."""

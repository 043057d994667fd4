"""Pages to look at a model with: self-contained HTML, written by a command, opened in any browser."""

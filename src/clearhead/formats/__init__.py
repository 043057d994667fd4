"""Text in, text out: line files and parallel files."""

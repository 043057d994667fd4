"""Models for other programs, and models of others for this one; each is held to what the other program makes of it."""

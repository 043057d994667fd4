"""`clearhead inspect`: one sentence or a sample through a translator, with what its attention read and the evidence."""

"""`clearhead compare`: the line-up, its training, its scores, and the files that the report is made from."""

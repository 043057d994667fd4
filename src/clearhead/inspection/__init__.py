"""Looking inside a model: a twin that records, what it recorded, and what a search did.

`twin` copies a model with chosen modules replaced, sharing every tensor; `recording_twin` replaces them by recorders;
`replay` reads one pair with such a twin; `account_of_search` tells a beam search step by step.
"""

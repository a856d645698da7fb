"""A cluster of real processes over real servers, all of which are killed: what was told stays, what is once is once."""

"""Where a value came from: the words of the user, a field of a result, the prose of one, or nowhere."""

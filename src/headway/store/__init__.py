"""Two stores with one list of verbs (`ops`)."""

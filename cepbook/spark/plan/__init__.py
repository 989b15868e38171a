"""How a statement runs, decided from its plan: by which key, how far back, by Spark itself, in one order."""

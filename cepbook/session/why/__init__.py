"""Why a row was delivered (`fired`), and why an event led to none (`fallen`)."""

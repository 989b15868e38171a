"""Why a row was delivered, why an event led to nothing, marble diagrams."""

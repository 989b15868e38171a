"""Tables and reports of what is deployed and held."""

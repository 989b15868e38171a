"""Single values between Python and EPL: what fits which type, times, parameters, rows of reference tables."""

"""match_recognize: `code` writes the functions of conditions and measures, `matches` is the view that runs the
automaton of `cepbook.lang.plan.row_pattern` over rows, `fold` aggregates the rows of a match.
"""

"""Event patterns at run time: compiled once for a statement, matched by a `Matcher` for each state.

``patterns.code`` lowers expressions, ``patterns.matcher`` holds the tree of started sub-expressions (``node``,
``operators``, ``timers``, ``atoms``), ``patterns.index`` finds the waiting atoms of an event by key.
"""

"""Event patterns at run time.

A pattern is compiled once per statement into a tree of *specs*. Each state of the statement (one per context partition)
has a `Matcher`, which starts *state nodes* from the specs and counts on two sources of progress: events that satisfy
waiting *atoms*, and due timers.

::

    every a=A -> (b=B(id = a.id) where timer:within(10 sec))

    EveryNode ── FollowedByNode ─┬─ WaitingAtom a
                                 └─ WithinNode ── WaitingAtom b      (started when a matched)

A node notifies its parent that it became true, with the match so far, or that it can never become true. It never looks
at its siblings, so every operator is defined by what it does on these two notifications (`state_node`).

Cost per event does not grow with the number of partial matches: waiting atoms are found by the equalities and ranges of
their filters (`atom_filters`, `atom_index`).
"""

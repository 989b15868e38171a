"""Scenario files: Markdown that reads as documentation and runs as a test.

With cepbook installed, ``pytest some/folder`` runs every scenario file below the folder; nothing need be configured. A
file is a scenario file if one of its sections is a case, and a case is a heading (of any level) with fenced blocks
below it: something to run (``epl`` or the name of another dialect, see `cepbook.dialects.registry`) and something to
check (``trace``, ``invalid``, ``invalid-query``). Such blocks without a heading above them are an error; other Markdown
files are left alone. Each case is one test, ``file.md::heading``.

A case
------
::

    ## length_batch releases full batches

    The previous batch leaves in the same delivery.

    tags: window, length_batch

    ```config
    start = 1000
    ```

    ```epl
    create schema Tick(symbol string, price double);
    @name('out') select irstream symbol, price from Tick#length_batch(2)
    ```

    ```trace
    Tick symbol="A" price=10.0
    Tick symbol="B" price=20.0
        out + symbol="A" price=10.0
            + symbol="B" price=20.0
    @2000
    iterate out
        = (none)
    ```

The blocks act in the order in which they stand.

=====================================  ===================================================================
``config``                             ``key = JSON`` lines, see below
``epl [id]``                           a module to compile and deploy; the first one is called ``main``
``DIALECT NAME``                       a query of another dialect (``apama NAME``), deployed as statement NAME
``trace``                              stimuli and the reactions that they cause
``invalid [dialect]``                  text that must be refused with a diagnostic
``invalid-query``                      a fire-and-forget query that must be refused
``error``                              below one of those: the diagnostic as the user sees it; optional
=====================================  ===================================================================

Keys of ``config``: ``start`` (the initial clock in ms), ``listen`` (the statements whose deliveries count, ``"*"``
for every one; without it all that have ``@name``), ``variable NAME = {"type": …, "value": …, "constant": …}``, and the
settings of the engine: ``integerDivision``, ``iterableUnbound``, ``defaultStreamSelector``, ``prioritized``,
``microseconds``, …. ``prioritized`` is true where a case does not say; recorded ones, which have an ``oracle``, may
then agree without it.

Traces
------
Flush left is a stimulus, indented below it are its reactions.

===============================  =============================================================================
``Tick a=1 b="x"``               an event; properties that are left out are null; 1 for a double means 1.0
``@1500``                        the clock moves to 1500 ms; everything due fires in order
``@1500 stepping``               the same, stopping at every due time
``iterate out``                  the rows of a statement's iterator
``query select …``               the rows of a fire-and-forget query
``set V = 5``, ``get V``         a variable; ``get`` reads one row with the column ``value``
``undeploy id``                  remove a deployment
``partitions Ctx``               the live partitions of a context
``together A x=1 ;; B y=2``      events that arrive together
``table NAME = [[…], …]``        the rows of a reference table
``deployed``                     first line only: has the reactions to the block above as its own
===============================  =============================================================================

===============================  =============================================================================
``out + a=1``                    a delivery of ``out``; more rows of the same delivery stand aligned below it
``out - a=1``                    the same with the remove stream; insert rows come before remove rows
``out (empty)``                  a delivery without rows; counts only in cases with the tag ``forced``
``= a=1``, ``= (none)``          rows that were read
``! name``, ``! runtime``        the statement ``name`` failed; anything failed
===============================  =============================================================================

Values are JSON. ``1`` is an integer and ``1.0`` a floating value; the difference counts. Names that are no
identifiers stand in backticks: `` `count(*)`=2 ``. With the tag ``unordered`` the order of the rows within a delivery
or reading does not matter. Cases may call ``computeHash(x)`` and ``concatStr(a, b)``.

Recording
---------
``pytest --record`` fills in the reactions of stimuli and the ``error`` blocks, and rewrites those that differ. Read
the difference before you commit it. Cases with ``oracle: …`` on their ``tags`` line were recorded from another
implementation; their reactions are never rewritten.

An engine that does not cover a case is declared in it with the reason, and the test is skipped; when the declaration
and the engine disagree, in either direction, the test fails::

    refuses: rows — pattern guards with expressions are not supported yet

Modules
-------
`cepbook.testing.scenario` reads files, `cepbook.testing.runner` runs a case on an engine,
`cepbook.testing.report` tells the difference, `cepbook.testing.record` writes it back, `cepbook.testing.plugin`
is the pytest plugin, and ``python -m cepbook.testing.sweep`` counts how an engine does on a folder.
"""

"""Every data window and derived-value window against a naive one, on random histories.

`references` holds the naive windows, a few lines each, written from the documentation and the recorded scenarios and
not from the engine. `texts` builds them from EPL text, so that the statement under test and its reference cannot drift
apart. `test_references` holds them against the recorded scenarios of ``tests/corpus`` and against hand-written traces,
`test_histories` holds the engine against them: 1,000 histories per window, after each step the delivery and what the
statement's iterator shows, and the same histories through the batch entry.
"""

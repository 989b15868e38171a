"""Relations: sets of events or rows with contents, changes and indexes, read by key.

Windows of joins and subqueries, named windows and tables are relations; `relation` holds one, `access` finds out of a
condition how it is read.
"""

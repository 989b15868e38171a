"""Snapshots: a whole runtime, or one context partition, as bytes from which a runtime continues.

- `value_graph` writes state as a flat table of nodes.
- `runtime_parts` names the parts of a program that state refers to.
- `runtime_snapshot` and `partition_snapshot` define the content, `file_format` the file.

Loading a snapshot compiles its modules, which are EPL, and evaluates nothing: all state comes from the snapshot.
"""

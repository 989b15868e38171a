"""Snapshots: all of a runtime as bytes, of which another runtime is made that goes on as the first would have.

`graph` lays state flat, `parts` names what state refers to, `whole` says what a snapshot holds, `form` what a file
looks like. Nothing in a file is executed when it is loaded, except that its modules, which are EPL, are compiled.
"""

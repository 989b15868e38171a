"""The Python side of the playground: a page that runs EPL in the reader's browser (`docs/playground`).

The page sends requests as JSON to a worker, which passes them to `requests.Playground`. Nothing here needs a browser,
pandas or IPython.
"""

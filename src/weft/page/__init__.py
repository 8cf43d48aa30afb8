"""The page of `weft serve`: pure functions from records to HTML, and the files of its shell.

The routes that read the records are in `api.http.page`; docs/design/page.md says how to add a view.
"""

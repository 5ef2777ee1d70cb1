"""Rows beside a run: ``requests`` and ``chunks`` of every verb that sends requests, written as they come.

`schema` says what a row is, `sheet` takes them, `book` hands them to a child process that writes parts (`writer`,
`parts`), `table` makes one file of the parts and reads them.
"""

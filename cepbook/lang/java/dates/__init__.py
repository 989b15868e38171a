"""Dates and times as values: reading, changing, comparing, formatting and parsing them (functions, no state).

They follow Java, from which EPL has its date-time methods: `java.util.Calendar` for whole numbers, dates and calendars,
`java.time` for local and zoned date-times (Esper reference, chapter Date-Time Methods).
"""

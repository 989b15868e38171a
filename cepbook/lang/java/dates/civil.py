"""Days as dates: day numbers since 1970-01-01, with the calendar reform of 1582 or (`iso`) without."""

from __future__ import annotations

_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_REFORM = -141_427  # 1582-10-15, the first day of the Gregorian calendar
_MARCH = 719_468  # days from 0000-03-01 to 1970-01-01
_JULIAN_MARCH = 719_470  # and from the same date of the Julian calendar


def date_of(days: int, iso: bool = False) -> tuple[int, int, int]:
    """Return (year, month, day) of a day number; the year before 1 is 0."""
    if not iso and days < _REFORM:
        cycle, of_cycle = divmod(days + _JULIAN_MARCH, 1461)
        year_of_cycle = min(of_cycle // 365, 3)
        return _from_march(cycle * 4 + year_of_cycle, of_cycle - 365 * year_of_cycle)
    era, of_era = divmod(days + _MARCH, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    day_of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    return _from_march(era * 400 + year_of_era, day_of_year)


def _from_march(year: int, day_of_year: int) -> tuple[int, int, int]:
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def days_of(year: int, month: int, day: int, iso: bool = False) -> int:
    """Return the day number of a date. Months beyond 1 to 12 and days beyond their month carry over."""
    more, month = divmod(month - 1, 12)
    year += more
    before_march = month < 2
    of_year = (153 * (month + 10 if before_march else month - 2) + 2) // 5 + day - 1
    years = year - before_march
    days = 365 * years + years // 4 - years // 100 + years // 400 + of_year - _MARCH
    if not iso and days < _REFORM:
        return 365 * years + years // 4 + of_year - _JULIAN_MARCH
    return days


def month_length(year: int, month: int, iso: bool = False) -> int:
    """Return the days of a month."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0 or (year < 1582 and not iso))
    return _MONTHS[month - 1] + (month == 2 and leap)


def weekday(days: int) -> int:
    """Return 0 for Monday to 6 for Sunday."""
    return (days + 3) % 7


def us_week(days: int, year: int) -> tuple[int, int]:
    """Return (week year, week) of a day in `year`. Weeks begin on Sunday; the week of 1 January is the first."""
    saturday = days - (days + 4) % 7 + 6
    following = days_of(year + 1, 1, 1)
    if saturday >= following:
        return year + 1, 1
    return year, (days - _first_sunday(year)) // 7 + 1


def _first_sunday(year: int) -> int:
    first = days_of(year, 1, 1)
    return first - (first + 4) % 7


def in_us_week(year: int, week: int, like: int) -> int:
    """Return the day of week `week` of `year` on the weekday of `like`."""
    return _first_sunday(year) + 7 * (week - 1) + (like + 4) % 7


def us_weeks(year: int) -> int:
    """Return the greatest week of `year`: 53 if the last week before that of the next 1 January is full."""
    return (days_of(year + 1, 1, 1) - _first_sunday(year)) // 7

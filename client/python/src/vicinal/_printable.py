# SPDX-License-Identifier: Apache-2.0
"""Text from a server, made safe to show: raw, it could move a terminal's cursor, change its title or direction, or add lines that look like
the program's own."""


def printable(text: str) -> str:
    """One line of ordinary text, in any language. Controls, line breaks, bidirectional marks and invisible characters are escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)

"""SASLprep (RFC 4013): one form for passwords that look the same but are different characters.

A password may be typed composed or decomposed, with a no-break space or with a soft hyphen in it,
depending on the keyboard. SCRAM derives a key from its bytes, so both ends must prepare it alike.
The profile is of Unicode 3.2. What it forbids or does not know, emoji for example, can not be
prepared; then the text is used as it is, which is also what clients that prepare nothing do.
User names are ASCII here (``model.user_name``): preparing them would change nothing.
"""

import stringprep
from unicodedata import ucd_3_2_0

_FORBIDDEN = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,  # not assigned
)


def prepared(text: str) -> str:
    """The prepared form of a password, or the text itself if it has none."""
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    normal = ucd_3_2_0.normalize("NFKC", mapped)
    return normal if normal and _is_allowed(normal) else text


def _is_allowed(text: str) -> bool:
    if any(is_in(character) for character in text for is_in in _FORBIDDEN):
        return False
    right_to_left = [stringprep.in_table_d1(character) for character in text]
    if not any(right_to_left):
        return True
    has_left_to_right = any(map(stringprep.in_table_d2, text))
    return right_to_left[0] and right_to_left[-1] and not has_left_to_right

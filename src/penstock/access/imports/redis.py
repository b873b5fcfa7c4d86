"""A Redis ACL file (``aclfile``, or lines of ``ACL LIST``).

==========================  ====================================================================
in Redis                    here
==========================  ====================================================================
``user NAME on|off``        a user with the role ``redis-NAME``; ``off`` is disabled
``#HEX``                    a secret: Redis keeps SHA-256 of a password, as we do of secrets
``&channel``                ``allow publish,subscribe``
``~key``, ``%RW~key``       ``allow publish,read,work`` on the stream of that name
``%R~key``, ``%W~key``      ``allow read``, ``allow publish,work``
``allkeys``, ``~*``         on ``#``; ``allchannels`` and ``&*`` likewise
``resetkeys`` and so on     forgets what came before, as in Redis
``+``, ``-``, ``allcommands``  commands are not imported: actions and topics decide here
==========================  ====================================================================

A pattern becomes a filter if it is a name, a name and ``/*``, or ``*`` alone. Others (``a:*``,
``[ab]``, ``?``) have no filter that matches the same topics: they are refused, like ``>password``
(clear text), ``nopass`` (no proof at all) and selectors.
"""

from collections.abc import Iterator

from penstock.access.documents import AccessDocument, RolePart, UserPart
from penstock.access.imports.faults import ImportFault
from penstock.trust.rows import NAME, NAME_FAULT
from penstock.trust.rules import parse_rule
from penstock.wire.resp.names import topic_of

FILE = "Redis ACL file"
DIGEST_DIGITS = 64
LINE_CHARACTERS_MAX = 65_536
LINES_MAX = 100_000

_GLOB = set("*?[]\\")
_KEY_ACTIONS = {"R": "read", "W": "publish,work", "RW": "publish,read,work"}
_REFUSED = {
    ">": "a password in clear text; let Redis write it as a hash: ACL SAVE",
    "<": "a password in clear text",
    "(": "selectors have no counterpart: write a role by hand",
}
_IGNORED = {
    "allcommands",
    "clearselectors",
    "nocommands",
    "sanitize-payload",
    "skip-sanitize-payload",
}


def imported(text: str) -> AccessDocument:
    """Raises ImportFault."""
    users: dict[str, UserPart] = {}
    roles: dict[str, RolePart] = {}
    for number, words in _lines(text):
        name = words[1]
        if name in users:
            raise ImportFault(FILE, number, f"the user {name} is there twice")
        found = _User(number)
        for word in words[2:]:
            found.take(word)
        users[name] = UserPart(
            (f"redis-{name}",),
            secrets=tuple(found.digests),
            disabled=not found.is_on,
            note="imported from Redis",
        )
        roles[f"redis-{name}"] = RolePart(tuple(dict.fromkeys(found.keys + found.channels)))
    return AccessDocument(users, roles)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LINE_CHARACTERS_MAX or number > LINES_MAX:
            raise ImportFault(FILE, number, "the line is too long, or there are too many")
        if not line.isascii() and not _is_utf8(line):
            raise ImportFault(FILE, number, "not UTF-8")
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        is_user = words[0] == "user" and len(words) > 1
        if not is_user or not all(NAME.fullmatch(name) for name in (words[1], f"redis-{words[1]}")):
            raise ImportFault(FILE, number, f"not user NAME and its rules; {NAME_FAULT}")
        yield number, words


def _is_utf8(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


class _User:
    """One line, word by word; later words add to or undo earlier ones, as in Redis."""

    def __init__(self, line: int) -> None:
        self._line = line
        self.is_on = False
        self.digests: list[str] = []
        self.keys: list[str] = []
        self.channels: list[str] = []

    def take(self, word: str) -> None:
        if word in {"on", "off"}:
            self.is_on = word == "on"
        elif word[0] in _REFUSED:
            raise self._fault(word[0], _REFUSED[word[0]])
        elif word == "nopass":
            raise self._fault(word, "a user without a password: add one with ACL SETUSER")
        elif word[0] in "#!":
            self._take_digest(word)
        elif not self._take_reset(word) and not self._take_pattern(word):
            if word[0] in "+-" or word in _IGNORED:
                return
            raise self._fault(word, "not a rule that is known here")

    def _take_digest(self, word: str) -> None:
        digest = word[1:].lower()
        if len(digest) != DIGEST_DIGITS or not set(digest) <= set("0123456789abcdef"):
            raise self._fault(word[0], "not 64 hexadecimal digits")
        if word[0] == "#":
            self.digests.append(digest)
        elif digest in self.digests:
            self.digests.remove(digest)

    def _take_reset(self, word: str) -> bool:
        match word:
            case "resetkeys":
                self.keys = []
            case "resetchannels":
                self.channels = []
            case "resetpass":
                self.digests = []
            case "reset":
                self.is_on, self.digests, self.keys, self.channels = False, [], [], []
            case "allkeys":
                self.keys.append(f"allow {_KEY_ACTIONS['RW']} #")
            case "allchannels":
                self.channels.append("allow publish,subscribe #")
            case _:
                return False
        return True

    def _take_pattern(self, word: str) -> bool:
        if word[0] == "&":
            self.channels.append(self._rule("publish,subscribe", word[1:]))
        elif word[0] == "~":
            self.keys.append(self._rule(_KEY_ACTIONS["RW"], word[1:]))
        elif word[0] == "%":
            access, tilde, pattern = word[1:].partition("~")
            ordered = "".join(letter for letter in "RW" if letter in access.upper())
            if not tilde or len(ordered) != len(access) or not ordered:
                raise self._fault(word, "not %R~, %W~ or %RW~")
            self.keys.append(self._rule(_KEY_ACTIONS[ordered], pattern))
        else:
            return False
        return True

    def _rule(self, actions: str, pattern: str) -> str:
        text = f"allow {actions} {self._filter(pattern)}"
        try:
            parse_rule(text)
        except ValueError as error:
            raise self._fault(pattern, str(error)) from None
        return text

    def _filter(self, pattern: str) -> str:
        if pattern == "*":
            return "#"
        below = pattern.endswith("/*")
        name = pattern[:-2] if below else pattern
        if not name or set(name) & _GLOB:
            raise self._fault(pattern, "this pattern is no topic filter: write a role by hand")
        topic = topic_of(name.encode()).decode()
        return f"{topic}/+/#" if below else topic  # without the topic itself, as the pattern

    def _fault(self, word: str, why: str) -> ImportFault:
        return ImportFault(FILE, self._line, f"{word!r}: {why}")

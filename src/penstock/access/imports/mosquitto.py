"""Mosquitto's ``password_file`` and ``acl_file``.

=====================  =========================================================================
in Mosquitto           here
=====================  =========================================================================
``NAME:HASH``          a user with that hash: ``$6$``, ``$7$`` or ``$argon2id$``
``topic`` before       a rule of the role ``anonymous``
any ``user``
``user NAME``          the role ``mosquitto-NAME`` of that user, for the topics that follow
``pattern``            a rule of the role ``mosquitto-patterns``, which all users have
``read``, ``write``    ``subscribe``, ``publish``; ``readwrite`` and no word are both
``deny``               a deny of both; it wins wherever it stands, as there
``%u``, ``%c``         the same in a ``pattern``, as whole levels; refused elsewhere
=====================  =========================================================================

An ACL file without rules allows nothing, as in Mosquitto. Without an ACL file everybody who logs in
may publish and subscribe everywhere: users then get the role ``client``.
"""

from collections.abc import Iterator

from msgspec import UNSET

from penstock.access.documents import AccessDocument, RolePart, UserPart
from penstock.access.imports.faults import ImportFault
from penstock.trust.passwords import hash_fault
from penstock.trust.rows import NAME, NAME_FAULT
from penstock.trust.rules import parse_rule

PASSWORDS = "password_file"
ACL = "acl_file"
PATTERNS_ROLE = "mosquitto-patterns"
LINE_CHARACTERS_MAX = 4_096
LINES_MAX = 200_000

_ACTIONS = {"read": "subscribe", "write": "publish", "readwrite": "publish,subscribe"}


def imported(passwords: str, acl: str | None) -> AccessDocument:
    """Raises ImportFault. ``acl`` None: there is no such file."""
    hashes = dict(_users(passwords))
    rules = _Rules() if acl is None else _read_acl(acl)
    names = [*hashes, *(name for name in rules.by_user if name not in hashes)]
    common = ("client",) if acl is None else (PATTERNS_ROLE,) if rules.patterns else ()
    users = {
        name: UserPart(
            (*([_role_name(name)] if name in rules.by_user else []), *common),
            hashes.get(name, UNSET),
            note="imported from Mosquitto",
        )
        for name in names
    }
    roles = {_role_name(name): RolePart(tuple(texts)) for name, texts in rules.by_user.items()}
    if rules.patterns:
        roles[PATTERNS_ROLE] = RolePart(tuple(rules.patterns))
    if acl is not None:
        roles["anonymous"] = RolePart(tuple(rules.anonymous), note="imported from Mosquitto")
    return AccessDocument(users, roles)


def _role_name(user: str) -> str:
    return f"mosquitto-{user}"


def _lines(name: str, text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LINE_CHARACTERS_MAX or number > LINES_MAX:
            raise ImportFault(name, number, "the line is too long, or there are too many")
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


# ── passwords ─────────────────────────────────────────────────────────────────────────────────


def _users(text: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for number, line in _lines(PASSWORDS, text):
        name, colon, hashed = line.partition(":")
        if not colon or not _is_name(name):
            raise ImportFault(PASSWORDS, number, f"not NAME:HASH; {NAME_FAULT}")
        if name in seen:
            raise ImportFault(PASSWORDS, number, f"the user {name} is there twice")
        if not hashed.startswith("$"):
            what = "a password in clear text; hash the file first: mosquitto_passwd -U FILE"
            raise ImportFault(PASSWORDS, number, what)
        if fault := hash_fault(hashed):
            raise ImportFault(PASSWORDS, number, fault)
        seen.add(name)
        yield name, hashed


def _is_name(name: str) -> bool:
    """Whether it is a user name, and leaves room for the name of its role."""
    return bool(NAME.fullmatch(name)) and bool(NAME.fullmatch(_role_name(name)))


# ── rules ─────────────────────────────────────────────────────────────────────────────────────


class _Rules:
    """The rules of an ACL file."""

    def __init__(self) -> None:
        self.anonymous: list[str] = []
        self.patterns: list[str] = []
        self.by_user: dict[str, list[str]] = {}


def _read_acl(text: str) -> _Rules:
    rules = _Rules()
    target = rules.anonymous
    for number, line in _lines(ACL, text):
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word == "user" and _is_name(rest):
            target = rules.by_user.setdefault(rest, [])
        elif word == "user":
            raise ImportFault(ACL, number, f"not a user name; {NAME_FAULT}")
        elif word == "topic" and rest:
            if "%u" in rest or "%c" in rest:
                raise ImportFault(ACL, number, "%u and %c have a meaning in a pattern only")
            target.append(_rule(number, rest))
        elif word == "pattern" and rest:
            rules.patterns.append(_rule(number, rest))
        else:
            raise ImportFault(ACL, number, "neither user, topic nor pattern")
    return rules


def _rule(number: int, rest: str) -> str:
    access, _, topic_filter = rest.partition(" ")
    topic_filter = topic_filter.strip()
    if access == "deny" and topic_filter:
        text = f"deny publish,subscribe {topic_filter}"
    elif access in _ACTIONS and topic_filter:
        text = f"allow {_ACTIONS[access]} {topic_filter}"
    else:
        text = f"allow publish,subscribe {rest}"
    try:
        parse_rule(text)
    except ValueError as error:
        raise ImportFault(ACL, number, str(error)) from None
    return text

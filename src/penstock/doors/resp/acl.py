"""ACL: who the client is, who there is and what they may do, in the form that Redis has for it.

Users, roles and rules are Penstock's, so commands that change them name the ``penstock`` command to
use. What Redis calls a category of commands is an action here, and each rule of a user is shown as
a selector: ``(+@publish ~plant/# &plant/#)``. Passwords are not shown, not even as hashes.
"""

import secrets

from penstock.access.denials import Denial
from penstock.doors.resp.access import ADMIN, OPEN, Demand, Used, would_be_met
from penstock.doors.resp.calls import (
    DEFAULT_USER,
    OK,
    Call,
    Commands,
    Spec,
    command_fault,
    flat,
    with_topics,
)
from penstock.doors.resp.faults import NOT_AN_INTEGER, CommandError, shown
from penstock.trust.book import AccessBook
from penstock.trust.principal import Principal
from penstock.trust.rights import ALL_RIGHTS, Rights
from penstock.trust.rules import TOPICLESS, Action, Rule
from penstock.wire.resp import encode
from penstock.wire.resp.names import name_of

LOGGED = 10  # entries of ACL LOG without a number, as in Redis
GENERATED_BITS = 256
GENERATED_BITS_MAX = 4_096

HELP = (
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all categories (the actions of rules), or commands inside a category.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Return whether the user can execute the given command without executing it.",
    "GENPASS [<bits>]",
    "    Generate a secure password. The optional `bits` argument can be used.",
    "GETUSER <username>",
    "    Get the user's details.",
    "LIST",
    "    Show users and their rules.",
    "LOG [<count> | RESET]",
    "    Show what was denied lately.",
    "USERS",
    "    List all the usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Print this help.",
)


def _whoami(call: Call) -> None:
    """The name of the user of this connection."""
    call.value(call.connection.user)


def _users(call: Call) -> None:
    """The names of all users."""
    call.value(list(_names(call.door.broker.access)))


def _names(book: AccessBook) -> list[str]:
    return sorted(book.users) or [DEFAULT_USER]


def _rights(book: AccessBook, name: str) -> Rights | None:
    """What a user may do; None if there is no such user."""
    if book.is_open and name == DEFAULT_USER:
        return ALL_RIGHTS
    return book.rights_of(name) if name in book.users else None


def _list(call: Call) -> None:
    """All users with their rules, a line for each."""
    book = call.door.broker.access
    call.value([_line(book, name) for name in _names(book)])


def _line(book: AccessBook, name: str) -> str:
    rights = _rights(book, name)
    rules = [named.rule for named in rights.rules()] if rights else []
    selectors = [
        f"({' '.join(map(str, filter(None, _selector(rule).values())))})" for rule in rules
    ]
    return " ".join(["user", name, _state(book, name), "-@all", *selectors])


def _state(book: AccessBook, name: str) -> str:
    user = book.users.get(name)
    return "off" if user is not None and user.is_disabled else "on"


def _selector(rule: Rule) -> dict[encode.Value, encode.Value]:
    sign = "+" if rule.allows else "-"
    actions = [action for action in Action if action & rule.actions]
    is_about_topics = bool(rule.actions & ~TOPICLESS)
    topics = rule.topic_filter or "*" if is_about_topics else ""
    return {
        "commands": " ".join(f"{sign}@{action.word}" for action in actions),
        "keys": f"~{topics}" if topics else "",
        "channels": f"&{topics}" if topics else "",
    }


def _getuser(call: Call) -> None:
    """What is known of a user: ACL GETUSER name."""
    book, name = call.door.broker.access, call.args[2].decode(errors="replace")
    rights = _rights(book, name)
    if rights is None:
        call.reply(encode.null(call.connection.protocol))
        return
    selectors = [_selector(named.rule) for named in rights.rules()]
    user = book.users.get(name)
    call.value(
        {
            "flags": [_state(book, name)],
            "passwords": [],
            "commands": "-@all",
            "keys": "",
            "channels": "",
            "selectors": selectors,
            "roles": list(user.roles) if user else [],
        }
    )


def _cat(call: Call) -> None:
    """Actions of rules, or the commands that need one: ACL CAT [action]."""
    words = {action.word: action for action in Action}
    if len(call.args) == 2:
        call.value(list(words))
        return
    asked = call.args[2].decode(errors="replace").lower()
    if asked not in words:
        call.fail(f"ERR Unknown category '{shown(call.args[2])}'")
        return
    commands = flat(call.connection.commands)
    call.value([name for name, spec in commands if words[asked] in spec.access.actions])


def _dryrun(call: Call) -> None:
    """Whether a user may run a command: ACL DRYRUN name command [argument …]."""
    book, name, args = call.door.broker.access, call.args[2], call.args[3:]
    rights = _rights(book, name.decode(errors="replace"))
    spec = call.connection.commands.get(args[0].upper())
    chosen = spec.chosen(args) if spec else None
    if rights is None:
        call.fail(f"ERR User '{shown(name)}' not found")
    elif spec is None or chosen is None:
        call.fail(f"ERR Command '{shown(args[0])}' not found")
    elif not chosen.fits(len(args)):
        call.fail(command_fault(args, spec))
    else:
        principal = Principal(name.decode(errors="replace"), rights)
        demand = _unmet(call, principal, chosen, args)
        full_name = spec.full_name(args).lower()
        call.value(_denied(demand, full_name) if demand else "OK")


def _unmet(call: Call, principal: Principal, spec: Spec, args: list[bytes]) -> Demand | None:
    try:
        demands = list(spec.access.demands(with_topics(args, spec.keys), spec.keys))
    except CommandError:
        return None
    admission = call.door.admission
    return next((each for each in demands if not would_be_met(admission, principal, each)), None)


def _denied(demand: Demand, command: bytes) -> str:
    if demand.used is Used.COMMAND:
        return f"This user has no permissions to run the '{shown(command)}' command"
    name = shown(name_of(demand.topic))
    return f"This user has no permissions to access the '{name}' {demand.used.value}"


def _log(call: Call) -> None:
    """What was denied lately, newest first: ACL LOG [count | RESET]."""
    denials, asked = call.door.admission.denials, call.args[2:]
    if len(asked) > 1 or not all(word.upper() == b"RESET" or word.isdigit() for word in asked):
        call.fail(NOT_AN_INTEGER)
    elif asked and not asked[0].isdigit():
        denials.clear()
        call.reply(OK)
    else:
        count, now_ms = int(asked[0]) if asked else LOGGED, call.door.wall_ms()
        entries = enumerate(denials.latest(count))
        call.value([_entry(number, denial, now_ms) for number, denial in entries])


def _entry(number: int, denial: Denial, now_ms: int) -> encode.Value:
    is_topicless = bool(denial.action & TOPICLESS)
    is_channel = denial.action is Action.SUBSCRIBE
    user = denial.user or DEFAULT_USER
    return {
        "count": 1,
        "reason": "command" if is_topicless else "channel" if is_channel else "key",
        "context": denial.door,
        "object": denial.action.word if is_topicless else name_of(denial.topic),
        "username": user,
        "age-seconds": f"{max(now_ms - denial.time_ms, 0) / 1000:.3f}",
        "client-info": f"addr={denial.address} user={user} cmd={denial.action.word}",
        "entry-id": number,
        "timestamp-created": denial.time_ms,
        "timestamp-last-updated": denial.time_ms,
    }


def _genpass(call: Call) -> None:
    """A random password, in hexadecimal: ACL GENPASS [bits]."""
    bits = call.args[2] if len(call.args) > 2 else b"%d" % GENERATED_BITS
    if not bits.isdigit() or not 0 < int(bits) <= GENERATED_BITS_MAX:
        call.fail(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a"
            f" positive number up to {GENERATED_BITS_MAX}"
        )
        return
    digits = -(-int(bits) // 4)
    call.value(secrets.token_hex(-(-digits // 2))[:digits])


_INSTEAD = {
    b"SETUSER": "use 'penstock users add NAME' and 'penstock roles add NAME', on any node",
    b"DELUSER": "use 'penstock users remove NAME', on any node",
    b"SAVE": "they are in the journal, where every change is stored at once;"
    " 'penstock access export' writes them to a file",
    b"LOAD": "use 'penstock access plan FILE' and 'penstock access apply FILE'",
}


def _refuse(call: Call) -> None:
    """Refused: users are changed by the penstock command."""
    subcommand = call.args[1].upper()
    what = f"ACL {subcommand.decode()} is not supported: users are Penstock's own"
    call.fail(f"ERR {what}; {_INSTEAD[subcommand]}")


def _help(call: Call) -> None:
    """What ACL can do."""
    call.reply(encode.array([encode.simple(line) for line in HELP]))


_FLAGS = ("noscript", "loading", "stale")
_ADMIN_FLAGS = ("admin", *_FLAGS)

COMMANDS: Commands = {
    b"ACL": Spec(
        _help,
        -2,
        OPEN,
        subcommands={
            b"WHOAMI": Spec(_whoami, 2, OPEN, flags=_FLAGS),
            b"CAT": Spec(_cat, -2, OPEN, flags=_FLAGS),
            b"GENPASS": Spec(_genpass, -2, OPEN, flags=_FLAGS),
            b"LIST": Spec(_list, 2, ADMIN, flags=_ADMIN_FLAGS),
            b"USERS": Spec(_users, 2, ADMIN, flags=_ADMIN_FLAGS),
            b"GETUSER": Spec(_getuser, 3, ADMIN, flags=_ADMIN_FLAGS),
            b"DRYRUN": Spec(_dryrun, -4, ADMIN, flags=_ADMIN_FLAGS),
            b"LOG": Spec(_log, -2, ADMIN, flags=_ADMIN_FLAGS),
            b"SETUSER": Spec(_refuse, -3, ADMIN, flags=_ADMIN_FLAGS),
            b"DELUSER": Spec(_refuse, -3, ADMIN, flags=_ADMIN_FLAGS),
            b"SAVE": Spec(_refuse, 2, ADMIN, flags=_ADMIN_FLAGS),
            b"LOAD": Spec(_refuse, 2, ADMIN, flags=_ADMIN_FLAGS),
            b"HELP": Spec(_help, 2, OPEN, flags=_FLAGS),
        },
    )
}

"""Secrets that are not in the configuration itself: files, and ``${VARIABLE}`` in the file.

``admin.token_file`` and ``resp.password_file`` name files whose first line becomes the option
without ``_file``. A file that all users of the machine can read is refused. In the configuration
file, ``${NAME}`` in a secret or in the path of a file stands for an environment variable, such as
``${CREDENTIALS_DIRECTORY}/token`` under systemd.
"""

import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.config.keys import KEYS, ConfigKey
from penstock.config.problems import ConfigFault
from penstock.config.schema import Config
from penstock.config.values import decode

FILE_BYTES_MAX = 4096
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_OPTIONS = ("admin.token", "resp.password")


def expanded(key: ConfigKey, value: object, environ: Mapping[str, str]) -> object:
    """The value with variables replaced, where that is meant. Raises ConfigFault."""
    is_path = key.leaf.endswith("_file") or key.section == "tls" or key.leaf.startswith("tls_")
    if not isinstance(value, str) or not (is_path or key.form == "secret"):
        return value

    def variable(found: re.Match[str]) -> str:
        if found[1] not in environ:
            raise ConfigFault(f"there is no environment variable {found[1]}", key=key.name)
        return environ[found[1]]

    return _VARIABLE.sub(variable, value)


def with_secret_files(config: Config) -> tuple[Config, list[ConfigFault]]:
    """The configuration with the secrets that are in files, and what is wrong with these."""
    faults: list[ConfigFault] = []
    for name in _OPTIONS:
        key = KEYS[name]
        section = getattr(config, key.section)
        if not (file := getattr(section, f"{key.leaf}_file")):
            continue
        try:
            given = getattr(section, key.leaf)
            secret = decode(key, _only(name, given, file))
            section = msgspec.structs.replace(section, **{key.leaf: secret})
        except ConfigFault as fault:
            fault.key = f"{name}_file"
            faults.append(fault)
        config = msgspec.structs.replace(config, **{key.section: section})
    return config, faults


def _only(name: str, given: str, file: str) -> str:
    if given:
        raise ConfigFault(f"is set in addition to {name}", "keep one of them")
    return _read(file)


def _read(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            text = opened.read(FILE_BYTES_MAX)
            mode = Path(file).stat().st_mode
    except OSError as error:
        raise ConfigFault(f"{file} cannot be read: {error.strerror}") from None
    if mode & stat.S_IROTH:
        raise ConfigFault(f"all users of this machine can read {file}", f"chmod 600 {file}")
    lines = text.decode("utf-8", "replace").splitlines()
    if not lines or not lines[0].strip():
        raise ConfigFault(f"{file} is empty", "write the secret into its first line")
    return lines[0].strip()

"""The form of names: of users and roles."""

import re

USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
USER_NAME_FAULT = "a name has 1 to 64 letters, digits, '.', '_', '@' or '-', no sign first"

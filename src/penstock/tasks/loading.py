"""Finding an app by its name, as in ``shop.jobs:app``, for workers and their children."""

import importlib
import sys
from pathlib import Path

from penstock.errors import PenstockError
from penstock.tasks.app import App


def load_app(named: str) -> App:
    """Import ``module:attribute``, also from the current directory. Raises PenstockError."""
    module_name, _, attribute = named.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # a module that the app's own code needs: its traceback says where
        what = f"there is no module {module_name} here or in the environment"
        raise PenstockError(what, "name it as in `import`: penstock worker shop.jobs:app") from None
    except (ValueError, TypeError):  # empty, or relative
        raise PenstockError(f"{named!r} names no module", "write module:app") from None
    found = getattr(module, attribute or "app", None)
    if not isinstance(found, App):
        what = f"{module_name} has no penstock.tasks.App named {attribute or 'app'}"
        raise PenstockError(what, f"write app = App({module_name!r}) there, or name it after a :")
    return found

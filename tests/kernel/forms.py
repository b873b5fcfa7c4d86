"""Both forms of a module of the broker in one process."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from penstock import kernel


def interpreted(*names: str) -> list[ModuleType]:
    """Modules in their Python form, loaded once more beside the compiled one, in this order.

    Those that come later find the earlier ones.
    """
    known = {name: sys.modules.get(name) for name in names}
    is_compiled, kernel.is_compiled = kernel.is_compiled, False
    try:
        return [_loaded(name) for name in names]
    finally:
        kernel.is_compiled = is_compiled
        for name, module in known.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _loaded(name: str) -> ModuleType:
    origin = __import__(name, fromlist=["*"]).__file__
    spec = spec_from_file_location(name, origin)
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

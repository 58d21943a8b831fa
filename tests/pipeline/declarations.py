"""What holds for every class of a module that only declares values."""

import inspect
from dataclasses import is_dataclass
from types import ModuleType


def declared(module: ModuleType) -> list[type]:
    """The dataclasses that the module itself declares, in its order."""
    found = {o: None for o in vars(module).values() if inspect.isclass(o) and o.__module__ == module.__name__}
    return [declaration for declaration in found if is_dataclass(declaration)]


def is_value(declaration: type) -> bool:
    """Whether its instances never change and have no attributes but their fields."""
    frozen: bool = declaration.__dict__["__dataclass_params__"].frozen
    return frozen and "__slots__" in vars(declaration)

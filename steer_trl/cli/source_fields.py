"""Names of settings, read from source files with `ast`.

Importing TRL's configuration takes more than ten seconds, parsing its source less than half of one. The source is the
installed one, so the names are those of the installed version.
"""

import ast
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path


def field_names(module: str, name: str) -> set[str]:
    """Return the fields of the dataclass `name` and of its bases, without importing `module`.

    Raises:
        `LookupError`: a class or a module is not found in the sources.
    """
    home, definition = _find_class(module, name)
    names = {
        statement.target.id
        for statement in definition.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
    for base in definition.bases:
        if isinstance(base, ast.Name):
            names |= field_names(home, base.id)
    return names


def dict_keys(module: str, name: str) -> list[str]:
    """Return the keys of the dictionary that `module` assigns to `name`; `LookupError` if there is none."""
    for node in _parse(module).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict) and ast.unparse(node.target) == name:
            return [str(ast.literal_eval(key)) for key in node.value.keys if key is not None]
    raise LookupError(f"{module} assigns no dictionary to {name}")


def source_of(module: str) -> Path:
    """Return the file of an installed module, importing neither it nor its packages."""
    package, *names = module.split(".")
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(f"{package} is not an installed package")
    path = Path(spec.submodule_search_locations[0], *names)
    return path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")


def _find_class(module: str, name: str) -> tuple[str, ast.ClassDef]:
    """Return the class and the module that defines it, following imports, those for type checkers included."""
    tree = _parse(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _find_class(_imported_module(node, module), alias.name)
    raise LookupError(f"{module} has no class {name}")


def _imported_module(node: ast.ImportFrom, module: str) -> str:
    is_package = source_of(module).name == "__init__.py"
    package = module if is_package else module.rpartition(".")[0]
    return resolve_name("." * node.level + (node.module or ""), package)


@cache
def _parse(module: str) -> ast.Module:
    path = source_of(module)
    if not path.is_file():
        raise LookupError(f"{module} has no source file")
    return ast.parse(path.read_bytes())

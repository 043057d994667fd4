"""The shape of the source: small modules that say what they are, nothing that executes a file's contents."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "clearhead"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 400

# What reads a file by executing it, or lets it do so. Weights are safetensors, everything else TOML or JSON.
FORBIDDEN_IMPORTS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "torch.save", "yaml.load", "os.system"}
FORBIDDEN_KEYWORDS = {"allow_pickle": True, "weights_only": False, "shell": True, "trust_remote_code": True}


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a chain of names, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def unsafe(tree: ast.Module) -> list[str]:
    """Every place in `tree` that imports, calls or switches on something that can execute a file's contents."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [f"{node.lineno}: {a.name}" for a in node.names if a.name.split(".")[0] in FORBIDDEN_IMPORTS]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {node.module.split(".")[0]} & FORBIDDEN_IMPORTS
            names |= {f"{node.module}.{alias.name}" for alias in node.names} & FORBIDDEN_CALLS
            found += [f"{node.lineno}: {name}" for name in sorted(names)]
        elif isinstance(node, ast.Call):
            if dotted(node.func) in FORBIDDEN_CALLS:
                found.append(f"{node.lineno}: {dotted(node.func)}(")
            for keyword in node.keywords:
                value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
                if keyword.arg in FORBIDDEN_KEYWORDS and value is FORBIDDEN_KEYWORDS[keyword.arg]:
                    found.append(f"{node.lineno}: {keyword.arg}={value}")
    return found


def declares_public_names(tree: ast.Module) -> bool:
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def classes() -> dict[str, tuple[Path, ast.ClassDef]]:
    """The classes of the package by name."""
    found = {}
    for path in MODULES:
        found.update({node.name: (path, node) for node in parse(path).body if isinstance(node, ast.ClassDef)})
    return found


def bases(node: ast.ClassDef) -> set[str]:
    return {dotted(base).split(".")[-1] for base in node.bases}


def public_methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [item for item in node.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_is_a_package_to_look_at() -> None:
    assert len(MODULES) > len(list(PACKAGE.iterdir())) > 1


def test_no_module_is_long() -> None:
    lengths = {name(path): len(path.read_text(encoding="utf-8").split("\n")) for path in MODULES}
    assert {path: length for path, length in lengths.items() if length > LONGEST} == {}


def test_every_module_says_what_it_is_and_what_it_offers() -> None:
    bare = []
    for path in MODULES:
        tree = parse(path)
        if not ast.get_docstring(tree):
            bare.append(f"{name(path)}: no docstring")
        # A package that only holds modules, and __main__, offer nothing to import.
        if len(tree.body) > 1 and path.name != "__main__.py" and not declares_public_names(tree):
            bare.append(f"{name(path)}: no __all__")
    assert bare == [], "\n".join(bare)


def test_every_public_method_says_what_it_does() -> None:
    # What torch calls, what a protocol names and what a class of ours above documents is explained there.
    everything = classes()
    explained = {"forward", "extra_repr"}
    for _, node in everything.values():
        if "Protocol" in bases(node):
            explained |= {method.name for method in public_methods(node)}
    bare = []
    for path, node in everything.values():
        above = [everything[base][1] for base in bases(node) if base in everything]
        inherited = {m.name for parent in above for m in public_methods(parent) if ast.get_docstring(m)}
        for method in [] if node.name.startswith("_") else public_methods(node):
            if method.name not in explained | inherited and not ast.get_docstring(method):
                bare.append(f"{name(path)}:{method.lineno}: {node.name}.{method.name}")
    assert bare == [], "\n".join(bare)


def test_nothing_executes_what_a_file_holds() -> None:
    found = [f"{name(path)}:{place}" for path in MODULES for place in unsafe(parse(path))]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import loads",
        "import os, shelve",
        "state = torch.load(path)",
        "from torch import load",
        "yaml.load(text)",
        "value = eval(text)",
        "np.load(path, allow_pickle=True)",
        "load(path, weights_only=False)",
        "subprocess.run(line, shell=True)",
    ],
)
def test_the_unsafe_is_recognised(line: str) -> None:
    assert unsafe(ast.parse(line)), line


@pytest.mark.parametrize("line", ["model.eval()", "np.load(path)", "safetensors.torch.load_file(p)", "re.compile(p)"])
def test_the_safe_is_let_through(line: str) -> None:
    assert unsafe(ast.parse(line)) == []

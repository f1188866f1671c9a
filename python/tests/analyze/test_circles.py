"""No module of ``analyze`` leads back to itself, imports for types only included."""

import grimp

from tests.test_rust_circles import largest_circle

PACKAGE = "steelyard.analyze"


def test_no_module_leads_back_to_itself() -> None:
    graph = grimp.build_graph("steelyard", cache_dir=None, exclude_type_checking_imports=False)
    modules = {name for name in graph.modules if name.startswith(f"{PACKAGE}.")}
    imports = {
        tuple(name.split(".")): {
            tuple(one.split(".")) for one in graph.find_modules_directly_imported_by(name) if one in modules
        }
        for name in modules
    }
    assert tuple(f"{PACKAGE}.facts.cpus".split(".")) in imports[(*PACKAGE.split("."), "conditions")]
    circle = largest_circle(imports)
    assert circle == [], circle

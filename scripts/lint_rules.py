#!/usr/bin/env python3
"""The rules that no compiler checks: who may include whom, who may read the environment, how long a file may be.

usage: scripts/lint_rules.py [--self-test] [--options-table FILE]
  --self-test           instead: plants one violation of each rule in a scratch tree and expects it to be caught
  --options-table FILE  also: the README's table of variables must be the text in FILE
"""
import os
import pathlib
import re
import sys
import tempfile

SOURCES = {".hpp", ".cpp", ".h", ".c", ".cu"}
MAX_LINES = 400
TABLE_BEGIN, TABLE_END = "<!-- variables: begin -->", "<!-- variables: end -->"

# Which parts (folders under src, longest match first) may include which; "twohop" is the public header.
MAY_INCLUDE = {
    "collectives/plan": {"base", "collectives/plan"},
    "collectives/exec": {"base", "topology", "collectives/plan", "collectives/exec", "transport", "device", "bootstrap"},
    "topology": {"base", "topology"},
    "transport": {"base", "topology", "transport"},
    "device": {"base", "device"},
    "bootstrap": {"base", "device", "bootstrap"},
    "base": {"base"},
    "api": {"base", "topology", "collectives/plan", "collectives/exec", "transport", "device", "bootstrap", "api"},
    "api_mpi": {"api", "api_mpi"},
    "softnic": {"softnic"},
}
# plan is pure: no clock, thread, environment, I/O; of base only what is pure too.
PLAN_SYSTEM = re.compile(r"chrono|thread|mutex|condition_variable|atomic|future|[io]?f?stream|iostream|cstdio|stdio\.h|"
                         r"random|ctime|time\.h|unistd\.h|fcntl\.h|poll\.h|sys/.*|netinet/.*|arpa/.*|netdb\.h|spdlog/.*")
PLAN_BASE = {"base/result.hpp", "base/check.hpp", "base/bounded_json.hpp"}
PUBLIC_C = {"stddef.h", "stdint.h", "mpi.h", "twohop/twohop.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)
USING = re.compile(r"^\s*using \w[\w:]*::(\w+);", re.M)
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")
# Split, so that this file does not match itself.
ABSOLUTE = re.compile(r"(?<![\w.])/(?:" + "home|root|work|Users|mnt|opt" + r")/\w")


def part_of(path):
    return next((part for part in MAY_INCLUDE if path.startswith(part + "/")), None)


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)


def border_violations(name, text):
    """name is relative to src."""
    part = part_of(name)
    if part is None:
        return
    for kind, included in INCLUDE.findall(text):
        if kind == '"' and not included.startswith("twohop/"):
            other = part_of(included)
            if other is None:
                yield "include", f'"{included}": write the path from src/, beginning with a part of the library'
            elif other not in MAY_INCLUDE[part]:
                yield "border", f'{part} must not know {other}: it includes "{included}"'
        if part != "collectives/plan":
            continue
        if kind == "<" and PLAN_SYSTEM.fullmatch(included):
            yield "pure", f"plan has no clock, thread, environment or I/O: it includes <{included}>"
        if included.startswith("base/") and included not in PLAN_BASE:
            yield "pure", f'of base, plan may know {" and ".join(sorted(PLAN_BASE))} only: it includes "{included}"'


def unused_names(text):
    """clang-tidy would know, but takes a name for used when another file of the same unit uses it (scripts/tidy)."""
    code = without_comments(text)
    for name in USING.findall(code):
        if len(re.findall(rf"(?<!::)\b{name}\b", code)) == 0:
            yield "using", f"using ...::{name}: nothing here uses it"


def source_violations(name, text):
    """Rules of one file under src; name is relative to src."""
    yield from border_violations(name, text)
    # softnic is a library of its own, with a variable of its own.
    if name not in ("base/environment.cpp", "softnic/settings.cpp") and ENVIRONMENT.search(without_comments(text)):
        yield "environment", "only base/environment.cpp reads the environment: add a row to the table in base/options.cpp"
    if re.search(r"\bfmt::print\(", without_comments(text)):
        yield "fmt::print", "it throws where the file cannot be written: fmt::format, then std::fputs"
    yield from unused_names(text)
    lines = text.count("\n")
    if lines > MAX_LINES:
        yield "length", f"{lines} lines; at {MAX_LINES} a file has taken in a second concept: split it"
    if not text.startswith("//"):
        yield "first comment", "the first line must be a comment that says which question the file answers"


def public_violations(name, text):
    if not name.endswith(".h"):
        return
    for _, included in INCLUDE.findall(text):
        if included not in PUBLIC_C or (included == "mpi.h" and name != "twohop_mpi.h"):
            yield "public header", f"<{included}>: the C headers need only {', '.join(sorted(PUBLIC_C))}"


def text_violations(text):
    for match in ABSOLUTE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield "absolute path", f"line {line}: a path of one machine has no place in the tree"


def readme_violations(readme, table):
    begin, end = readme.find(TABLE_BEGIN), readme.find(TABLE_END)
    if begin < 0 or end < begin:
        yield "variables", f"the markers {TABLE_BEGIN} and {TABLE_END} are missing"
    elif readme[begin + len(TABLE_BEGIN):end].strip() != table.strip():
        yield "variables", "the table differs from src/base/options.cpp: run scripts/update-readme"


def files_below(root, *tops):
    for top in tops:
        start = root / top
        for path in sorted([start] if start.is_file() else start.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def violations(root, table=None):
    """(file, rule, message) of everything that is wrong below root."""
    for path in files_below(root, "src"):
        if path.suffix in SOURCES:
            for found in source_violations(str(path.relative_to(root / "src")), path.read_text()):
                yield (path.relative_to(root), *found)
    for path in files_below(root, "include"):
        for found in public_violations(path.name, path.read_text()):
            yield (path.relative_to(root), *found)
    tops = ("src", "include", "perf", "tests", "examples", "tools", "scripts", "cmake", "docs", "python", "README.md",
            "CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", ".ci")
    for path in files_below(root, *tops):
        text = path.read_text(errors="replace")
        for found in text_violations(text):
            yield (path.relative_to(root), *found)
        if text.startswith("#!") and not os.access(path, os.X_OK):
            yield path.relative_to(root), "executable", "it says which program runs it (#!) and cannot be run: chmod +x"
    if table is not None:
        for found in readme_violations((root / "README.md").read_text(), table):
            yield ("README.md", *found)


PLANTED = [  # file, its text, the rule that must catch it (None: nothing may)
    ("src/base/good.cpp", '// Why?\n#include "base/result.hpp"\n#include "twohop/twohop.h"\n// getenv( here is talk\n', None),
    ("src/collectives/plan/good.cpp", '// Why?\n#include <vector>\n#include "base/check.hpp"\n', None),
    ("src/base/environment.cpp", "// Why?\nchar** e = environ;\n", None),
    ("src/collectives/exec/good.cpp", '// Why?\n#include "transport/endpoint.hpp"\n#include <thread>\n', None),
    ("src/base/loud.cpp", "// Why?\nvoid f() { fmt::print(stderr, \"x\"); }\n", "fmt::print"),
    ("src/transport/good.cpp", '// Why?\n#include "topology/machine.hpp"\n', None),
    ("src/base/upward.cpp", '// Why?\n#include "device/reduce.hpp"\n', "border"),
    ("src/topology/upward.cpp", '// Why?\n#include "transport/endpoint.hpp"\n', "border"),
    ("src/transport/upward.cpp", '// Why?\n#include "collectives/plan/schedule.hpp"\n', "border"),
    ("src/transport/tcp/sideways.cpp", '// Why?\n#include "bootstrap/control.hpp"\n', "border"),
    ("src/device/sideways.cpp", '// Why?\n#  include "transport/endpoint.hpp"\n', "border"),
    ("src/bootstrap/upward.cpp", '// Why?\n#include "collectives/exec/run.hpp"\n', "border"),
    ("src/collectives/exec/upward.cpp", '// Why?\n#include "api/handle.hpp"\n', "border"),
    ("src/collectives/plan/down.cpp", '// Why?\n#include "transport/endpoint.hpp"\n', "border"),
    ("src/collectives/plan/down2.cpp", '// Why?\n#include "topology/machine.hpp"\n', "border"),
    ("src/collectives/plan/clock.cpp", "// Why?\n#include <chrono>\n", "pure"),
    ("src/collectives/plan/thread.cpp", "// Why?\n#include <thread>\n", "pure"),
    ("src/collectives/plan/socket.cpp", "// Why?\n#include <sys/socket.h>\n", "pure"),
    ("src/collectives/plan/print.cpp", "// Why?\n#include <iostream>\n", "pure"),
    ("src/collectives/plan/log.cpp", '// Why?\n#include "base/log.hpp"\n', "pure"),
    ("src/base/relative.cpp", '// Why?\n#include "result.hpp"\n', "include"),
    ("src/device/env.cpp", '// Why?\nauto x = std::getenv("X");\n', "environment"),
    ("src/device/environ.cpp", "// Why?\nchar** e = environ;\n", "environment"),
    ("src/device/using.cpp", "// Why?\nusing std::move;\nusing std::swap;\nvoid f() { swap(std::move(a), b); }\n", "using"),
    ("src/device/good.cpp", "// Why?\nusing std::swap;\nvoid f() { swap(a, b); }\n", None),
    ("src/device/long.cpp", "// Why?\n" + "\n" * MAX_LINES, "length"),
    ("src/device/mute.cpp", "int x;\n", "first comment"),
    ("include/twohop/twohop.h", "#include <mpi.h>\n", "public header"),
    ("include/twohop/twohop_mpi.h", "#include <mpi.h>\n", None),
    ("tests/path.cpp", 'open("' + "/home" + '/me/x");\n', "absolute path"),
    ("tests/script.py", "#!/usr/bin/env python3\n", "executable"),
    ("README.md", f"{TABLE_BEGIN}\nold\n{TABLE_END}\n", "variables"),
]


def self_test():
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        for name, text, _ in PLANTED:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = {(str(path), rule) for path, rule, _ in violations(root, table="new")}
    expected = {(name, rule) for name, _, rule in PLANTED if rule}
    for name, rule in sorted(expected - found):
        print(f"lint self-test: the violation of '{rule}' planted in {name} was not caught")
    for name, rule in sorted(found - expected):
        print(f"lint self-test: {name} was blamed for '{rule}' and is right")
    return 1 if found != expected else 0


def main(arguments):
    if "--self-test" in arguments:
        return self_test()
    table = None
    if "--options-table" in arguments:
        table = pathlib.Path(arguments[arguments.index("--options-table") + 1]).read_text()
    found = list(violations(pathlib.Path(__file__).resolve().parent.parent, table))
    for path, rule, message in found:
        print(f"{path}: [{rule}] {message}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

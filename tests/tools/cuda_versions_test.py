#!/usr/bin/env python3
"""Does the oldest CUDA toolkit that cmake/cuda.cmake accepts, and the oldest driver that cuda_driver.cpp promises, have
all functions that the library calls? The toolkit's own headers say since when each is there. And do the documents name
the same version?

usage: cuda_versions_test.py SOURCE_DIR INCLUDE_DIR
Exit code 77: the headers do not say it.
"""

import pathlib
import re
import sys


def since(header, pattern):
    """{function: first version, as 12050} of a header that names both."""
    first = {}
    for name, version in re.findall(pattern, header.read_text()):
        first[name] = min(int(version), first.get(name, 10**9))
    return first


def newer_than(functions, known, least):
    return sorted(f"{f} is new in {known[f]}" for f in functions if known.get(f, 0) > least)


def called(sources):
    """Functions of the runtime; what is in `#if CUDART_VERSION ...` up to #else is for newer toolkits."""
    text = "\n".join(path.read_text() for path in sources)
    text = re.sub(r"#if CUDART_VERSION >=.*?#(else|endif)", "", text, flags=re.DOTALL)
    return set(re.findall(r"\b(cuda[A-Z]\w+)\s*\(", text))


def main():
    source, include = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    runtime, driver = include / "generated_cuda_runtime_api_meta.h", include / "cudaTypedefs.h"
    if not (runtime.exists() and driver.exists()):
        print(f"skipped: {include} does not say since when functions are there")
        return 77
    wrong = []
    major, minor = re.search(r"find_package\(CUDAToolkit (\d+)\.(\d+)", (source / "cmake/cuda.cmake").read_text()).groups()
    for name in ("cmake/cuda.cmake", "README.md", "docs/gpu.md"):
        said = set(re.findall(r"toolkit\W+(?:of )?(\d+\.\d+) or newer", (source / name).read_text()))
        if said != {f"{major}.{minor}"}:
            wrong.append(f"{name} says {sorted(said)} or newer, and cmake/cuda.cmake asks for {major}.{minor}")
    sources = [p for p in (source / "src").rglob("*") if p.suffix in (".cpp", ".hpp", ".cu") and "_stub" not in p.name]
    functions, known = called(sources), since(runtime, r"}\s*(\w+?)(?:_pt[sd][zs])?_v(\d+)_params;")
    if len(functions & known.keys()) < 20:
        wrong.append(f"only {len(functions & known.keys())} functions of the runtime were found: is the test blind?")
    wrong += newer_than(functions, known, int(major) * 1000 + int(minor) * 10)

    text = (source / "src/device/cuda/cuda_driver.cpp").read_text()
    looked_up, known = set(re.findall(r'find\("(\w+)"', text)), since(driver, r"PFN_(cu\w+?)_v(\d+)\b")
    if len(looked_up & known.keys()) < 20:
        wrong.append("hardly any function of the driver was found: is the test blind?")
    wrong += newer_than(looked_up, known, int(re.search(r"kVersion = (\d+)", text)[1]))
    print("\n".join(wrong) or f"{len(functions)} functions of the runtime, {len(looked_up)} of the driver")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

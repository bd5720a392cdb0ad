#!/usr/bin/env python3
"""Compiles every header alone (-fsyntax-only), so that none relies on what others include."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

FLAGS = ["-std=c++20", "-I.", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-pragma-once-outside-header"]


def compile_alone(header: str):
    run = subprocess.run(["clang++-14", *FLAGS, "-x", "c++", header], capture_output=True, text=True, check=False)
    return header, run.returncode, run.stderr


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    os.chdir(root)
    names = subprocess.run(["git", "ls-files", "*.h"], capture_output=True, text=True, check=True).stdout.split()
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, code, text in pool.map(compile_alone, names):
            if code:
                bad += 1
                print(f"{header}:\n{text}")
    print(f"headers: {len(names) - bad} of {len(names)} compile alone")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

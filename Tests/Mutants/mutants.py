"""Breaks one condition at a time and looks whether a test notices: `make mutants`, or `.ci/mutants NAME...` for some.

The list is mutants.txt beside this. All mutants are built into one copy of the tree, below .build/mutants, each behind
a switch; CHOSEN_MUTANT chooses one when the tests run. So there is one build, and each mutant costs a run of the tests
that should notice it. Where those stay green, all tests are run. It fails where a mutant does not apply or survives.
"""

import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TREE = ROOT + "/.build/mutants/tree"
SECONDS = 600
SWITCH = """import Glibc

private let chosenMutant = getenv("CHOSEN_MUTANT").flatMap { Int(String(cString: $0)) } ?? 0

@inline(never) @usableFromInline
func isMutant(_ number: Int) -> Bool { chosenMutant == number }
"""


class Mutant:
    """One break: where, what, and which tests should notice."""

    def __init__(self, number, lines):
        head, self.file, old, new, tests = lines
        self.number = number
        self.name, self.what = re.fullmatch(r"== ([a-z-]+): (.+)", head).groups()
        assert old[:2] == "- " and new[:1] in "+~" and tests[:2] == "? ", f"{self.name} is not written as the others"
        self.before, self.old, self.after = re.fullmatch(r"(?:(.*)‹)?(.*?)(?:›(.*))?", old[2:]).groups(default="")
        self.new, self.is_text, self.tests = new[2:], new[0] == "~", tests[2:]

    def span(self, text):
        """The first and the last index of what the mutant breaks in the file's text."""
        place = self.before + self.old + self.after
        assert text.count(place) == 1, f"{self.name}: {self.file} holds {text.count(place)} times: {place}"
        start = text.index(place) + len(self.before)
        return start, start + len(self.old)

    def switched(self, old):
        """What it breaks, behind its switch. `old`: that text, maybe with the switches of mutants within it."""
        if self.is_text:
            return f'\\(isMutant({self.number}) ? "{self.new}" : "{old}")'
        if self.new:
            return f"(isMutant({self.number}) ? ({self.new}) : ({old}))"
        return f"if !isMutant({self.number}) {{ {old} }}"


def applied(text, mutants):
    """A file's text with its mutants behind their switches. A mutant may lie within another one."""
    spans = sorted(((*mutant.span(text), mutant) for mutant in mutants), key=lambda span: (span[0], -span[1]))
    parts, index = [], 0
    while spans:
        start, end, mutant = spans.pop(0)
        within = []
        while spans and spans[0][0] < end:
            inner = spans.pop(0)
            assert inner[1] <= end, f"{mutant.name} and {inner[2].name} break parts of one text"
            within.append(inner[2])
        parts += [text[index:start], mutant.switched(applied(text[start:end], within) if within else text[start:end])]
        index = end
    return "".join(parts) + text[index:]


def read_list():
    with open(ROOT + "/Tests/Mutants/mutants.txt") as file:
        blocks = re.split(r"\n(?=== )", file.read())[1:]
    mutants = []
    for number, block in enumerate(blocks, 1):
        lines = [line for line in block.splitlines() if line and line[0] != "#"]
        mutants.append(Mutant(number, lines))
    assert len({mutant.name for mutant in mutants}) == len(mutants), "two mutants have one name"
    return mutants


def mutated(mutants):
    """The text of each file that a mutant touches, and the switch of each target."""
    texts = {}
    for mutant in mutants:
        if mutant.file not in texts:
            with open(f"{ROOT}/{mutant.file}") as file:
                texts[mutant.file] = file.read()
    for file in list(texts):
        texts[file] = applied(texts[file], [mutant for mutant in mutants if mutant.file == file])
    for mutant in mutants:
        texts["/".join(mutant.file.split("/")[:2]) + "/MutantSwitch.swift"] = SWITCH
    return texts


def write(path, text):
    """Writes a file unless it is so: what did not change is not built again."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == text:
                return
    with open(path, "wb") as file:
        file.write(text)


def copy(texts):
    """The tree with the mutants in it."""
    kept = set()
    for top in ("Package.swift", "openapi.yaml", "Sources", "Tests", "docs"):
        for folder, _, names in os.walk(f"{ROOT}/{top}") if os.path.isdir(f"{ROOT}/{top}") else [(ROOT, [], [top])]:
            for name in names:
                path = os.path.relpath(f"{folder}/{name}", ROOT)
                kept.add(path)
                with open(f"{ROOT}/{path}", "rb") as file:
                    write(f"{TREE}/{path}", texts[path].encode() if path in texts else file.read())
    for path in texts.keys() - kept:
        kept.add(path)
        write(f"{TREE}/{path}", texts[path].encode())
    for top in ("Sources", "Tests"):
        for folder, _, names in os.walk(f"{TREE}/{top}"):
            for name in names:
                if os.path.relpath(f"{folder}/{name}", TREE) not in kept:
                    os.remove(f"{folder}/{name}")


def run(filter, number):
    """Runs tests with a mutant; whether they were green, and what noticed it."""
    command = ["timeout", "-s", "KILL", str(SECONDS), "swift", "test", "--skip-build", "--disable-xctest",
               "--filter", filter]
    environment = os.environ | {"CHOSEN_MUTANT": str(number), "SWIFT_BACKTRACE": "enable=no"}
    done = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True, errors="replace")
    failed = re.findall(r'^\S+ Test (.+?) recorded an issue', done.stdout, re.M)
    if done.returncode == 0:
        assert re.search(r"Test run with [1-9][0-9]* test", done.stdout), f"no test is called {filter}"
        return True, []
    return False, list(dict.fromkeys(failed)) or [f"the process ended with {done.returncode}"]


def targets():
    found = []
    for name in sorted(os.listdir(ROOT + "/Tests")):
        files = [f"{folder}/{file}" for folder, _, files in os.walk(f"{ROOT}/Tests/{name}") for file in files]
        if name != "ArchitectureTests" and any(
                "@Test" in open(file).read() for file in files if file.endswith(".swift")):
            found.append(f"^{name}\\.")
    return found


def noticed(mutant):
    """What notices a mutant, in its own tests or in any; nothing where it survives."""
    filter = "|".join(f"^{part}" for part in split(mutant.tests))
    is_green, failed = run(filter, mutant.number)
    if not is_green:
        return failed
    for target in targets():
        is_green, failed = run(target, mutant.number)
        if not is_green and run(target, 0)[0]:
            return ["elsewhere: " + failed[0]] + failed[1:]
    return []


def split(filter):
    """The alternatives of a filter, but for those within parentheses."""
    return re.findall(r"(?:[^|(]|\([^)]*\))+", filter)


def main(names):
    mutants = read_list()
    texts = mutated(mutants)
    unknown = set(names) - {mutant.name for mutant in mutants}
    assert not unknown, f"there is no mutant {sorted(unknown)}"
    copy(texts)
    began = time.monotonic()
    subprocess.run(["swift", "build", "--build-tests"], cwd=TREE, check=True)
    print(f"{len(mutants)} mutants built in {time.monotonic() - began:.0f} s", flush=True)
    chosen = [mutant for mutant in mutants if not names or mutant.name in names]
    own = sorted({f"^{part}" for mutant in chosen for part in split(mutant.tests)})
    for filter in ["|".join(own)] if names else targets():
        # A test of memory or time may be red once beside other work.
        is_green, failed = run(filter, 0)
        if not is_green:
            is_green, failed = run(filter, 0)
        assert is_green, f"red without a mutant: {failed}"
    survivors = []
    for mutant in chosen:
        began = time.monotonic()
        failed = noticed(mutant)
        if not failed:
            survivors.append(mutant.name)
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        what = f"{failed[0]}{more}" if failed else "SURVIVES"
        print(f"{mutant.name:24} {time.monotonic() - began:4.0f} s  {what}", flush=True)
    count = len(chosen)
    print(f"mutants: {count - len(survivors)} of {count} noticed")
    if survivors:
        sys.exit("survivors: " + ", ".join(survivors))


if __name__ == "__main__":
    if shutil.which("swift") is None:
        sys.exit("no swift on PATH: call .ci/mutants")
    try:
        main(sys.argv[1:])
    except AssertionError as error:
        sys.exit(f"mutants: {error}")

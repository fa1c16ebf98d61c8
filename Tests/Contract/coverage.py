"""The table of what the contract declares and what came: usage coverage.py NOTES...

A status or a code that is declared and never came, and one that came and is not declared, are holes; any fails.
"""

import sys
from collections import defaultdict

from service import CONTRACT


def read(paths):
    """By operation: the statuses that came, and the (status, code) of problems. `*`: refused before it was routed."""
    statuses, problems = defaultdict(lambda: defaultdict(int)), defaultdict(lambda: defaultdict(int))
    for path in paths:
        with open(path) as file:
            for line in file:
                operation, status, code = line.split()
                if code == "-":
                    statuses[operation][int(status)] += 1
                else:
                    problems[operation][int(status), code] += 1
    return statuses, problems


def main():
    statuses, problems = read(sys.argv[1:])
    holes = []
    count = 0
    anywhere = {problem for found in problems.values() for problem in found}
    for operation in CONTRACT.operations.values():
        with_codes = {status for status, _ in operation.problems}
        declared = operation.statuses - with_codes
        came = statuses[operation.id]
        holes += [f"{operation.id}: {status} is declared and never came" for status in sorted(declared - set(came))]
        holes += [f"{operation.id}: {status} came and is not declared" for status in sorted(set(came) - declared)]
        met = problems[operation.id]
        for status, code in sorted(operation.problems - set(met)):
            holes.append(f"{operation.id}: {status} {code} is declared and never came")
        for status, code in sorted(set(met) - operation.problems - CONTRACT.anywhere):
            holes.append(f"{operation.id}: {status} {code} came and is not declared")
        holes += [f"{operation.id}: {status} is declared without codes"
                  for status in sorted(declared) if status >= 400 and operation.id != "getReadiness"]
        cells = [f"{status} ×{came[status]}" for status in sorted(came)]
        cells += [f"{status} {code} ×{met[status, code]}" for status, code in sorted(met)]
        count += len(declared) + len(operation.problems)
        print(f"{operation.id:28}", ", ".join(cells))
    for status, code in sorted(CONTRACT.anywhere):
        count += 1
        if (status, code) not in anywhere:
            holes.append(f"any operation: {status} {code} is declared and never came")
    print(f"{'any operation':28}", ", ".join(f"{status} {code}" for status, code in sorted(CONTRACT.anywhere)))
    for hole in holes:
        print("hole:", hole)
    came = count - sum("never" in hole for hole in holes)
    print(f"contract: {came} of {count} statuses and codes came, {len(holes)} holes")
    if not holes:
        print("contract: all checks passed")
    return 1 if holes else 0


sys.exit(main())

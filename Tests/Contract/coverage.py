"""The table of what the contract declares and what came: usage coverage.py NOTES...

A status or a code that is declared and never came, and one that came and is not declared, are holes; any fails. So are a
type of event, and a field of one, that never came, and an optional field that always came.
"""

import sys
from collections import defaultdict

from service import CONTRACT, DOCUMENT, resolved

# Fields of events that no check provokes, or that no check finds missing, and why.
NOT_PROVOKED = {
    ("channels.deleted", "has_next"): "a list is cut when it has more than 2 000 channels: `ListBoundTests` does that",
    ("channels.deleted", "next"): "as `has_next`",
}
NEVER_MISSING = {
    ("huge_gap.detected", "newest"): "a channel without a cached message has no huge gap, but the code does not say so",
}


def read(paths):
    """By operation: the statuses that came, the (status, code) of problems, and the headers by status. `*`: refused
    before it was routed."""
    statuses, problems = defaultdict(lambda: defaultdict(int)), defaultdict(lambda: defaultdict(int))
    headers = defaultdict(lambda: defaultdict(set))
    events = defaultdict(list)
    for path in paths:
        with open(path) as file:
            for line in file:
                if line.startswith("event "):
                    kind, names = line.split()[1:]
                    events[kind].append(set(names.split(",")))
                    continue
                operation, status, code, names = line.split()
                if code == "-":
                    statuses[operation][int(status)] += 1
                else:
                    problems[operation][int(status), code] += 1
                headers[operation][int(status)] |= set(names.split(",")) - {"-"}
    return statuses, problems, headers, events


def header_holes(headers):
    """Headers that came and are not declared of that answer; and those declared, with a response that operations
    may share, that came with none of them."""
    missing = defaultdict(set)
    came = defaultdict(set)
    for operation in CONTRACT.operations.values():
        for status, declared in operation.headers.items():
            met = headers[operation.id][status]
            for name in sorted(met - declared):
                yield f"{operation.id}: {status} with the header {name} came and is not declared"
            where = operation.document["responses"][str(status)].get("$ref", f"{operation.id} {status}")
            missing[where] |= declared
            came[where] |= met
    for where, declared in missing.items():
        for name in sorted(declared - came[where]):
            yield f"{where}: the header {name} is declared and never came"


def event_holes(events):
    """Types of events, ends of streams, and fields of them that never came; and fields that are optional and came in
    every event of their type."""
    schemas = DOCUMENT["components"]["schemas"]
    for kind, reference in schemas["Event"]["discriminator"]["mapping"].items():
        schema, seen = resolved({"$ref": reference}), events[kind]
        if not seen:
            yield f"{kind}: no such event came"
            continue
        for field in schema["properties"]:
            if not any(field in names for names in seen) and (kind, field) not in NOT_PROVOKED:
                yield f"{kind}: the field {field} never came"
            if field not in schema["required"] and all(field in names for names in seen):
                if (kind, field) not in NEVER_MISSING:
                    yield f"{kind}: the field {field} is optional and always came"
    for end in schemas["StreamedEvent"]["x-ends"]:
        if not events[end]:
            yield f"streams: no frame {end} came"


def main():
    statuses, problems, headers, events = read(sys.argv[1:])
    holes = list(header_holes(headers)) + list(event_holes(events))
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
    print(f"{'events':28}", ", ".join(f"{kind} ×{len(events[kind])}" for kind in sorted(events)))
    for hole in holes:
        print("hole:", hole)
    print(f"contract: {count} statuses and codes are declared, {len(holes)} holes")
    if not holes:
        print("contract: all checks passed")
    return 1 if holes else 0


sys.exit(main())

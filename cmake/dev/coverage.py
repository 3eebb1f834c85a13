"""Prints how many lines of each folder the tests came by, and writes the others to a file.

    coverage.py coverage.json uncovered.txt       (coverage.json is what gcovr --json writes)
"""

import collections
import json
import os
import sys


def main(report, uncovered):
    folders = collections.defaultdict(lambda: [0, 0])  # folder: lines that could run, lines that did
    with open(uncovered, "w", encoding="utf-8") as out:
        for file in sorted(json.load(open(report, encoding="utf-8"))["files"], key=lambda file: file["file"]):
            runs = collections.Counter()  # a line of a template is listed once per type: what any of them ran was run
            for line in file["lines"]:
                if not line.get("gcovr/noncode"):
                    runs[line["line_number"]] += line["count"]
            missed = sorted(number for number, count in runs.items() if count == 0)
            total = folders[os.path.dirname(file["file"])]
            total[0] += len(runs)
            total[1] += len(runs) - len(missed)
            if missed:
                text = open(file["file"], encoding="utf-8").read().splitlines()
                out.write(f"{file['file']}: {len(missed)} of {len(runs)} lines\n")
                out.writelines(f"{number:6}  {text[number - 1]}\n" for number in missed)

    print(f"\n{'folder':<20}{'lines':>8}{'run':>8}{'':>9}")
    everything = [sum(counts) for counts in zip(*folders.values())] or [0, 0]
    for folder, (lines, run) in [*sorted(folders.items()), ("all", everything)]:
        print(f"{folder:<20}{lines:>8}{run:>8}{100 * run / max(lines, 1):>8.1f}%")
    print(f"\nThe lines that no test came by: {uncovered}")


main(*sys.argv[1:])

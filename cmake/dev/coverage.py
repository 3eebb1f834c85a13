"""Prints how many lines of each folder the tests came by, and writes the others to a file.

    coverage.py coverage.json uncovered.txt       (coverage.json is what gcovr --json writes)
"""

import collections
import json
import os
import sys


def counts_of_lines(report):
    """For each file, how often each line ran. A line of a template is listed once per type: any of them counts."""
    files = collections.defaultdict(collections.Counter)
    for file in report["files"]:
        path = file["file"].split("/include/attune/")[-1]  # headers are seen through the build's include folder
        for line in file["lines"]:
            if not line.get("gcovr/noncode"):
                files[path][line["line_number"]] += line["count"]
    return files


def main(report, uncovered):
    with open(report, encoding="utf-8") as text:
        files = counts_of_lines(json.load(text))
    folders = collections.defaultdict(lambda: [0, 0])  # lines that could run, lines that did
    with open(uncovered, "w", encoding="utf-8") as out:
        for path, counts in sorted(files.items()):
            missed = sorted(number for number, count in counts.items() if count == 0)
            folders[os.path.dirname(path)][0] += len(counts)
            folders[os.path.dirname(path)][1] += len(counts) - len(missed)
            if missed:
                with open(path, encoding="utf-8") as text:
                    source = text.read().splitlines()
                out.write(f"{path}: {len(missed)} of {len(counts)} lines\n")
                out.writelines(f"{number:6}  {source[number - 1]}\n" for number in missed)

    print(f"\n{'folder':<20}{'lines':>8}{'run':>8}")
    everything = [sum(column) for column in zip(*folders.values())] or [0, 0]
    for folder, (lines, run) in [*sorted(folders.items()), ("all", everything)]:
        print(f"{folder:<20}{lines:>8}{run:>8}{100 * run / max(lines, 1):>8.1f}%")
    print(f"\nThe lines that no test came by: {uncovered}")


main(*sys.argv[1:])

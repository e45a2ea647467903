# SPDX-License-Identifier: Apache-2.0
"""The figures: one row each, printed as it is found, and all of them as JSON."""
import json

WIDTHS = (58, 22, 34, 9, 9, 5)
HEAD = ("figure", "csireg", "against", "ratio", "goal", "met")


class Table:
    def __init__(self):
        self.rows = []

    def add(self, figure, value, unit, against="", reference=None, goal=None, detail="", least=None):
        """A figure, and what it is compared with: value and reference are numbers or Samples. goal: ("ratio" or "value",
        the most it may be), None when it is only reported. least: below this difference in units a ratio says nothing."""
        ours, theirs = median(value), median(reference)
        ratio = ours / theirs if theirs else None
        row = {"figure": figure, "value": rounded(ours), "unit": unit, "against": against, "reference": rounded(theirs),
               "ratio": rounded(ratio), "goal": goal_text(goal), "met": is_met(goal, ours, ratio)}
        for key, thing in (("value", value), ("reference", reference)):
            if hasattr(thing, "values"):
                row |= {f"{key}_min": rounded(thing.min), f"{key}_max": rounded(thing.max)}
        if detail:
            row["detail"] = detail
        self.rows.append(row)
        print_row(row)

    def note(self, figure, why):
        """A figure that could not be had."""
        self.rows.append({"figure": figure, "value": None, "unit": "", "against": why, "reference": None, "ratio": None,
                          "goal": None, "met": None})
        print_row(self.rows[-1])

    def missed(self):
        return [row for row in self.rows if row["met"] is False]

    def find(self, figure):
        return next((row for row in self.rows if row["figure"] == figure), None)

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.rows, file, indent=1)
            file.write("\n")


def median(thing):
    return thing.median if hasattr(thing, "median") else thing


def rounded(number):
    """Three significant digits at least, and whole numbers whole."""
    if number is None or isinstance(number, int):
        return number
    return round(number, 0 if abs(number) >= 1000 else 2 if abs(number) >= 1 else 4)


def goal_text(goal):
    if goal is None:
        return None
    kind, most = goal
    return f"{'ratio' if kind == 'ratio' else 'value'} <= {most:g}"


def is_met(goal, value, ratio):
    if goal is None:
        return None
    kind, most = goal
    number = ratio if kind == "ratio" else value
    return None if number is None else number <= most


# ---- printing ----

def number_text(row, key):
    value = row[key]
    if value is None:
        return "-"
    text = f"{value:g} {row['unit']}"
    if f"{key}_min" in row:
        text += f" ({row[key + '_min']:g}-{row[key + '_max']:g})"
    return text


def print_line(cells):
    print("  ".join(str(cell).ljust(width) for cell, width in zip(cells, WIDTHS)).rstrip(), flush=True)


def print_head():
    print_line(HEAD)


def print_row(row):
    against = row["against"]
    if row["reference"] is not None:
        against += ": " + number_text(row, "reference")
    goal = (row["goal"] or "").replace("ratio ", "").replace("value ", "")
    met = {True: "yes", False: "NO", None: ""}[row["met"]]
    ratio = "" if row["ratio"] is None else f"{row['ratio']:g}"
    print_line((row["figure"], number_text(row, "value"), against, ratio, goal, met))
    if row.get("detail"):
        print("    " + row["detail"], flush=True)

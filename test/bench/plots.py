#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plots.py BENCH.JSON DIRECTORY: draws the README's two plots from the figures of a run."""
import json
import os
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # pylint: disable=wrong-import-position

COUNTS = (1, 10, 50, 100)
CSIREG, PEER, FLOOR = "#1f6feb", "#d1742f", "#8b949e"
matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "csireg", "font.family": "sans-serif", "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.edgecolor": "#57606a", "axes.grid": True, "grid.color": "#eaeef2", "axes.axisbelow": True,
    "axes.titlesize": 11, "axes.titlelocation": "left"})


class Figures:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.rows = {row["figure"]: row for row in json.load(file)}

    def get(self, figure, key="value"):
        return (self.rows.get(figure) or {}).get(key)

    def series(self, name, key="value"):
        """[(count, value)] of the figures that are there; `name` makes the figure's name from a count."""
        found = [(count, self.get(name(count), key)) for count in COUNTS]
        return [(count, value) for count, value in found if value is not None]


def drivers(count):
    return "1 driver" if count == 1 else f"{count} drivers at once"


def bars(axes, groups, labels, colours, unit):
    """Bars side by side for each category; groups: one list of values a series, None where there is none."""
    width = 0.8 / len(groups)
    for number, (values, label, colour) in enumerate(zip(groups, labels, colours)):
        places = [place + (number - (len(groups) - 1) / 2) * width for place in range(len(values))]
        known = [(place, value) for place, value in zip(places, values) if value is not None]
        drawn = axes.bar([p for p, _ in known], [v for _, v in known], width * 0.92, label=label, color=colour)
        axes.bar_label(drawn, [text_of(v, unit) for _, v in known], fontsize=8, padding=2, color="#24292f")


def text_of(value, unit):
    if unit == "ms" and value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f}{' ' + unit if unit else ''}" if value >= 10 or value == int(value) else f"{value:.1f} {unit}".strip()


def finish(figure, axes, directory, name):
    for one in axes:
        one.tick_params(length=0)
        one.grid(axis="x", visible=False)
        one.legend(frameon=False, fontsize=9, loc="upper left")
    figure.tight_layout()
    figure.savefig(os.path.join(directory, name), metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)


def time_plot(figures, directory):
    """Each on the server where it was measured: the two panels are not to be compared with each other."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6))
    names = [f"{drivers(count)} to the last Notify" for count in COUNTS]
    real = [f"{name}, real server" for name in names]
    bars(left, [[figures.get(n) for n in real], [figures.get(n, "reference") for n in real]],
         ["csireg", "kubelet's packages"], [CSIREG, PEER], "ms")
    left.set_yscale("log")
    left.set_ylim(top=left.get_ylim()[1] * 8)
    left.set_title("Socket listening to last Notify, real kube-apiserver")
    names[0] = "one driver to Notify, node flow, warm"
    bars(right, [[figures.get(n) for n in names], [figures.get(n, "reference") for n in names]],
         ["csireg", "the bare round trips"], [CSIREG, FLOOR], "ms")
    right.set_ylim(top=right.get_ylim()[1] * 1.25)
    right.set_title("The same, emulated API server, against the floor")
    for axes in (left, right):
        axes.set_xticks(range(len(COUNTS)), [str(count) for count in COUNTS])
        axes.set_xlabel("drivers at once")
        axes.set_ylabel("ms")
    finish(figure, (left, right), directory, "bench-time.svg")


def cost_plot(figures, directory):
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6))
    names = [f"requests, {drivers(count)}, warm" for count in COUNTS]
    bars(left, [[figures.get(n) for n in names], [figures.get(n, "reference") for n in names]],
         ["csireg", "kubelet's packages"], [CSIREG, PEER], "")
    left.set_yscale("symlog", linthresh=1)
    left.set_ylim(0, 3000)
    left.set_title("Requests on Node and CSINode to register")
    left.set_xticks(range(len(COUNTS)), [str(count) for count in COUNTS])
    left.set_xlabel("drivers at once")
    names = [f"RSS with {count} drivers" for count in (0, 50, 100)]
    bars(right, [[figures.get(n) for n in names], [figures.get(n, "reference") for n in names]],
         ["csireg", "kubelet's packages"], [CSIREG, PEER], "MiB")
    right.set_ylim(top=right.get_ylim()[1] * 1.35)
    right.set_title("Resident memory of the process")
    right.set_xticks(range(3), ["0", "50", "100"])
    right.set_xlabel("registered drivers")
    right.set_ylabel("MiB")
    finish(figure, (left, right), directory, "bench-cost.svg")


def main():
    figures = Figures(sys.argv[1])
    os.makedirs(sys.argv[2], exist_ok=True)
    time_plot(figures, sys.argv[2])
    cost_plot(figures, sys.argv[2])


if __name__ == "__main__":
    main()

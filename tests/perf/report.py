"""Records to numbers, a Markdown report and a plot. Knows no torch.

A record is one cell, contender and pass: status "ok" with its times, or "wrong", "error",
"lost", "skipped" with a reason. All of them stay in results.json.
"""

import collections
import html
import math
import statistics

SHAPE = ("B", "Hq", "Hkv", "Sq", "Sk", "D", "dtype")
COLORS = {"fathom": "#d33", "fa2": "#27a", "cudnn": "#2a2", "flex": "#a5c", "math": "#888"}


def base(cell, contender, which):
    record = {k: cell[k] for k in ("part", "name", "variant") + SHAPE}
    if "state" in cell:
        record["state"] = cell["state"]
    return dict(record, contender=contender, which=which)


def failed(cell, contender, which, status, reason):
    return dict(base(cell, contender, which), status=status, reason=reason)


def summary(rounds):
    """Of lists of milliseconds, one a round: the median of all samples, the medians of the
    slowest and the fastest round (clocks, heat), and the quartiles of all samples."""
    samples = sorted(x for r in rounds for x in r)
    at = lambda f: samples[min(len(samples) - 1, int(f * len(samples)))]
    medians = [statistics.median(r) for r in rounds]
    return dict(ms=statistics.median(samples), ms_quartiles=[at(0.25), at(0.75)],
                ms_rounds=[min(medians), max(medians)], rounds=len(rounds), samples=len(samples))


def speed(record):
    """What is compared: calls per time. 0 if it failed."""
    return 1 / record["ms"] if record and record["status"] == "ok" else 0.0


def pairs(records):
    """Yields (Fathom's record, peer's record, ratio of speeds) where both were to run and the
    peer did."""
    mine = {(r["part"], r["name"], r["which"]): r for r in records if r["contender"] == "fathom"}
    for r in records:
        own = mine.get((r["part"], r["name"], r["which"]))
        if own and r["contender"] != "fathom" and r["status"] == "ok" and "ms" in r:
            yield own, r, speed(own) / speed(r)


def geometric_mean(values):
    """0 if one is 0; None of nothing."""
    values = list(values)
    if not values:
        return None
    if min(values) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, values)) / len(values))


def group_of(record):
    return f"{record['part']} D={record['D']}" if record["part"] == "grid" else record["part"]


def means(records):
    """Per group, pass and peer: the geometric mean of all ratios, that of Fathom's ok cells, the
    least, how many, and how many of them Fathom failed."""
    sets = collections.defaultdict(list)
    for own, peer, ratio in pairs(records):
        groups = [group_of(own)]
        if own["part"] == "grid":
            groups += ["grid, all D"] + (["grid, D 64 and 128"] if own["D"] in (64, 128) else [])
        for group in groups:
            sets[group, own["which"], peer["contender"]].append(ratio)
    rows = []
    for (group, which, peer), ratios in sorted(sets.items()):
        good = [r for r in ratios if r > 0]
        rows.append(dict(group=group, which=which, peer=peer, mean=geometric_mean(ratios),
                         mean_ok=geometric_mean(good), least=min(ratios), cells=len(ratios),
                         low=sum(r < 0.8 for r in ratios),
                         failed=len(ratios) - len(good)))
    return rows


def number(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows] + [""]


def by_cell(records):
    """{(part, name, which): {contender: record}}, in the order of the records."""
    result = {}
    for r in records:
        result.setdefault((r["part"], r["name"], r["which"]), {})[r["contender"]] = r
    return result


def shown(record, unit):
    if record is None:
        return ""
    if record["status"] != "ok":
        return record["status"]
    if unit == "us":
        return number(record["ms"] * 1e3, 1)
    return number(record[unit], 1 if unit == "tflops" else 3)


UNITS = {"grid": ("tflops", "TFLOP/s"), "gqa": ("tflops", "TFLOP/s"), "variants": ("ms", "ms"),
         "decode": ("us", "us"), "short": ("us", "us")}


def cell_tables(records):
    lines = []
    cells = by_cell(records)
    for part, (unit, words) in UNITS.items():
        for which in ("fwd", "bwd"):
            rows = [(name, by) for (p, name, w), by in cells.items() if p == part and w == which]
            if not rows:
                continue
            names = list(dict.fromkeys(c for _, by in rows for c in by))
            peers = [n for n in names if n != "fathom"]
            calls = names if any("call_us" in r for _, by in rows for r in by.values()) else []
            head = ["cell"] + [f"{n} {words}" for n in names] + [f"/ {n}" for n in peers] + ["spread %"]
            head += [f"{n} call us" for n in calls]
            body = []
            for name, by in rows:
                own = by.get("fathom")
                ratios = [number(speed(own) / speed(by[n])) if own and speed(by.get(n)) else "" for n in peers]
                spreads = [(r["ms_rounds"][1] / r["ms_rounds"][0] - 1) * 100 for r in by.values()
                           if r["status"] == "ok"]
                body.append([name] + [shown(by.get(n), unit) for n in names] + ratios +
                            [number(max(spreads), 1) if spreads else ""] +
                            [number(by[n].get("call_us"), 1) if n in by else "" for n in calls])
            lines += [f"## {part}, {'forward' if which == 'fwd' else 'backward'}", ""] + table(head, body)
    return lines


def compile_tables(records):
    lines = []
    rows = [r for r in records if r["part"] == "compile" and r["state"] != "host"]
    if rows:
        cells = {}
        for r in rows:
            cells.setdefault(r["variant"], {})[r["contender"], r["state"], r["which"]] = r
        columns = list(dict.fromkeys((r["contender"], r["state"], r["which"]) for r in rows))
        seconds = lambda r: "" if r is None else number(r["seconds"], 3) if r["status"] == "ok" else r["status"]
        lines += ["## Compile: text to first results, seconds", ""]
        lines += table(["variant"] + [" ".join(c) for c in columns],
                       [[v] + [seconds(by.get(c)) for c in columns] for v, by in cells.items()])
    rows = [r for r in records if r["part"] == "compile" and r["state"] == "host" and r["status"] == "ok"]
    if rows:
        fields = ["host_us", "foreign_call_us", "launches", "launch_us", "added_us"]
        lines += ["## Host time of a cached call, microseconds", ""]
        lines += table(["pass"] + fields, [[r["which"]] + [number(r.get(f)) for f in fields] for r in rows])
    return lines


def markdown(info, records):
    lines = ["# Attention on one GPU", ""]
    lines += table(["what", "value"], [[k, v] for k, v in info.items() if k != "command"])
    lines += [f"`{info.get('command', '')}`", ""]
    rows = means(records)
    if rows:
        lines += ["## Fathom's speed over each peer's", "",
                  "Geometric means; a cell in which Fathom failed counts as 0.", ""]
        lines += table(["group", "pass", "peer", "mean", "mean of ok cells", "least", "cells", "under 0.8", "failed"],
                       [[r["group"], r["which"], r["peer"], number(r["mean"], 3), number(r["mean_ok"], 3),
                         number(r["least"]), r["cells"], r["low"], r["failed"]] for r in rows])
        worst = sorted(pairs(records), key=lambda p: p[2])[:12]
        lines += ["## Worst cells", ""]
        lines += table(["part", "cell", "pass", "peer", "ratio"],
                       [[own["part"], own["name"], own["which"], peer["contender"], number(ratio)]
                        for own, peer, ratio in worst])
    lines += cell_tables(records) + compile_tables(records)
    bad = [r for r in records if r["status"] != "ok"]
    if bad:
        lines += ["## Failed", ""]
        lines += table(["part", "cell", "pass", "contender", "status", "reason"],
                       [[r["part"], r["name"], r["which"], r["contender"], r["status"],
                         r["reason"].replace("|", "\\|")] for r in bad])
    copied = sorted({(r["contender"], r["part"], r["which"]) for r in records if "copied" in r.get("layout", "")})
    if copied:
        lines += ["Copies were timed: " + "; ".join(" ".join(c) for c in copied), ""]
    return "\n".join(lines)


class Svg:
    def __init__(self):
        self.items, self.width, self.height = [], 0, 0

    def add(self, text, right, bottom):
        self.items.append(text)
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def text(self, x, y, words, size=11, anchor="start", color="#222"):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
                 f'fill="{color}">{html.escape(str(words))}</text>', x + (len(str(words)) * size * .6 if anchor == "start" else 0), y + 4)

    def line(self, points, color, dashed=False, width=1.5):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        self.add(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"{dash}/>',
                 max(x for x, _ in points), max(y for _, y in points))

    def bar(self, x, y, width, height, color):
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height}" fill="{color}"/>',
                 x + width, y + height)

    def render(self):
        w, h = self.width + 20, self.height + 20
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h:.0f}" '
                f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>'
                + "\n".join(self.items) + "</svg>\n")


def draw_grid(svg, records, top):
    """A panel for each head dim and pass: TFLOP/s over S, causal dashed. Returns the bottom."""
    panels = sorted({(r["D"], r["which"] != "fwd") for r in records})
    columns, width, height = 3, 300, 210
    for at, (d, backward) in enumerate(panels):
        own = [r for r in records if r["D"] == d and (r["which"] != "fwd") == backward]
        x0, y0 = 50 + at % columns * (width + 60), top + 40 + at // columns * (height + 80)
        sizes = sorted({r["Sq"] for r in own})
        high = max([r["tflops"] for r in own if r["status"] == "ok"] or [1]) * 1.1
        x = lambda s: x0 + 15 + sizes.index(s) * (width - 30) / max(1, len(sizes) - 1)
        y = lambda t: y0 + height - t / high * height
        svg.text(x0, y0 - 8, f"D = {d}, {'backward' if backward else 'forward'}, TFLOP/s", 13)
        svg.line([(x0, y0), (x0, y0 + height), (x0 + width, y0 + height)], "#222", width=1)
        step = max(1, 10 ** math.floor(math.log10(high)) // (1 if high / 10 ** math.floor(math.log10(high)) > 4 else 2))
        for tick in range(int(high // step) + 1):
            svg.line([(x0 - 4, y(tick * step)), (x0 + width, y(tick * step))], "#ddd", width=.7)
            svg.text(x0 - 6, y(tick * step) + 4, f"{tick * step:g}", 10, "end")
        for s in sizes:
            svg.text(x(s), y0 + height + 14, s if s < 1024 else f"{s // 1024}k", 10, "middle")
        for name in COLORS:
            for variant in ("dense", "causal"):
                points = [(x(r["Sq"]), y(r["tflops"] if r["status"] == "ok" else 0)) for s in sizes
                          for r in own if r["Sq"] == s and r["contender"] == name and r["variant"] == variant]
                if points:
                    svg.line(points, COLORS[name], variant == "causal", 2 if name == "fathom" else 1.5)
                    for px, py in points:
                        svg.add(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.2" fill="{COLORS[name]}"/>', px, py)
    rows = -(-len(panels) // columns)
    return top + rows * (height + 80) + 20


def draw_ratios(svg, part, records, top):
    """Bars of Fathom's speed over each peer's, by cell. Returns the bottom."""
    rows = list(pairs(records))
    svg.text(50, top + 12, f"{part}: Fathom's speed over each peer's (line: 1)", 13)
    high, y = max([r for *_, r in rows] + [1.2]), top + 26
    for own, peer, ratio in rows:
        svg.text(50, y + 10, f"{own['name']} {own['which']} / {peer['contender']}", 10)
        svg.bar(330, y + 1, ratio / high * 400, 11, COLORS[peer["contender"]])
        svg.text(336 + ratio / high * 400, y + 10, number(ratio) if ratio else "failed", 10)
        y += 15
    svg.line([(330 + 400 / high, top + 20), (330 + 400 / high, y)], "#222", width=1)
    return y + 25


def plot(records):
    svg = Svg()
    svg.text(50, 22, "Solid: all keys; dashed: causal.", 12)
    for at, (name, color) in enumerate(COLORS.items()):
        svg.text(260 + at * 70, 22, name, 12, color=color)
    bottom = 30
    grid = [r for r in records if r["part"] == "grid"]
    if grid:
        bottom = draw_grid(svg, grid, bottom)
    for part in UNITS:
        own = [r for r in records if r["part"] == part]
        if part != "grid" and list(pairs(own)):
            bottom = draw_ratios(svg, part, own, bottom)
    return svg.render()

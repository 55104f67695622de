"""For notebooks: systems on networks that are only modelled, and exchanges step by step.

    starling.simulate(["horovod", "pairwise"], workers=[4, 16, 64], bandwidth="100mbit")
    starling.explain("ring", workers=4)

Both give a `Picture`, which a notebook shows; its `table` is a pandas DataFrame, or a list of rows
where there is no pandas.
"""

from __future__ import annotations

import html
from typing import Any, Iterable, Sequence

from . import _core
from ._settings import toml

# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
_COLOURS = "#0072b2 #d55e00 #009e73 #cc79a7 #e69f00 #56b4e9 #000000 #f0e442".split()


class Picture:
    """A table, and what it looks like."""

    def __init__(self, rows: list[dict[str, Any]], markup: str, text: str):
        self.rows = rows
        self._markup = markup
        self._text = text

    @property
    def table(self) -> Any:
        """The rows as a pandas DataFrame, or as they are where there is no pandas."""
        try:
            import pandas
        except ImportError:
            return self.rows
        return pandas.DataFrame(self.rows)

    def _repr_html_(self) -> str:
        return self._markup

    def __repr__(self) -> str:
        return self._text


def systems() -> Picture:
    """The named systems, and the five choices that make each what it is."""
    rows = [dict(each) for each in _core.SYSTEMS]
    return Picture(rows, _html_table(rows), _text_table(rows))


def simulate(
    system: str | Sequence[str] = "pairwise",
    workers: int | Sequence[int] = 4,
    *,
    bandwidth: str = "1gbit",
    latency: str = "100us",
    compute: str = "10ms",
    parameters: int = 100_000,
    steps: int = 100,
    buckets: int = 1,
    jitter: float = 0.0,
    noise: float = 0.5,
    seed: int = 1,
    **settings: Any,
) -> Picture:
    """Whole trainings in virtual time: each system with each number of workers is a row.

    The exchanges, servers and strategies are those that run on real machines; the network is a
    model, and the problem one that each weight solves for itself from noisy gradients: `error` is how
    far the final model is from the solution. `compute` is what a step takes on one worker, `jitter`
    how much longer it may take at random. Every other keyword is a setting, as for Dist.
    """
    rows = []
    for name in [system] if isinstance(system, str) else system:
        for count in [workers] if isinstance(workers, int) else workers:
            result = _core.simulate(
                name, toml(settings), count, bandwidth, latency, compute, jitter, parameters,
                buckets, steps, noise, seed,
            )  # fmt: skip
            rows.append({"system": name, **result})
    title = f"{steps} steps of {parameters:,} parameters on links of {bandwidth}"
    return Picture(rows, _curves(rows, title) + _html_table(rows), _text_table(rows))


def explain(
    exchange: str,
    workers: int | None = None,
    *,
    values: Sequence[Sequence[float]] | None = None,
    rounds: int = 3,
    passes: int = 1,
) -> Picture:
    """An exchange, iteration by iteration: what each worker holds after it.

    `exchange` is ring, tree, doubling, halving-doubling, naive, scatter-reduce, all-to-all or
    pairwise, for which `rounds` and `passes` count. `values` holds a row of numbers for each worker.
    """
    start = _start(workers, values)
    if exchange == "pairwise" and not 1 <= passes <= max(1, len(start) - 1):
        raise _core.Error(f"passes = {passes} needs more than {len(start)} workers")
    iterations = _core.trace(exchange, start, rounds, passes)
    rows = [
        {"iteration": t, "worker": w, "cell": c, "value": value}
        for t, state in enumerate(iterations)
        for w, row in enumerate(state)
        for c, value in enumerate(row)
        if value is not None
    ]
    return Picture(rows, _exchange_table(exchange, iterations), _exchange_text(iterations))


def _start(workers: int | None, values: Sequence[Sequence[float]] | None) -> list[list[float]]:
    if values is not None:
        start = [[float(each) for each in row] for row in values]
        if not start or not start[0] or len({len(row) for row in start}) != 1:
            raise _core.Error("values: every worker needs the same number of values")
        if workers is not None and workers != len(start):
            raise _core.Error(f"values holds {len(start)} workers, and workers = {workers}")
    else:
        count = 4 if workers is None else workers
        if not 1 <= count <= 64:
            raise _core.Error(f"workers = {count} cannot be; it goes from 1 to 64")
        start = [[float((w + 1) * (c + 1)) for c in range(min(count, 64 // count))]
                 for w in range(count)]  # fmt: skip
    if len(start) * len(start[0]) > 4096:
        raise _core.Error("values has more than 4096 numbers; a table as wide as that cannot be read")
    return start


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _text_table(rows: list[dict[str, Any]]) -> str:
    lines = [list(rows[0])] + [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in lines)


def _html_table(rows: list[dict[str, Any]]) -> str:
    def line(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line((_cell(value) for value in row.values()), "td") for row in rows)
    return f"<table>{line(rows[0], 'th')}{body}</table>"


def _curves(rows: list[dict[str, Any]], title: str) -> str:
    """Batches a second over workers, a curve for each system, as SVG."""
    width, height, left, top, bottom = 640, 300, 70, 40, 40
    names = list(dict.fromkeys(row["system"] for row in rows))
    counts = sorted({row["workers"] for row in rows})
    most = max(row["batches_per_second"] for row in rows) or 1.0

    def place(row: dict[str, Any]) -> tuple[float, float]:
        across = counts.index(row["workers"]) / max(1, len(counts) - 1)
        up = row["batches_per_second"] / most
        return left + across * (width - left - 170), height - bottom - up * (height - top - bottom)

    parts = [f'<text x="{left}" y="20" font-weight="bold">{html.escape(title)}</text>']
    for count in counts:
        x, _ = place({"workers": count, "batches_per_second": 0})
        parts.append(f'<text x="{x}" y="{height - 20}" text-anchor="middle">{count}</text>')
    parts.append(f'<text x="{left}" y="{height - 4}">workers</text>')
    for share in (0, 0.5, 1):
        y = height - bottom - share * (height - top - bottom)
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{share * most:.3g}</text>')
        parts.append(f'<path d="M{left} {y}H{width - 165}" stroke="#ccc"/>')
    parts.append(f'<text x="{left - 60}" y="{top - 8}">batches/s</text>')
    for index, name in enumerate(names):
        colour = _COLOURS[index % len(_COLOURS)]
        points = [place(row) for row in rows if row["system"] == name]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points]
        y = top + 16 * index
        parts.append(f'<circle cx="{width - 150}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{width - 140}" y="{y}">{html.escape(name)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12">{"".join(parts)}</svg>'
    )


def _exchange_table(exchange: str, iterations: list) -> str:
    """A row an iteration; what has changed since the one before is marked."""
    head = "".join(
        f'<th colspan="{len(row)}" style="border-left:1px solid #888">worker {w}</th>'
        for w, row in enumerate(iterations[0])
    )
    lines = [f"<tr><th>{html.escape(exchange)}</th>{head}</tr>"]
    for t, state in enumerate(iterations):
        cells = []
        for w, row in enumerate(state):
            for c, value in enumerate(row):
                border = "border-left:1px solid #888;" if c == 0 else ""
                fresh = t > 0 and value is not None and value != iterations[t - 1][w][c]
                mark = f"background:{_COLOURS[5]}66;" if fresh else ""
                shown = "" if value is None else f"{value:.4g}"
                cells.append(f'<td style="{border}{mark}">{shown}</td>')
        lines.append(f"<tr><th>{t}</th>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _exchange_text(iterations: list) -> str:
    return "\n".join(
        f"{t}  " + " | ".join(
            " ".join("." if value is None else f"{value:.4g}" for value in row) for row in state
        )
        for t, state in enumerate(iterations)
    )  # fmt: skip

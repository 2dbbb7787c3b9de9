"""A tuning report in words, from its file alone."""

from __future__ import annotations

from typing import Any


def tuning_words(report: dict[str, Any]) -> str:
    """What was spent, what was chosen, and the table on fresh seeds."""
    data, budget, fresh = report["data"], report["budget"], report["fresh"]
    asked, done = budget["trials_asked"], budget["trials"]
    lines = [
        f"{data['name']}, split {data['split']}: {done} trials of {len(budget['seeds'])} seeds"
        + (f" for each of {len(report['searches'])} rows" if len(report["searches"]) > 1 else "")
        + (f"; {asked} were asked for, but time was up" if done < asked else "")
        + ". Test labels were hidden.",
        f"space: {' '.join(_range(name, one) for name, one in report['space'].items())}",
        "",
    ]
    for search in report["searches"]:
        lines += _search(search)
    width = max(len(_name(row)) for row in fresh["rows"])
    lines += ["", f"{'':<{width}}  test {report['metric']} %, {_seeds(fresh['seeds'])}"]
    for row in fresh["rows"]:
        std = row["test_accuracy_std"]
        spread = "" if std is None else f" ± {std:.2f}"
        lines.append(f"{_name(row):<{width}}  {row['test_accuracy_mean']:.2f}{spread}")
    lines.append("")
    lines += [_difference(one) for one in fresh["differences"]]
    if len(report["tested_after"]) > 1:
        looks = ", ".join(map(str, report["tested_after"]))
        lines += [
            "",
            f"The test nodes were looked at after {looks} trials: only the first look was blind.",
        ]
    return "\n".join(lines)


def settings_words(settings: dict[str, Any]) -> str:
    """Settings as they are typed."""
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
    )


def _search(search: dict[str, Any]) -> list[str]:
    best, failed = search["best"], len(search["failed"])
    first = "the untuned settings" if best["untuned"] else f"trial {best['trial']}"
    return [
        f"{search['row']}: {search['epochs']:,} epochs, {search['seconds']:.0f} s"
        + (f", {failed} trials failed" if failed else ""),
        f"  best on validation ({100 * best['val_accuracy']:.2f} %, {first}): "
        f"{settings_words(best['settings'])}",
    ]


def _range(name: str, one: dict[str, Any]) -> str:
    if "choices" in one:
        return f"{name}={','.join(map(str, one['choices']))}"
    return f"{name}={one['low']:g}:{one['high']:g}{':log' if one['log'] else ''}"


def _name(row: dict[str, Any]) -> str:
    return f"{row['row']}, {'tuned' if row['tuned'] else 'untuned'}"


def _seeds(seeds: list[int]) -> str:
    if len(seeds) == 1:
        return f"fresh seed {seeds[0]}"
    return f"fresh seeds {seeds[0]} to {seeds[-1]}"


def _difference(one: dict[str, Any]) -> str:
    if one["mean"] == one["low"] == one["high"] == 0:
        return f"{one['of']} over {one['over']}: the same"
    mean = round(one["mean"], 2) + 0.0  # no minus in front of a zero
    words = f"{one['of']} over {one['over']}: {mean:+.2f} points"
    if one["low"] is None:
        return f"{words} (one seed allows no interval)"
    sure = one["low"] > 0 or one["high"] < 0
    interval = f"95 % interval {one['low']:+.2f} to {one['high']:+.2f}"
    return f"{words}, {interval}{'' if sure else ': no sure difference'}"

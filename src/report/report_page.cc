#include "report/report_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/escape.h"

namespace starling {

namespace {

constexpr std::size_t kMostOpen = 4;  // runs whose own figures are shown without being asked for

constexpr const char* kReportStyle = R"(
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --line: #cccccc; --note: #fff4d6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #171717; --line: #444444; --note: #3a3115; }
  figure svg, .names i { filter: invert(.91) hue-rotate(180deg); }  /* drawings are made for paper */
}
body { font: 16px/1.5 "DejaVu Sans", Helvetica, Arial, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 1240px; margin: 0 auto; padding: 1rem; }
h1 { margin: .2rem 0 .8rem; } .note { background: var(--note); padding: .5rem .8rem; border-radius: 6px; }
figure { margin: 1.5rem 0; overflow-x: auto; }
figure svg { width: 100%; min-width: 620px; max-width: 1000px; height: auto; }
figcaption { font-size: 14px; position: sticky; left: 0; }
.names { display: none; font-size: 13px; margin: .3rem 0 .6rem; overflow-wrap: anywhere; }
.names span { display: block; } .names i { display: inline-block; width: 1.6rem; vertical-align: middle; margin-right: .4rem; }
/* A phone has no room for a key beside the lines: it stands below them, and words are larger. */
@media (max-width: 700px) {
  figure[data-lines] { overflow: hidden; } figure[data-lines] svg { min-width: 0; width: 123%; }
  figure[data-lines] svg text { font-size: 20px; } figure[data-lines] .key { display: none; } .names { display: block; }
}
.wide { overflow: auto; max-height: 32rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .25rem .45rem; font-size: 13px; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; background: var(--paper); }
th { white-space: normal; vertical-align: bottom; position: sticky; top: 0; z-index: 1; }
th:nth-child(2), td:nth-child(2) { text-align: left; white-space: normal; overflow-wrap: anywhere;
  min-width: 9rem; position: sticky; left: 0; }
th:nth-child(2) { z-index: 2; } th:last-child, td:last-child { text-align: left; }
td input { width: 1.1rem; height: 1.1rem; margin: 0; }
details { border-bottom: 1px solid var(--line); padding: .4rem 0; } summary { cursor: pointer; overflow-wrap: anywhere; }
pre { overflow-x: auto; font-size: 13px; columns: 16rem auto; } small { opacity: .75; }
.small { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 0 1rem; }
)";

// Draws the chosen runs' lines in colours, on those of all others.
constexpr const char* kReportScript = R"(
"use strict";
const kColours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d00"];
const kDashes = ["", "7 3", "2 3"], kBorders = ["solid", "dashed", "dotted"], kMost = 20;
const boxes = [...document.querySelectorAll("input[data-run]")];
const in_svg = (name, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};
const short = name => name.length <= 22 ? name : `${name.slice(0, 10)}…${name.slice(-11)}`;
function draw() {
  const chosen = boxes.filter(box => box.checked);
  for (const box of boxes) box.disabled = !box.checked && chosen.length >= kMost;
  for (const svg of document.querySelectorAll("figure[data-lines] svg")) {
    const key = svg.querySelector(".key");
    if (!key) continue;
    const names = svg.parentElement.querySelector(".names");
    key.replaceChildren();
    names.replaceChildren();
    for (const line of svg.querySelectorAll("[data-series]")) {
      const place = chosen.findIndex(box => box.dataset.run === line.dataset.series);
      const path = line.querySelector("path");
      const dot = /h\.1$/.test(path.getAttribute("d"));
      path.setAttribute("stroke", place < 0 ? "#cccccc" : kColours[place % kColours.length]);
      path.setAttribute("stroke-width", place < 0 ? 1 : dot ? 9 : 2);
      path.setAttribute("stroke-dasharray", place < 0 ? "" : kDashes[place % kDashes.length]);
      if (place >= 0) key.before(line);  // on top of the quiet ones
    }
    chosen.forEach((box, place) => {
      const y = 60 + 22 * place;
      key.append(in_svg("path", { d: `M670 ${y - 4}h24`, "stroke-width": 2,
        stroke: kColours[place % kColours.length], "stroke-dasharray": kDashes[place % kDashes.length] }));
      const words = in_svg("text", { x: 700, y });
      words.textContent = short(box.dataset.name);
      key.append(words);
      const name = document.createElement("span"), line = document.createElement("i");
      line.style.borderTop = `3px ${kBorders[place % kBorders.length]} ${kColours[place % kColours.length]}`;
      name.append(line, box.dataset.name);
      names.append(name);
    });
  }
}
for (const box of boxes) box.addEventListener("change", draw);
draw();
)";

std::string figure_markup(const Figure& figure) {
  return fmt::format("<figure{}>{}{}<figcaption>{}</figcaption></figure>\n",
                     figure.has_run_lines ? " data-lines" : "", figure.plot.svg(),
                     figure.has_run_lines ? "<div class=\"names\"></div>" : "",
                     escaped_for_markup(figure.caption));
}

// The table, with a box in front of each run that chooses it for the figures.
std::string table_markup(std::span<const RunData> runs, const std::vector<bool>& shown,
                         const Table& comparison) {
  std::vector<std::string> boxes;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string name = escaped_for_markup(runs[i].label);
    boxes.push_back(fmt::format(
        R"(<input type="checkbox" data-run="{}" data-name="{}" aria-label="draw {}"{}>)", i, name,
        name, shown[i] ? " checked" : ""));
  }
  return "<div class=\"wide\">" + comparison.html(boxes) + "</div>\n";
}

std::string run_markup(const RunData& run, std::size_t number, bool open, const RunReport& report) {
  std::string figures;
  for (const Figure& figure : report.figures) {
    if (figure.run == number) figures += figure_markup(figure);
  }
  return fmt::format(
      "<details{}><summary>{} <small>{}</small></summary><div class=\"small\">{}</div>"
      "<details><summary>settings</summary><pre>{}</pre></details></details>\n",
      open ? " open" : "", escaped_for_markup(run.label),
      run.label == run.name ? "" : escaped_for_markup(run.name), figures,
      escaped_for_markup(run.settings));
}

}  // namespace

std::string report_page(std::span<const RunData> runs, std::size_t baseline,
                        const std::vector<bool>& shown, const RunReport& report) {
  const std::string title =
      fmt::format("Starling: {} run{}", runs.size(), runs.size() == 1 ? "" : "s");
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style></head><body>\n<h1>{0}</h1>\n",
      title, kReportStyle);
  for (const std::string& remark : report.remarks) {
    html += fmt::format("<p class=\"note\">Note: {}.</p>\n", escaped_for_markup(remark));
  }
  html += table_markup(runs, shown, report.comparison);
  html += fmt::format(
      "<p>Training time is from the first step until there was one model, evaluations left out; "
      "samples/s, computing, moving bytes and waiting are of that time. Rounds are those of all "
      "workers together. Savings are of bytes sent in training, against {}. Figures with a line a "
      "run draw those in colours that are "
      "ticked above{}.</p>\n",
      escaped_for_markup(runs[baseline].label),
      std::ranges::count(shown, false) == 0
          ? ""
          : fmt::format(", now {} of {}, and the others in grey", std::ranges::count(shown, true),
                        runs.size()));
  for (const Figure& figure : report.figures) {
    if (!figure.run) html += figure_markup(figure);
  }
  html += "<h2>Each run</h2>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    html += run_markup(runs[i], i, runs.size() <= kMostOpen, report);
  }
  return html + "<script>" + kReportScript + "</script>\n</body></html>\n";
}

}  // namespace starling

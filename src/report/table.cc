#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "report/escape.h"

namespace starling {

namespace {

// Of UTF-8 text: "±" is one letter of two bytes.
std::size_t letters_in(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  STARLING_CHECK(row.size() == header_.size(), "a row of {} in a table of {}", row.size(),
                 header_.size());
  rows_.push_back(std::move(row));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < header_.size(); ++column) {
    std::size_t width = letters_in(header_[column]);
    for (const auto& row : rows_) width = std::max(width, letters_in(row[column]));
    widths.push_back(width);
  }
  return widths;
}

// Names and other words stand left, as the first column always does; numbers stand right.
bool Table::holds_words(std::size_t column) const {
  return column == 0 || std::ranges::any_of(rows_, [column](const auto& row) {
           return !row[column].empty() && std::isalpha(static_cast<unsigned char>(row[column][0]));
         });
}

std::string Table::text() const {
  const auto width = widths();
  std::string out;
  const auto line = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += i == 0 ? "" : "  ";
      out += holds_words(i) ? fmt::format("{:<{}}", row[i], width[i])
                            : fmt::format("{:>{}}", row[i], width[i]);
    }
    while (out.ends_with(' ')) out.pop_back();
    out += '\n';
  };
  line(header_);
  std::vector<std::string> rule;
  for (std::size_t each : width) rule.emplace_back(each, '-');
  line(rule);
  for (const auto& row : rows_) line(row);
  return out;
}

std::string Table::markdown() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& row) {
    for (const std::string& cell : row) {
      out += "| ";
      for (char c : cell) out += c == '|' ? std::string("\\|") : std::string(1, c);
      out += " ";
    }
    out += "|\n";
  };
  line(header_);
  line(std::vector<std::string>(header_.size(), "---"));
  for (const auto& row : rows_) line(row);
  return out;
}

std::string Table::csv() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      if (cell.find_first_of(",\"\r\n") != std::string::npos) {
        std::string quoted;
        for (char c : cell) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
        cell = '"' + quoted + '"';
      }
      out += (i == 0 ? "" : ",") + cell;
    }
    out += '\n';
  };
  line(header_);
  for (const auto& row : rows_) line(row);
  return out;
}

std::string Table::html(const std::vector<std::string>& before) const {
  const auto row = [](const std::string& first, const std::vector<std::string>& cells,
                      const char* tag) {
    std::string line = "<tr>" + first;
    for (const std::string& cell : cells) {
      line += fmt::format("<{0}>{1}</{0}>", tag, escaped_for_markup(cell));
    }
    return line + "</tr>\n";
  };
  std::string out = "<table>\n" + row(before.empty() ? "" : "<th></th>", header_, "th");
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    out += row(before.empty() ? "" : "<td>" + before[i] + "</td>", rows_[i], "td");
  }
  return out + "</table>";
}

}  // namespace starling

// A table for people: aligned text on a terminal, Markdown for documents, CSV for programs.
#pragma once

#include <string>
#include <vector>

namespace starling {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}

  void add(std::vector<std::string> row);

  std::string text() const;
  std::string markdown() const;
  std::string csv() const;
  // before[i] is markup for a cell in front of row i; none if it is empty.
  std::string html(const std::vector<std::string>& before = {}) const;

 private:
  std::vector<std::size_t> widths() const;
  bool holds_words(std::size_t column) const;

  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace starling

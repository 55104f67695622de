#include "topology/graph_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <system_error>

#include "base/check.h"
#include "base/error.h"

namespace starling {

namespace {

// A mesh of 1,000 workers has half a million edges and fits.
constexpr std::size_t kMaxFileBytes = 16 << 20;
constexpr std::size_t kMaxQuotedChars = 40;

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r"), text.size()));
}

// What stands there, fit for one line on a terminal.
std::string quoted(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, kMaxQuotedChars)) out += c >= ' ' && c <= '~' ? c : '?';
  return fmt::format("'{}{}'", out, text.size() > kMaxQuotedChars ? "..." : "");
}

struct Edge {
  int from;
  int to;
  bool both_ways;
};

// Reads one line that holds more than a comment.
class LineReader {
 public:
  LineReader(std::string_view line, std::string place)
      : line_(line), left_(line), place_(std::move(place)) {}

  Edge edge() {
    Edge edge{};
    edge.from = rank();
    skip_blanks(left_);
    edge.both_ways = !left_.starts_with("->");
    if (!edge.both_ways) left_.remove_prefix(2);
    skip_blanks(left_);
    edge.to = rank();
    skip_blanks(left_);
    if (!left_.empty()) throw no_edge();
    if (edge.from == edge.to) {
      throw Error(fmt::format("{}: worker {} is joined to itself", place_, edge.from),
                  "take the line out, everybody hears itself anyway");
    }
    return edge;
  }

 private:
  // Digits up to a blank, an arrow or the end.
  int rank() {
    const std::string_view digits = left_.substr(0, left_.find_first_not_of("0123456789"));
    left_.remove_prefix(digits.size());
    if (digits.empty()) throw no_edge();
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc()) throw no_edge();
    return value;
  }

  Error no_edge() const {
    return Error(fmt::format("{}: {} is not an edge", place_, quoted(line_)),
                 "write '0 1' for both ways or '0 -> 1' where 1 hears 0");
  }

  std::string_view line_;
  std::string_view left_;
  std::string place_;
};

std::string read_text(const std::filesystem::path& file) {
  const auto refuse = [&](const std::string& why, const std::string& remedy = "") {
    return Error(fmt::format("the graph file {} {}", file.string(), why), remedy);
  };
  // Opening a pipe would wait for a writer, and a folder opens but cannot be read.
  std::error_code status_error;
  const auto status = std::filesystem::status(file, status_error);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw refuse("is missing", "it holds one edge a line, e.g. '0 1'");
  }
  if (status_error) throw refuse("cannot be reached: " + status_error.message());
  if (!std::filesystem::is_regular_file(status)) throw refuse("is not a regular file");
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw refuse("cannot be opened: " + std::generic_category().message(errno));
  // Not all files know their size, so the limit is on what is read.
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw refuse("cannot be read");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kMaxFileBytes) {
    throw refuse(fmt::format("has more than {} MB", kMaxFileBytes >> 20),
                 "it should hold each edge once");
  }
  return text;
}

}  // namespace

Graph parse_graph(std::string_view text, const std::string& source, int size) {
  STARLING_CHECK(size >= 1, "a graph of {} workers", size);
  std::vector<Edge> edges;
  int last = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    skip_blanks(line);
    if (line.empty()) continue;
    edges.push_back(LineReader(line, fmt::format("{}:{}", source, number)).edge());
    last = std::max({last, edges.back().from, edges.back().to});
  }
  if (last != size - 1) {
    throw Error(fmt::format("{} joins {} workers, 0 to {}, but there are {}", source, last + 1L,
                            last, size),
                fmt::format("use --workers {}, or a graph file for {}", last + 1L, size));
  }
  std::vector<std::vector<int>> heard(static_cast<std::size_t>(size));
  for (const Edge& edge : edges) {
    heard[static_cast<std::size_t>(edge.to)].push_back(edge.from);
    if (edge.both_ways) heard[static_cast<std::size_t>(edge.from)].push_back(edge.to);
  }
  for (auto& ranks : heard) {
    std::ranges::sort(ranks);
    ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  }
  Graph graph({std::move(heard)});
  if (const auto unheard = graph.unheard()) {
    throw Error(fmt::format("{}: worker {} never hears of worker {}, not even over others", source,
                            unheard->to, unheard->from),
                fmt::format("add edges that lead from {} to {}", unheard->from, unheard->to));
  }
  return graph;
}

Graph read_graph_file(const std::filesystem::path& file, int size) {
  return parse_graph(read_text(file), file.string(), size);
}

}  // namespace starling

#include "server/block_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "server/messages.h"

namespace starling {

namespace {

// The part of a block's state that is one number for all of its weights.
bool is_single(std::string_view name) { return name.find("single/") != std::string_view::npos; }

std::size_t first_element(std::string_view prefix) {
  std::uint64_t begin = 0;
  const auto [end, error] = std::from_chars(prefix.data(), prefix.data() + prefix.size(), begin);
  if (error != std::errc() || std::string_view(end, prefix.data() + prefix.size()) != "/" ||
      begin > kMaxShardElements) {
    throw Error(fmt::format("a snapshot has the block '{}'", prefix));
  }
  return begin;
}

}  // namespace

StoredBlocks::StoredBlocks(const Snapshot& blocks) {
  for (auto at = blocks.parts.begin(); at != blocks.parts.end();) {
    const std::string prefix = at->first.substr(0, at->first.find('/') + 1);
    const std::size_t begin = first_element(prefix);
    Snapshot state = blocks.under(prefix);
    const std::size_t bytes = state.parts["weights"].bytes.size();
    stored_.push_back({{begin, begin + bytes / sizeof(float)}, std::move(state)});
    while (at != blocks.parts.end() && at->first.starts_with(prefix)) ++at;
  }
  std::ranges::sort(stored_, {}, [](const Stored& each) { return each.range.begin; });
}

Snapshot StoredBlocks::in(Range range) const {
  Snapshot result;
  result.partial = true;
  std::size_t covered = range.begin;
  for (const auto& [from, state] : stored_) {
    const std::size_t begin = std::max(covered, from.begin), end = std::min(range.end, from.end);
    if (begin >= end) continue;
    if (begin > covered) break;
    covered = end;
    for (const auto& [name, part] : state.parts) {
      Snapshot::Part& into = result.parts[name];
      if (is_single(name)) {
        into = part;
      } else if (part.bytes.size() == from.size() * sizeof(float)) {
        into.bytes.resize(range.size() * sizeof(float));
        const ConstBytes values =
            ConstBytes(part.bytes)
                .subspan((begin - from.begin) * sizeof(float), (end - begin) * sizeof(float));
        std::ranges::copy(values,
                          Bytes(into.bytes).subspan((begin - range.begin) * sizeof(float)).begin());
      }
    }
  }
  if (covered < range.end) {
    throw Error(fmt::format("the snapshots of the servers have no weights from {} to {}", covered,
                            range.end),
                "they are of another model, or one is missing");
  }
  return result;
}

}  // namespace starling

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
    Stored stored{{begin, begin}, blocks.under(prefix)};
    stored.range.end += stored.state.parts["weights"].bytes.size() / sizeof(float);
    if (stored.state.parts.contains("version")) {
      State::restoring(stored.state)("version", stored.version);
      stored.state.parts.erase("version");
    }
    stored_.push_back(std::move(stored));
    while (at != blocks.parts.end() && at->first.starts_with(prefix)) ++at;
  }
  std::ranges::sort(stored_, {}, [](const Stored& each) { return each.range.begin; });
}

bool StoredBlocks::cover(Range range) const {
  std::size_t covered = range.begin;
  for (const Stored& each : stored_) {
    if (each.range.begin <= covered) covered = std::max(covered, each.range.end);
  }
  return covered >= range.end;
}

// What a block knows of a piece of it, into the state of the whole that the piece is part of.
void StoredBlocks::copy(const Stored& from, Range piece, Range whole, Snapshot& into) {
  for (const auto& [name, part] : from.state.parts) {
    if (is_single(name)) {
      into.parts[name] = part;
    } else if (part.bytes.size() == from.range.size() * sizeof(float)) {
      Snapshot::Part& copied = into.parts[name];
      copied.bytes.resize(whole.size() * sizeof(float));
      const ConstBytes values = ConstBytes(part.bytes)
                                    .subspan((piece.begin - from.range.begin) * sizeof(float),
                                             piece.size() * sizeof(float));
      std::ranges::copy(
          values, Bytes(copied.bytes).subspan((piece.begin - whole.begin) * sizeof(float)).begin());
    }
  }
}

Snapshot StoredBlocks::in(Range range) const {
  Snapshot result;
  result.partial = true;
  std::size_t covered = range.begin;
  for (const Stored& each : stored_) {
    const std::size_t begin = std::max(covered, each.range.begin);
    const std::size_t end = std::min(range.end, each.range.end);
    if (begin >= end) continue;
    if (begin > covered) break;
    covered = end;
    copy(each, {begin, end}, range, result);
  }
  if (covered < range.end) {
    throw Error(fmt::format("the snapshots of the servers have no weights from {} to {}", covered,
                            range.end),
                "they are of another model, or one is missing");
  }
  return result;
}

// Wherever any of them begins or ends, another may know more from there on.
Snapshot newest_blocks(std::span<const KeptBlocks> kept) {
  struct Candidate {
    std::uint64_t generation;
    StoredBlocks::Stored block;
  };
  std::vector<Candidate> candidates;
  std::vector<std::size_t> cuts;
  for (const KeptBlocks& each : kept) {
    for (StoredBlocks::Stored& block : StoredBlocks(each.blocks).stored_) {
      cuts.push_back(block.range.begin);
      cuts.push_back(block.range.end);
      candidates.push_back({each.generation, std::move(block)});
    }
  }
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  Snapshot result;
  result.partial = true;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const Range piece{cuts[i], cuts[i + 1]};
    const Candidate* best = nullptr;
    for (const Candidate& each : candidates) {
      if (each.block.range.begin > piece.begin || each.block.range.end < piece.end) continue;
      const auto age = [](const Candidate& of) {
        return std::pair(of.generation, of.block.version);
      };
      if (best == nullptr || age(*best) < age(each)) best = &each;
    }
    if (best == nullptr) continue;
    Snapshot state;
    StoredBlocks::copy(best->block, piece, piece, state);
    for (auto& [name, part] : state.parts) {
      result.parts[fmt::format("{}/{}", piece.begin, name)] = std::move(part);
    }
  }
  return result;
}

}  // namespace starling

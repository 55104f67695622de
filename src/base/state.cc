#include "base/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/error.h"

namespace starling {

namespace {

constexpr std::size_t kMostParts = 1 << 22;
constexpr std::size_t kMostNameBytes = 256;
constexpr const char* kRemedy = "it is of another model, another system or another Starling";

struct PartHeader {
  std::uint32_t name_bytes = 0;
  std::uint32_t shared = 0;
  std::uint64_t bytes = 0;
};

template <class T>
T take(ConstBytes& from) {
  if (from.size() < sizeof(T)) throw Error("a snapshot ends too soon");
  T value;
  std::memcpy(&value, from.data(), sizeof(T));
  from = from.subspan(sizeof(T));
  return value;
}

}  // namespace

Snapshot Snapshot::shared() const {
  Snapshot some;
  some.partial = true;
  for (const auto& [name, part] : parts) {
    if (part.shared) some.parts.emplace(name, part);
  }
  return some;
}

Snapshot Snapshot::under(std::string_view prefix) const {
  Snapshot some;
  some.partial = partial;
  for (auto at = parts.lower_bound(prefix); at != parts.end() && at->first.starts_with(prefix);
       ++at) {
    some.parts.emplace(at->first.substr(prefix.size()), at->second);
  }
  return some;
}

std::size_t encoded_bytes(const Snapshot& snapshot) {
  std::size_t bytes = sizeof(std::uint64_t);
  for (const auto& [name, part] : snapshot.parts) {
    bytes += sizeof(PartHeader) + name.size() + part.bytes.size();
  }
  return bytes;
}

void encode(const Snapshot& snapshot, const std::function<void(ConstBytes)>& write) {
  std::uint64_t count = snapshot.parts.size();
  write(object_bytes(count));
  for (const auto& [name, part] : snapshot.parts) {
    PartHeader header{static_cast<std::uint32_t>(name.size()), part.shared ? 1u : 0u,
                      part.bytes.size()};
    write(object_bytes(header));
    write(bytes_of(std::span(name)));
    write(part.bytes);
  }
}

std::vector<std::byte> encode(const Snapshot& snapshot) {
  std::vector<std::byte> bytes;
  bytes.reserve(encoded_bytes(snapshot));
  encode(snapshot,
         [&](ConstBytes piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  return bytes;
}

Snapshot decode_snapshot(ConstBytes bytes) {
  Snapshot snapshot;
  const auto count = take<std::uint64_t>(bytes);
  if (count > kMostParts) throw Error(fmt::format("a snapshot of {} parts is none", count));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto header = take<PartHeader>(bytes);
    if (header.name_bytes > kMostNameBytes || header.shared > 1 ||
        header.name_bytes > bytes.size() || header.bytes > bytes.size() - header.name_bytes) {
      throw Error(fmt::format("part {} of a snapshot does not fit into it", i));
    }
    const ConstBytes name = bytes.first(header.name_bytes);
    const ConstBytes values = bytes.subspan(header.name_bytes, header.bytes);
    bytes = bytes.subspan(header.name_bytes + header.bytes);
    const bool is_new =
        snapshot.parts
            .try_emplace({reinterpret_cast<const char*>(name.data()), name.size()},
                         Snapshot::Part{{values.begin(), values.end()}, header.shared != 0})
            .second;
    if (!is_new) throw Error(fmt::format("part {} of a snapshot is there twice", i));
  }
  if (!bytes.empty()) throw Error(fmt::format("{} bytes follow a snapshot", bytes.size()));
  return snapshot;
}

bool State::has(std::string_view name) const {
  return from_ != nullptr && from_->parts.contains(prefix_ + std::string(name));
}

const Snapshot::Part* State::find(std::string_view name) const {
  if (from_ == nullptr) return nullptr;
  const auto found = from_->parts.find(prefix_ + std::string(name));
  if (found != from_->parts.end()) return &found->second;
  if (from_->partial) return nullptr;
  throw Error(fmt::format("the snapshot has no {}{}", prefix_, name), kRemedy);
}

void State::check_length(std::string_view name, bool fits) const {
  if (fits) return;
  throw Error(fmt::format("{}{} has another length in the snapshot", prefix_, name), kRemedy);
}

void State::visit(std::string_view name, Bytes bytes) const {
  if (into_ != nullptr) {
    Snapshot::Part& part = into_->parts[prefix_ + std::string(name)];
    part.bytes.assign(bytes.begin(), bytes.end());
    part.shared = shared_;
  }
  if (const Snapshot::Part* part = find(name)) {
    check_length(name, part->bytes.size() == bytes.size());
    std::ranges::copy(part->bytes, bytes.begin());
  }
}

void State::operator()(std::string_view name, bool& value) const {
  std::uint8_t byte = value ? 1 : 0;
  visit(name, object_bytes(byte));
  value = byte != 0;
}

void State::operator()(std::string_view name, std::string& text) const {
  if (const Snapshot::Part* part = find(name)) text.resize(part->bytes.size());
  visit(name, std::as_writable_bytes(std::span(text)));
}

// The engine's own form is text: its words, and behind them its place among them, which it takes
// from anybody unseen.
void State::operator()(std::string_view name, Random& random) const {
  constexpr std::size_t kWords = std::mt19937_64::state_size;
  std::ostringstream out;
  out << random.engine_;
  std::istringstream words(out.str());
  std::vector<std::uint64_t> numbers(kWords + 1);
  for (std::uint64_t& number : numbers) words >> number;
  (*this)(name, numbers);
  if (!restores() || !has(name)) return;
  check_length(name, numbers.back() <= kWords);
  std::ostringstream text;
  for (const std::uint64_t number : numbers) text << number << ' ';
  std::istringstream in(text.str());
  in >> random.engine_;
}

}  // namespace starling

#include "codec/sparse_values.h"

#include <fmt/format.h>

namespace starling {

void add_sparse_values(ConstBytes code, std::size_t most, const char* name, std::span<float> into) {
  std::uint32_t count;
  if (code.size() < sizeof count) throw BadCode(fmt::format("a {} code ends in its header", name));
  std::memcpy(&count, code.data(), sizeof count);
  const ConstBytes rest = code.subspan(sizeof count);
  if (count > most || rest.size() / 2 < count) {
    throw BadCode(fmt::format("{} bytes are no {} code of {} among {} elements", code.size(), name,
                              count, into.size()));
  }
  const ConstBytes sent = rest.first(2 * std::size_t{count});
  GapReader gaps(rest.subspan(sent.size()), into.size(), count);
  for (std::size_t i = 0; i < sent.size(); i += 2) {
    std::uint16_t value;
    std::memcpy(&value, &sent[i], sizeof value);
    into[gaps.next()] += from_bfloat(Bfloat{value});
  }
  gaps.finish();
}

}  // namespace starling

#include "exchange/named_request.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace starling {

std::uint64_t TensorForm::row_elements() const {
  std::uint64_t elements = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error("this is no request for an exchange: " + what);
}

// Whether the product stays within what may be asked for.
bool is_bounded(const TensorForm& tensor) {
  if (tensor.shape.size() > NamedRequest::kMostDimensions) return false;
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : tensor.shape) {
    if (extent > NamedRequest::kMostElements / elements) return false;
    elements *= std::max<std::uint64_t>(extent, 1);
  }
  return true;
}

}  // namespace

void check(const NamedRequest& request) {
  if (request.name.size() > NamedRequest::kMostName) {
    refuse(fmt::format("a name of {} characters", request.name.size()));
  }
  if (request.tensors.size() > NamedRequest::kMostTensors) {
    refuse(fmt::format("{} tensors", request.tensors.size()));
  }
  if (request.splits.size() > NamedRequest::kMostSplits) {
    refuse(fmt::format("{} splits", request.splits.size()));
  }
  if (!std::isfinite(request.before) || !std::isfinite(request.after)) {
    refuse(fmt::format("factors of {} and {}", request.before, request.after));
  }
  for (const TensorForm& tensor : request.tensors) {
    if (!is_bounded(tensor)) refuse("a tensor that is too large");
  }
}

std::vector<std::byte> encode(const NamedRequest& request) {
  ByteWriter out;
  out.put(static_cast<std::uint8_t>(request.act));
  out.put(static_cast<std::uint8_t>(request.blend));
  out.put(static_cast<std::int32_t>(request.root));
  out.put(request.before);
  out.put(request.after);
  out.put_text(request.name);
  out.put(static_cast<std::uint32_t>(request.tensors.size()));
  for (const TensorForm& tensor : request.tensors) {
    out.put(static_cast<std::uint8_t>(tensor.type));
    out.put(static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::uint64_t extent : tensor.shape) out.put(extent);
  }
  out.put(static_cast<std::uint32_t>(request.splits.size()));
  for (const std::uint64_t rows : request.splits) out.put(rows);
  return out.take();
}

NamedRequest decode_request(ConstBytes bytes) {
  ByteReader in(bytes);
  NamedRequest request;
  const auto act = in.get<std::uint8_t>();
  const auto blend = in.get<std::uint8_t>();
  if (act >= kActNames.size()) refuse(fmt::format("act {}", act));
  if (blend >= kBlendNames.size()) refuse(fmt::format("reduction {}", blend));
  request.act = static_cast<Act>(act);
  request.blend = static_cast<Blend>(blend);
  request.root = in.get<std::int32_t>();
  request.before = in.get<double>();
  request.after = in.get<double>();
  request.name = in.get_text(NamedRequest::kMostName);
  const std::uint32_t tensors = in.get_count(NamedRequest::kMostTensors);
  for (std::uint32_t i = 0; i < tensors; ++i) {
    const auto type = in.get<std::uint8_t>();
    if (type >= kElementTypes.size()) refuse(fmt::format("element type {}", type));
    TensorForm tensor{static_cast<Element>(type), {}};
    const std::uint32_t dimensions = in.get_count(NamedRequest::kMostDimensions);
    for (std::uint32_t d = 0; d < dimensions; ++d) tensor.shape.push_back(in.get<std::uint64_t>());
    request.tensors.push_back(std::move(tensor));
  }
  const std::uint32_t splits = in.get_count(NamedRequest::kMostSplits);
  for (std::uint32_t i = 0; i < splits; ++i) request.splits.push_back(in.get<std::uint64_t>());
  if (!in.empty()) refuse("there is something behind it");
  check(request);
  return request;
}

ConstBytes ByteReader::some(std::size_t bytes) {
  if (left_.size() < bytes) throw Error("a message ends before what it announces");
  const ConstBytes first = left_.first(bytes);
  left_ = left_.subspan(bytes);
  return first;
}

std::uint32_t ByteReader::get_count(std::size_t most) {
  const auto count = get<std::uint32_t>();
  if (count > most)
    throw Error(fmt::format("a message announces {} where {} are the most", count, most));
  return count;
}

}  // namespace starling

#include "parallel/tensor_stream.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace starling {

std::optional<std::size_t> elements_of(std::span<const std::int64_t> sizes) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements)) {
      return std::nullopt;
    }
  }
  if (elements > kMaxTensorBytes / sizeof(float)) return std::nullopt;
  return static_cast<std::size_t>(elements);
}

void TensorOut::put(const torch::Tensor& tensor) {
  STARLING_CHECK(static_cast<std::size_t>(tensor.dim()) <= TensorHead::kMaxDimensions,
                 "a tensor of {} dimensions", tensor.dim());
  while (!under_way_.empty() && under_way_.front()->send->done()) under_way_.pop_front();
  auto parcel = std::make_unique<Parcel>();
  parcel->tensor = tensor.detach().to(torch::kFloat).contiguous();
  parcel->head.dimensions = tensor.dim();
  std::ranges::copy(tensor.sizes(), parcel->head.sizes.begin());
  const std::span<const float> values(parcel->tensor.data_ptr<float>(),
                                      static_cast<std::size_t>(parcel->tensor.numel()));
  parcel->send.emplace(group_, to_, channel_, std::as_bytes(values), object_bytes(parcel->head));
  under_way_.push_back(std::move(parcel));
}

Task<> TensorOut::flush() {
  while (!under_way_.empty()) {
    Send& oldest = *under_way_.front()->send;
    co_await oldest;
    under_way_.pop_front();
  }
}

std::optional<Bytes> TensorIn::Slot::lend(std::size_t bytes) {
  memory = torch::empty({static_cast<std::int64_t>((bytes + 3) / 4)});
  return Bytes(static_cast<std::byte*>(memory.data_ptr()), bytes);
}

void TensorIn::post_ahead() {
  while (expected_ > 0 && slots_.size() < kAhead) {
    auto slot = std::make_unique<Slot>();
    slot->receive.emplace(group_, from_, channel_, kMaxTensorBytes, *slot,
                          object_bytes(slot->head));
    slots_.push_back(std::move(slot));
    --expected_;
  }
}

Task<torch::Tensor> TensorIn::next() {
  post_ahead();
  STARLING_CHECK(!slots_.empty(), "no tensor is expected from rank {}", group_.in_comm(from_));
  const std::unique_ptr<Slot> slot = std::move(slots_.front());
  slots_.pop_front();
  post_ahead();
  Receive& receive = *slot->receive;
  co_await receive;
  const TensorHead& head = slot->head;
  const std::size_t bytes = receive.bytes.size();
  const bool has_shape = head.dimensions >= 0 &&
                         static_cast<std::size_t>(head.dimensions) <= TensorHead::kMaxDimensions;
  const std::size_t dimensions = has_shape ? static_cast<std::size_t>(head.dimensions) : 0;
  const auto elements = elements_of(std::span(head.sizes).first(dimensions));
  if (!has_shape || !elements || *elements * sizeof(float) != bytes) {
    throw Error(fmt::format("rank {} sent {} bytes that are not the tensor it says they are",
                            group_.in_comm(from_), bytes),
                "all workers must run the same program with the same model and settings");
  }
  co_return slot->memory.view(torch::IntArrayRef(head.sizes.data(), dimensions));
}

}  // namespace starling

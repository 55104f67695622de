#include "parallel/tensor_group.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <list>

#include "base/error.h"
#include "exchange/choice.h"
#include "exchange/collectives.h"
#include "runtime/race.h"
#include "strategy/groups.h"

namespace starling {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;

using Step = std::function<Tensor(const Tensor&)>;

constexpr std::uint32_t kSumChannel = 0, kGatherChannel = 1, kFetchChannel = 2;

// A function of one tensor, and what the gradient goes through on its way back.
class TwoWays : public torch::autograd::Function<TwoWays> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Step& ahead, Step back) {
    context->saved_data["back"] =
        c10::IValue::make_capsule(c10::make_intrusive<Kept>(std::move(back)));
    return ahead(x);
  }
  static torch::autograd::variable_list backward(AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto kept = context->saved_data["back"].toCapsule();
    return {static_cast<const Kept&>(*kept).back(gradients[0]), Tensor(), Tensor()};
  }

 private:
  struct Kept : torch::CustomClassHolder {
    explicit Kept(Step step) : back(std::move(step)) {}
    Step back;
  };
};

Tensor as_it_is(const Tensor& x) { return x; }

Range common(Range a, Range b) {
  const Range both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.begin < both.end ? both : Range{a.begin, a.begin};
}

// The rows `wanted` of a tensor that begins with row `first`.
Tensor rows(const Tensor& x, std::int64_t dimension, Range wanted, std::size_t first) {
  return x.narrow(dimension, static_cast<std::int64_t>(wanted.begin - first),
                  static_cast<std::int64_t>(wanted.size()));
}

Tensor rows_like(const Tensor& x, std::int64_t dimension, Range range) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes[static_cast<std::size_t>(dimension)] = static_cast<std::int64_t>(range.size());
  return torch::empty(sizes, x.options().requires_grad(false));
}

Task<> swap_all(Group group, Purpose purpose, const std::vector<Tensor>& out,
                std::vector<Tensor>& in) {
  const Channel channel{kFetchChannel, purpose, "fetching rows of neighbours"};
  std::list<Receive> receives;
  std::list<Send> sends;
  for (int peer = 0; peer < group.size(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (peer == group.rank()) continue;
    if (in[at].numel() > 0) {
      receives.emplace_back(group, peer, channel, vector_of(in[at]).bytes());
    }
    if (out[at].numel() > 0) {
      sends.emplace_back(group, peer, channel, vector_of(out[at]).bytes());
    }
  }
  for (Receive& receive : receives) co_await receive;
  for (Send& send : sends) co_await send;
}

}  // namespace

Vector vector_of(const Tensor& tensor) {
  STARLING_CHECK(tensor.is_contiguous(), "a tensor that is not contiguous");
  const auto elements = static_cast<std::size_t>(tensor.numel());
  auto* const data = static_cast<std::byte*>(tensor.data_ptr());
  if (tensor.scalar_type() == torch::kDouble) return {Element::f64, data, elements};
  if (tensor.scalar_type() != torch::kFloat) {
    throw Error(
        fmt::format("layers cannot be shared for tensors of {}", toString(tensor.scalar_type())),
        "use 32- or 64-bit floats");
  }
  return {Element::f32, data, elements};
}

TensorGroup::TensorGroup(Group group, Time timeout)
    : group_(apart(group, GroupNumber::tensor)), timeout_(timeout) {}

Slice TensorGroup::slice(std::int64_t dimension, std::int64_t size, const char* what,
                         std::int64_t stretches, std::int64_t grain) const {
  const Slice slice{dimension, size, stretches, grain, rank(), this->size()};
  if (slice.size_of(this->size() - 1) == 0) {
    throw Error(fmt::format("{} {} cannot be shared out among {} ranks", size / stretches / grain,
                            what, this->size()),
                "use fewer ranks a layer, or a wider one");
  }
  return slice;
}

Tensor TensorGroup::spread(const Tensor& x, Purpose purpose) const {
  if (size() == 1) return x;
  return TwoWays::apply(x, as_it_is, [self = *this, purpose](const Tensor& gradient) {
    return self.added_up(gradient, purpose);
  });
}

Tensor TensorGroup::sum(const Tensor& x) const {
  if (size() == 1) return x;
  return TwoWays::apply(
      x, [this](const Tensor& mine) { return added_up(mine, activations()); }, as_it_is);
}

Tensor TensorGroup::gather(const Tensor& x, const Slice& slice) const {
  if (size() == 1) return x;
  return TwoWays::apply(
      x, [&](const Tensor& mine) { return joined(mine, slice); },
      [slice](const Tensor& gradient) { return slice.take(gradient); });
}

Tensor TensorGroup::take(const Tensor& x, const Slice& slice) const {
  if (size() == 1) return x;
  return TwoWays::apply(
      x, [&](const Tensor& whole) { return slice.take(whole); },
      [self = *this, slice](const Tensor& gradient) { return self.joined(gradient, slice); });
}

Tensor TensorGroup::fetch(const Tensor& x, std::int64_t dimension, std::vector<Range> owned,
                          std::vector<Range> needed) const {
  return TwoWays::apply(
      x, [&](const Tensor& mine) { return fetched(mine, dimension, owned, needed); },
      [self = *this, dimension, owned, needed](const Tensor& gradient) {
        return self.given_back(gradient, dimension, owned, needed);
      });
}

void TensorGroup::wait(const char* what, Task<> task) const {
  const auto waiting = group_.record(Timeline::Kind::wait, what);
  Loop& loop = group_.loop();
  loop.run(within(loop, loop.now() + timeout_, what, std::move(task)));
}

Tensor TensorGroup::added_up(const Tensor& x, Purpose purpose) const {
  const Tensor total = x.detach().clone(torch::MemoryFormat::Contiguous);
  const Channel channel{kSumChannel, purpose};
  wait("adding up what the ranks of a layer have",
       auto_allreduce(group_, channel, vector_of(total), Reduction::sum));
  return total;
}

Tensor TensorGroup::joined(const Tensor& x, const Slice& slice) const {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  std::int64_t& size = sizes[static_cast<std::size_t>(
      slice.dimension < 0 ? slice.dimension + x.dim() : slice.dimension)];
  const std::int64_t others = x.numel() / size;  // elements at each place of that dimension
  const Tensor flat = torch::empty({others * slice.size}, x.options().requires_grad(false));
  std::vector<Tensor> parts;
  std::vector<Range> pieces;
  std::int64_t at = 0;
  for (int rank = 0; rank < this->size(); ++rank) {
    size = slice.size_of(rank);
    const std::int64_t elements = size * others;
    parts.push_back(flat.narrow(0, at, elements).view(sizes));
    pieces.push_back({static_cast<std::size_t>(at), static_cast<std::size_t>(at + elements)});
    at += elements;
  }
  parts[static_cast<std::size_t>(rank())].copy_(x.detach());
  wait("joining what the ranks of a layer have",
       all_gather(group_, {kGatherChannel, activations()}, vector_of(flat), pieces));
  if (slice.stretches == 1) return torch::cat(parts, slice.dimension);
  size = slice.size;
  Tensor whole = torch::empty(sizes, flat.options());
  for (int rank = 0; rank < this->size(); ++rank) {
    slice.put(parts[static_cast<std::size_t>(rank)], rank, whole);
  }
  return whole;
}

Tensor TensorGroup::fetched(const Tensor& x, std::int64_t dimension, std::span<const Range> owned,
                            std::span<const Range> needed) const {
  const auto me = static_cast<std::size_t>(rank());
  std::vector<Tensor> out, in;
  for (std::size_t peer = 0; peer < owned.size(); ++peer) {
    const Range asked = common(owned[me], needed[peer]);
    out.push_back(rows(x.detach(), dimension, asked, owned[me].begin).contiguous());
    in.push_back(peer == me ? out.back()
                            : rows_like(x, dimension, common(owned[peer], needed[me])));
  }
  swap(out, in);
  return torch::cat(in, dimension);
}

Tensor TensorGroup::given_back(const Tensor& x, std::int64_t dimension,
                               std::span<const Range> owned, std::span<const Range> needed) const {
  const auto me = static_cast<std::size_t>(rank());
  std::vector<Tensor> out, in;
  for (std::size_t peer = 0; peer < owned.size(); ++peer) {
    // Of a range that has nothing in common with ours the beginning may be anywhere.
    const Range came = common(owned[peer], needed[me]);
    out.push_back(came.size() == 0 ? rows_like(x, dimension, came)
                                   : rows(x, dimension, came, needed[me].begin).contiguous());
    in.push_back(peer == me ? out.back()
                            : rows_like(x, dimension, common(owned[me], needed[peer])));
  }
  swap(out, in);
  Tensor total = rows_like(x, dimension, owned[me]).zero_();
  for (std::size_t peer = 0; peer < owned.size(); ++peer) {
    const Range asked = common(owned[me], needed[peer]);
    rows(total, dimension, asked, owned[me].begin).add_(in[peer]);
  }
  return total;
}

void TensorGroup::swap(const std::vector<Tensor>& out, std::vector<Tensor>& in) const {
  wait("fetching rows of neighbours", swap_all(group_, activations(), out, in));
}

}  // namespace starling

#include "parallel/whole.h"

#include "exchange/collectives.h"
#include "parallel/tensor_group.h"

namespace starling {

namespace {
constexpr std::uint32_t kAssembleChannel = 8;
}

Task<torch::Tensor> assemble(Group tensor, torch::Tensor mine, std::optional<Slice> slice) {
  mine = mine.detach().contiguous();
  const bool root = tensor.rank() == 0;
  if (!slice) co_return root ? mine : torch::Tensor();
  std::vector<std::int64_t> sizes = mine.sizes().vec();
  std::int64_t& size = sizes[static_cast<std::size_t>(slice->dimension)];
  const std::int64_t others = mine.numel() / size;
  torch::Tensor flat, whole;
  std::vector<Range> pieces;
  std::size_t at = 0;
  for (int rank = 0; rank < tensor.size(); ++rank) {
    const std::size_t begin = at;
    at += static_cast<std::size_t>(slice->size_of(rank) * others);
    pieces.push_back({begin, at});
  }
  if (root) flat = torch::empty({static_cast<std::int64_t>(at)}, mine.options());
  const Vector all = root ? vector_of(flat) : Vector();
  Task<> gathering =
      gather(tensor, {kAssembleChannel, Purpose::weights}, vector_of(mine), all, pieces, 0);
  co_await gathering;
  if (!root) co_return whole;
  size = slice->size;
  whole = torch::empty(sizes, mine.options());
  for (int rank = 0; rank < tensor.size(); ++rank) {
    const Range piece = pieces[static_cast<std::size_t>(rank)];
    size = slice->size_of(rank);
    slice->put(flat.narrow(0, static_cast<std::int64_t>(piece.begin),
                           static_cast<std::int64_t>(piece.size()))
                   .view(sizes),
               rank, whole);
  }
  co_return whole;
}

}  // namespace starling

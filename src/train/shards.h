// Which samples belong to which worker, where they are not simply dealt out anew in every epoch:
// federated workers keep their own, and these are of other kinds than their neighbours'.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strategy/train_settings.h"

namespace starling {

using Shards = std::vector<std::vector<std::int64_t>>;  // each worker's samples

//   dirichlet  each label's samples are split in proportions drawn from a Dirichlet distribution:
//              the smaller alpha, the more a worker has of some labels and the less of others
//   label      sorted by label and cut into two pieces a worker, dealt out by the seed
// Every sample belongs to exactly one worker; the same seed gives the same shards everywhere.
Shards share_out(std::span<const std::uint8_t> labels, int workers, TrainSettings::Shards how,
                 double alpha, std::uint64_t seed);

}  // namespace starling

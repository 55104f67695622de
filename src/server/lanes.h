// Lanes: the order in which a worker takes the blocks of a stretch of the model. Each server has a
// few lanes, and each lane does one block after the other. A worker that pushed everything at once
// would have its server hold every answer until the worker has read those before it; a few at a
// time stay in the server's cache from their arrival until their answer (docs/performance.md).
//
// Every worker has the same lanes, so that no two can wait for each other's blocks.
#pragma once

#include <optional>
#include <vector>

#include "runtime/running.h"
#include "server/keys.h"

namespace starling {

class Lanes {
 public:
  explicit Lanes(const std::vector<Key>& keys) : keys_(keys), lanes_(keys.size()) {}

  // Awaits operation(key), which is a Task<>, for all keys from `first` to before `last`. Stretches
  // that do not overlap may be under way at the same time.
  template <class Operation>
  Task<> take(std::size_t first, std::size_t last, Operation operation) {
    for (std::size_t key = first; key < last; ++key) {
      if (begins_lane(first, key)) lanes_[key].emplace(lane(key, last, operation));
    }
    for (std::size_t key = first; key < last; ++key) {
      if (!begins_lane(first, key)) continue;
      Running& running = *lanes_[key];
      co_await running;
    }
  }

 private:
  static constexpr std::size_t kLanes = 4;  // of a server; measured: docs/performance.md

  // Keys of one server are consecutive.
  bool begins_lane(std::size_t first, std::size_t key) const {
    return key < first + kLanes || keys_[key - kLanes].server != keys_[key].server;
  }

  template <class Operation>
  Task<> lane(std::size_t begin, std::size_t last, Operation operation) {
    for (std::size_t key = begin; key < last && keys_[key].server == keys_[begin].server;
         key += kLanes) {
      Task<> one = operation(key);
      co_await one;
    }
  }

  const std::vector<Key>& keys_;
  std::vector<std::optional<Running>> lanes_;  // each at its first key
};

}  // namespace starling

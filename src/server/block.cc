#include "server/block.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "math/vector_math.h"

namespace starling {

Block::Block(Loop& loop, const Options& options, const Gate& gate, ServerReport& report)
    : gate_(gate),
      staleness_(options.staleness),
      report_(report),
      copy_reads_(!gate.reads_alone() && options.workers > 1),
      keep_reads_(gate.looks_at_reads() || options.tells_differences ||
                  options.staleness.kind == StalenessRule::Kind::compensate),
      optimizer_(make_server_optimizer(options.optimizer, options.elements)),
      weights_(options.elements),
      workers_(static_cast<std::size_t>(options.workers)),
      arrivals_(loop),
      changed_(loop) {
  for (Worker& worker : workers_) {
    if (keep_reads_) worker.read.resize(options.elements);
  }
  waiting_.reserve(workers_.size());
  chosen_.reserve(workers_.size());
  merged_.reserve(workers_.size());
}

int Block::active_workers() const {
  return static_cast<int>(std::ranges::count(workers_, true, &Worker::active));
}

std::uint64_t Block::closed() const {
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
  for (const Worker& worker : workers_) {
    if (worker.active) smallest = std::min(smallest, worker.clock);
  }
  return smallest;
}

bool Block::is_waiting(int worker) const {
  return std::ranges::find(waiting_, worker, &Push::worker) != waiting_.end();
}

double Block::distance_after(std::size_t i) const {
  if (std::ranges::find(workers_, true, &Worker::computing) == workers_.end()) return 0;
  std::vector<float> gradient(waiting_[i].gradient.begin(), waiting_[i].gradient.end());
  std::vector<float> after = weights_;
  const double lr_factor = correct(waiting_[i], gradient);
  optimizer_->copy()->update(after, gradient, lr_factor);
  double largest = 0;
  for (const Worker& worker : workers_) {
    if (!worker.computing) continue;
    for (std::size_t e = 0; e < after.size(); ++e) {
      const auto distance = std::abs(static_cast<double>(after[e] - worker.read[e]));
      if (std::isnan(distance)) return std::numeric_limits<double>::infinity();
      largest = std::max(largest, distance);
    }
  }
  return largest;
}

void Block::have_weights() {
  has_weights_ = true;
  changed_.ring();
}

void Block::arrived(const Push& push) {
  STARLING_CHECK(!is_waiting(push.worker), "worker {} pushed twice", push.worker);
  Worker& worker = of(push.worker);
  worker.clock = push.clock + 1;
  worker.computing = false;
  worker.copy = nullptr;
  if (gate_.drops_late() && push.version < version_) {
    ++report_.dropped;
  } else {
    waiting_.push_back(push);
  }
  arrivals_.ring();
}

Task<> Block::until_applied(int worker) {
  while (is_waiting(worker)) co_await changed_.rung();
  of(worker).copy = nullptr;  // its memory may be lent to somebody else now
}

Task<> Block::admit(int worker) {
  while (!has_weights_ || !gate_.may_read(*this, worker)) co_await changed_.rung();
  Worker& reader = of(worker);
  reader.computing = reader.active;
}

Task<std::span<const float>> Block::read(int worker, std::span<float> room) {
  co_await admit(worker);
  Worker& reader = of(worker);
  keep_read(worker);
  if (!copy_reads_) co_return weights_;
  const bool is_there = reader.copy == room.data() && reader.copy_version == version_;
  if (!is_there) std::ranges::copy(weights_, room.begin());
  reader.copy = nullptr;
  co_return room;
}

void Block::keep_read(int worker) {
  if (!keep_reads_) return;
  std::ranges::copy(weights_, of(worker).read.begin());
  if (witness_ != nullptr) witness_->was_read(worker);
  arrivals_.ring();  // it may have been what it read before that held an update back
}

Task<> Block::read_difference(int worker, std::span<float> room) {
  co_await admit(worker);
  Worker& reader = of(worker);
  reader.copy = nullptr;
  std::ranges::copy(weights_, room.begin());
  subtract_scaled(room, reader.read, 1);
  if (witness_ != nullptr) witness_->was_read(worker);
  arrivals_.ring();  // as in keep_read()
}

void Block::leave(int worker) {
  of(worker).active = false;
  of(worker).computing = false;
  arrivals_.ring();
}

void Block::forget(int worker) {
  report_.dropped +=
      std::erase_if(waiting_, [worker](const Push& push) { return push.worker == worker; });
  of(worker).copy = nullptr;
  arrivals_.ring();
}

void Block::visit_state(State state) {
  state.shared()("weights", weights_);
  optimizer_->visit_state(state.shared().in("optimizer"));
  state("version", version_);
  std::vector<std::uint64_t> clocks;
  for (int worker = 0; worker < workers(); ++worker) {
    clocks.push_back(clock(worker) - (is_waiting(worker) ? 1 : 0));
  }
  state("clocks", clocks);
  std::vector<std::uint8_t> computing;
  for (const Worker& worker : workers_) computing.push_back(worker.computing ? 1 : 0);
  state("computing", computing);
  for (int worker = 0; worker < workers(); ++worker) {
    if (keep_reads_) state.in("read")(std::to_string(worker), of(worker).read);
    if (!state.restores()) continue;
    of(worker).clock = clocks[static_cast<std::size_t>(worker)];
    of(worker).computing = computing[static_cast<std::size_t>(worker)] != 0;
  }
  if (state.restores()) have_weights();
}

Task<> Block::keep_up() {
  while (true) {
    co_await arrivals_.rung();
    settle();
  }
}

void Block::settle() {
  while (!waiting_.empty()) {
    chosen_.clear();
    gate_.choose(*this, chosen_);
    if (chosen_.empty()) break;
    apply_chosen();
    if (gate_.drops_late()) drop_late();
  }
  changed_.ring();
}

// The mean of the chosen gradients is formed in the first one's place.
void Block::apply_chosen() {
  merged_.clear();
  for (std::size_t i : chosen_) merged_.push_back(waiting_[i]);
  std::erase_if(waiting_, [&](const Push& push) {
    return std::ranges::find(merged_, push.worker, &Push::worker) != merged_.end();
  });
  const std::span<float> mean = merged_.front().gradient;
  double lr_factor = 1;
  for (const Push& push : merged_) {
    report_.staleness.add(version_ - push.version);
    lr_factor = std::min(lr_factor, correct(push, push.gradient));
    if (push.worker != merged_.front().worker) add(mean, push.gradient);
  }
  if (merged_.size() > 1) scale(mean, 1.0f / static_cast<float>(merged_.size()));
  if (witness_ != nullptr) witness_->will_update({merged_, mean, lr_factor});
  ++version_;
  if (copy_reads_ && merged_.size() == 1) {  // the pusher will want to read
    optimizer_->update(weights_, mean, lr_factor, mean);
    of(merged_.front().worker).copy = mean.data();
    of(merged_.front().worker).copy_version = version_;
  } else {
    optimizer_->update(weights_, mean, lr_factor);
  }
  ++report_.updates;
  if (follower_) follower_(*this, merged_);
}

void Block::replay(const Update& update) {
  for (const Push& push : update.pushes) {
    report_.staleness.add(version_ - push.version);
    of(push.worker).clock = push.clock + 1;
    of(push.worker).computing = false;
  }
  ++version_;
  optimizer_->update(weights_, update.gradient, update.lr_factor);
  ++report_.updates;
}

void Block::replay_read(int worker) {
  of(worker).computing = of(worker).active;
  if (keep_reads_) std::ranges::copy(weights_, of(worker).read.begin());
}

void Block::drop_late() {
  report_.dropped +=
      std::erase_if(waiting_, [&](const Push& push) { return push.version < version_; });
}

double Block::correct(const Push& push, std::span<float> gradient) const {
  const std::uint64_t delay = version_ - push.version;
  if (staleness_.kind == StalenessRule::Kind::scale) {
    return push.rate / static_cast<double>(std::max<std::uint64_t>(1, delay));
  }
  if (staleness_.kind == StalenessRule::Kind::compensate && delay > 0) {
    const auto lambda = static_cast<float>(staleness_.lambda);
    const std::vector<float>& then = of(push.worker).read;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const float g = gradient[i];
      gradient[i] = g + lambda * g * g * (weights_[i] - then[i]);
    }
  }
  return push.rate;
}

}  // namespace starling

#include "strategy/batch_ledger.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace starling {

void DoneBatches::add(std::uint64_t batch) {
  if (!runs_.empty()) {
    Run& last = runs_.back();
    if (last.count == 1 && batch > last.first) last.distance = batch - last.first;
    if (last.distance > 0 && batch == last.first + last.distance * last.count) {
      ++last.count;
      return;
    }
  }
  runs_.push_back({batch, 0, 1});
}

std::vector<std::uint64_t> DoneBatches::numbers(std::uint64_t most) const {
  std::vector<std::uint64_t> numbers;
  for (const Run& run : runs_) {
    const bool fits = run.count > 0 && run.first < most &&
                      (run.distance == 0 ? run.count == 1
                                         : run.count - 1 <= (most - 1 - run.first) / run.distance);
    if (!fits || run.count > most - numbers.size()) {
      throw Error("what is written of the work that was done makes no sense");
    }
    for (std::uint64_t i = 0; i < run.count; ++i) numbers.push_back(run.first + run.distance * i);
  }
  return numbers;
}

void BatchLedger::strike_out(const std::vector<DoneBatches>& by_all) {
  std::vector<std::uint64_t> done;
  for (const DoneBatches& by_one : by_all) {
    const std::vector<std::uint64_t> numbers = by_one.numbers(batches_);
    done.insert(done.end(), numbers.begin(), numbers.end());
  }
  if (done.empty()) return;
  std::ranges::sort(done);
  const std::uint64_t next = std::max(next_, done.back() + 1);
  std::vector<std::uint64_t> before = std::move(skipped_);
  for (std::uint64_t batch = next_; batch < next; ++batch) before.push_back(batch);
  skipped_.clear();
  std::ranges::set_difference(before, done, std::back_inserter(skipped_));
  next_ = next;
}

void BatchLedger::set_end(std::uint64_t batches) {
  batches_ = std::max(batches, next_);
  std::erase_if(skipped_, [&](std::uint64_t batch) { return batch >= batches; });
}

std::optional<std::uint64_t> BatchLedger::at(std::uint64_t index) const {
  if (index < skipped_.size()) return skipped_[index];
  const std::uint64_t beyond = index - skipped_.size();
  if (beyond >= batches_ - next_) return std::nullopt;
  return next_ + beyond;
}

void BatchLedger::strike_out(std::span<const std::uint64_t> done) {
  const std::uint64_t n = done.size();
  const std::uint64_t rounds = done.empty() ? 0 : *std::ranges::max_element(done);
  const std::uint64_t touched = std::min(rounds * n, left());
  std::uint64_t for_others = 0;
  for (const std::uint64_t each : done) {
    const std::uint64_t turns = (left() + n - 1) / n;  // the last may come to no batch
    for_others += each - std::min(each, turns);
  }
  std::vector<std::uint64_t> skipped;
  for (std::uint64_t index = 0; index < touched; ++index) {
    if (index / n < done[index % n]) continue;
    if (for_others > 0) {
      --for_others;
    } else {
      skipped.push_back(*at(index));
    }
  }
  for (std::uint64_t index = touched; index < skipped_.size(); ++index) {
    skipped.push_back(skipped_[index]);
  }
  next_ += touched - std::min<std::uint64_t>(touched, skipped_.size());
  skipped_ = std::move(skipped);
}

std::vector<std::uint64_t> BatchLedger::numbers() const {
  std::vector<std::uint64_t> numbers{batches_, next_};
  numbers.insert(numbers.end(), skipped_.begin(), skipped_.end());
  return numbers;
}

BatchLedger BatchLedger::of(std::span<const std::uint64_t> numbers) {
  const auto check = [](bool is_well) {
    if (!is_well) throw Error("what came of the work that is left makes no sense");
  };
  check(numbers.size() >= 2 && numbers[1] <= numbers[0] && numbers.size() - 2 <= numbers[1]);
  BatchLedger ledger(numbers[0]);
  ledger.next_ = numbers[1];
  ledger.skipped_.assign(numbers.begin() + 2, numbers.end());
  check(std::ranges::is_sorted(ledger.skipped_, std::ranges::less_equal()) ||
        ledger.skipped_.size() < 2);
  check(ledger.skipped_.empty() || ledger.skipped_.back() < ledger.next_);
  return ledger;
}

}  // namespace starling

#include "strategy/step.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace starling {

Step::Step(Strategy& strategy, Replica replica, std::vector<Bucket> buckets, int backward_passes,
           Driver driver)
    : strategy_(strategy),
      replica_(replica),
      backward_passes_(backward_passes),
      driver_(std::move(driver)),
      exchanges_(buckets.size()) {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const Range parameters = buckets[i].parameters;
    exchanges_[i].bucket = buckets[i];
    exchanges_[i].missing = parameters.size();
    bucket_of_.resize(std::max(bucket_of_.size(), parameters.end));
    for (std::size_t each = parameters.begin; each < parameters.end; ++each) bucket_of_[each] = i;
  }
  has_gradient_.assign(bucket_of_.size(), false);
}

// A backward pass adds up what a parameter is used for and announces it once, so whoever comes
// again is of another backward(). That does no harm as long as nothing has been sent.
void Step::gradient_ready(std::size_t parameter, std::string_view name) {
  if (!last_pass()) return;
  Exchange& exchange = exchanges_[bucket_of_[parameter]];
  if (exchange.running) {
    throw Error(fmt::format("a second backward() in a step changed the gradient of {}, which is "
                            "on its way to the other workers",
                            name),
                "add the losses up for one backward(), or call step() after each and set "
                "--backward-passes");
  }
  if (!has_gradient_[parameter]) --exchange.missing;
  has_gradient_[parameter] = true;
  if (exchange.missing == 0 && !driver_.before_exchange) begin(exchange);
}

void Step::begin(Exchange& exchange) {
  driver_.collect(exchange.bucket);
  exchange.running.emplace(strategy_.after_backward(exchange.bucket), one_done_);
}

Task<bool> Step::take(std::function<void()> update) {
  if (!last_pass()) {
    pass_over();
    co_return false;
  }
  if (driver_.before_exchange) driver_.before_exchange();
  // A parameter that the loss did not depend on has not been announced; its bucket begins now.
  for (Exchange& exchange : exchanges_) {
    if (!exchange.running) begin(exchange);
  }
  co_await driver_.wait("the exchange of gradients", all_exchanges());
  for (Exchange& exchange : exchanges_) {
    exchange.running.reset();
    exchange.missing = exchange.bucket.parameters.size();
  }
  has_gradient_.assign(has_gradient_.size(), false);
  if (!strategy_.updates_weights() && !strategy_.rests()) update();
  co_await driver_.wait("the exchange of weights", strategy_.after_update(replica_));
  std::ranges::fill(replica_.gradients, 0.0f);
  pass_ = 0;
  co_return true;
}

// Until every one is done, or one has failed.
Task<> Step::all_exchanges() {
  while (true) {
    for (const Exchange& exchange : exchanges_) exchange.running->rethrow_failure();
    if (std::ranges::all_of(exchanges_,
                            [](const Exchange& each) { return each.running->done(); })) {
      co_return;
    }
    co_await one_done_;
  }
}

}  // namespace starling

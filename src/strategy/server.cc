// server: workers push gradients to parameter servers and fetch weights from them. When a server
// answers is the gate's affair (server/gate.h); here is what a worker does around a step:
//
//   every push_every-th step   the sum of the gradients since the last push goes to the servers
//   every fetch_every-th step  fresh weights come back, in place, while the backward pass still
//                              works on other layers
//   in the other steps         the worker applies its own gradient to its replica meanwhile
//   eager                      servers send weights unasked; a worker asks only if what it has is
//                              older than the delay bound allows
//   lag                        the worker waits for the exchange of `lag` steps ago, not for this
//                              one's
//   gate value                 fetches only when all of its pushes are in: see server/value.cc
//   group                      gradients climb a binomial tree to the group's first worker, the
//                              proxy, which alone talks to the servers; weights come down the tree
#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "base/error.h"
#include "exchange/collectives.h"
#include "math/vector_math.h"
#include "server/client.h"
#include "server/lanes.h"
#include "server/server_estate.h"
#include "strategy/grid.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"
#include "strategy/strategy.h"

namespace starling {

namespace {

class ServerStrategy : public Strategy {
 public:
  ServerStrategy(const Settings& settings, Group workers, Workload workload)
      : Strategy(workers),
        settings_(settings),
        workload_(std::move(workload)),
        serving_group_(serving_group(settings, workers.comm())),
        team_(team_of(workers, group_size(settings), GroupNumber::team)),
        push_every_(static_cast<std::uint64_t>(settings.server.push_every)),
        fetch_every_(static_cast<std::uint64_t>(settings.server.fetch_every)),
        fetches_last_(settings.server.gate.kind == GateSettings::Kind::value) {
    if (settings.elastic.on) return;  // any loss ends the generation
    if (settings.server.replicas > 1) {
      serving_group_.contain_losses();
    } else if (survives_losses(settings)) {
      workers.contain_losses();
    }
  }

  Task<> start(Replica replica, State past) override {
    const std::size_t elements = replica.gradients.size();
    const int servers = server_count(settings_);
    if (static_cast<std::size_t>(servers) > elements) {
      throw Error(
          fmt::format("{} servers are more than {} has parameters", servers,
                      settings_.parallel.slices() > 1 ? "a slice of the model" : "the model"),
          fmt::format("there can be 1 to {}", elements));
    }
    const bool workers_serve = settings_.server.placement == ServerSettings::Placement::workers;
    const bool goes_on = workload_.generation > 1;
    if (workers_serve && goes_on) {
      co_await workload_.blocks->take_over(block_holders(settings_, group_.comm()), servers,
                                           workload_.generation);
    }
    if (workers_serve && group_.rank() < servers) {
      ServerOptions options = server_options(settings_);
      options.timeout = std::chrono::hours(24);  // this worker's own waits have the job's deadline
      server_.emplace(serving_group_, options,
                      goes_on ? workload_.blocks->past() : past.in("server"));
      serving_.emplace(server_->serve());
    }
    if (push_every_ > 1) sums_.resize(elements);
    const std::span<float> parameters = replica.weights.first(elements);
    if (is_proxy()) {
      client_.emplace(
          serving_group_, client_options(),
          settings_.server.factors  // are of a whole layer
              ? buckets_as_keys(elements, servers, workload_.buckets)
              : cut_into_keys(elements, servers, workload_.buckets, largest_block(elements)));
      const auto units = static_cast<std::uint64_t>(team_.size());
      co_await client_->hello({workload_.batches / units,
                               std::max<std::uint64_t>(1, workload_.batches_per_epoch / units)});
      for (std::size_t key = 0; key < keys().size(); ++key) {
        // Servers that go on from a past have weights.
        if (group_.rank() == 0 && !past.restores())
          co_await client_->put(key, of_key(parameters, key));
      }
      lanes_.emplace(keys());
      pipelines_ = std::vector<std::deque<Flight>>(keys().size());
    }
    if (past.restores_all()) visit_worker_state(past);
    const bool is_up_to_date = past.restores_all() && settings_.server.gate.in_step();
    if (is_proxy() && !is_up_to_date) {
      co_await fetch_all(parameters, true);
      // Where nobody waits, servers may have seen more of our pushes than we remember, or fewer.
      for (std::size_t key = 0; key < keys().size(); ++key) {
        clock_ = std::max(clock_, client_->held(key).clock);
      }
    }
    if (is_proxy() && settings_.server.eager) follow_all();
    if (!is_up_to_date) co_await broadcast(team_, weights_channel(), replica.weights, 0);
  }

  // Servers have weights, or get rank 0's.
  Task<> resume(Replica replica) override {
    co_await start(replica, {});
    if (workload_.blocks != nullptr && !server_) workload_.blocks->forget();
  }

  void close() override {
    if (server_ && workload_.blocks != nullptr) workload_.blocks->keep(*server_);
  }

  // What is under way lands, and is taken in when it would have been.
  Task<> pause() override {
    for (std::deque<Flight>& pipeline : pipelines_) {
      for (Flight& flight : pipeline) {
        Running& running = *flight.running;
        co_await running;
      }
    }
  }

  void visit_state(State state) override {
    visit_worker_state(state);
    if (server_) server_->visit_state(state.in("server"));
  }

  Task<> save_servers(std::uint64_t step) override {
    if (client_ && settings_.server.placement == ServerSettings::Placement::apart) {
      co_await client_->save(step);
    }
  }

  Task<> after_backward(Bucket bucket) override {
    if (serving_) serving_->rethrow_failure();
    if (team_.size() > 1) {
      co_await reduce(team_, bucket_channel(bucket.index), bucket.gradients, Reduction::mean, 0);
      conclude(bucket.gradients, Reduction::mean, team_.size());
    }
    if (is_proxy()) {
      const auto [first, last] = keys_of(bucket.range);
      co_await lanes_->take(first, last,
                            [this, bucket](std::size_t key) { return step(key, bucket); });
    }
    if (team_.size() > 1 && !fetches_last_) {
      co_await broadcast(team_, bucket_channel(bucket.index), bucket.weights, 0);
    }
  }

  Task<> after_update(Replica replica) override {
    if (pushes()) ++clock_;
    ++steps_;
    if (fetches_last_) {
      if (is_proxy()) co_await fetch_all(replica.weights);
      co_await broadcast(team_, weights_channel(), replica.weights.first(replica.gradients.size()),
                         0);
    }
    if (!settings_.server.eager || !is_proxy()) co_return;
    for (std::size_t key = 0; key < keys().size(); ++key) {
      co_await take_eager(key, of_key(replica.weights, key));
    }
  }

  Task<> finish(Replica replica) override {
    const std::span<float> parameters = replica.weights.first(replica.gradients.size());
    if (is_proxy()) {
      co_await pause();
      Task<ServerReport> done = client_->done();
      report_ = co_await done;
      followers_.clear();
      co_await fetch_all(parameters, true);
      // Where workers come and go, a loss in what comes after this takes another generation, and its servers:
      // they stay until the workers have gone.
      if (!settings_.elastic.on || serving_) co_await client_->bye();
    }
    if (serving_) {
      Running& serving = *serving_;
      co_await serving;
    }
    co_await broadcast(team_, weights_channel(), parameters, 0);
  }

  // Not in a group, whose members have the same weights, nor with a lag: what is under way is
  // newer.
  Task<> catch_up(Replica replica) override {
    if (team_.size() == 1 && settings_.server.lag == 0) co_await fetch_all(replica.weights);
  }

  void set_rate(double rate) override {
    rate_ = rate;
    if (client_) client_->set_rate(rate);
  }

  bool in_step() const override { return false; }
  bool updates_weights() const override { return true; }
  std::optional<ServerReport> server_report() const override { return report_; }

 private:
  // Weights that came without being asked for: one set to take from, one that is landing.
  struct Follower {
    std::vector<float> landed, landing;
    WeightsHeader header;
    bool fresh = false;
    std::optional<Running> running;
  };
  // An exchange that the worker does not wait for yet.
  struct Flight {
    std::vector<float> gradient, weights;
    WeightsHeader header;
    std::optional<Running> running;
  };

  ServerClient::Options client_options() const {
    ServerClient::Options options;
    options.first_server = first_server(settings_);
    options.servers = server_count(settings_);
    options.wants_eager = settings_.server.eager;
    options.codec = server_options(settings_).codec;
    options.replicas = settings_.server.replicas;
    options.elastic = settings_.elastic.on;
    options.needed_workers = survives_losses(settings_) ? 0 : group_.size();
    return options;
  }

  bool is_proxy() const { return team_.rank() == 0; }
  const std::vector<Key>& keys() const { return client_->keys(); }
  std::span<float> of_key(std::span<float> parameters, std::size_t key) const {
    return parameters.subspan(keys()[key].range.begin, keys()[key].range.size());
  }
  // Keys are in the order of the parameters, and cut where buckets are.
  std::pair<std::size_t, std::size_t> keys_of(Range range) const {
    const auto begins = [](const Key& key) { return key.range.begin; };
    const auto first = std::ranges::lower_bound(keys(), range.begin, {}, begins);
    const auto last = std::ranges::lower_bound(keys(), range.end, {}, begins);
    return {static_cast<std::size_t>(first - keys().begin()),
            static_cast<std::size_t>(last - keys().begin())};
  }

  bool pushes() const { return (steps_ + 1) % push_every_ == 0; }
  bool fetches() const { return !settings_.server.eager && (steps_ + 1) % fetch_every_ == 0; }

  void visit_worker_state(State state) {
    state("steps", steps_);
    state("clock", clock_);
    state("sums", sums_);
    if (!client_) return;
    client_->visit_state(state.in("client"));
    for (std::size_t key = 0; key < pipelines_.size(); ++key) {
      visit_pipeline(key, state.in("flights").in(key));
    }
  }
  void visit_pipeline(std::size_t key, State state) {
    std::deque<Flight>& pipeline = pipelines_[key];
    std::uint64_t flights = pipeline.size();
    state("count", flights);
    flights = std::min(flights, static_cast<std::uint64_t>(settings_.server.lag));
    while (pipeline.size() < flights) add_flight(key).running.emplace(landed());
    for (std::size_t i = 0; i < pipeline.size(); ++i) {
      state.in(i)("weights", pipeline[i].weights);
      state.in(i)("header", pipeline[i].header);
    }
  }
  static Task<> landed() { co_return; }
  Flight& add_flight(std::size_t key) {
    Flight& flight = pipelines_[key].emplace_back();
    flight.gradient.resize(keys()[key].range.size());
    flight.weights.resize(flight.gradient.size());
    return flight;
  }

  // One step of one block.
  Task<> step(std::size_t key, Bucket bucket) {
    const std::size_t offset = keys()[key].range.begin - bucket.range.begin;
    const std::size_t size = keys()[key].range.size();
    std::span<float> gradient = bucket.gradients.subspan(offset, size);
    const std::span<float> weights = bucket.weights.subspan(offset, size);
    if (settings_.server.lag > 0) {
      co_await fly(key, gradient, weights);
      co_return;
    }
    if (fetches_last_) {
      co_await push(key, bucket, gradient);
      co_await client_->settle(key);
      co_return;
    }
    // What the servers will do in their own time is done here at once.
    const auto lr = static_cast<float>(settings_.optimizer.lr * rate_);
    if (!fetches()) subtract_scaled(weights, gradient, lr);
    if (push_every_ > 1) {
      const std::span<float> sum = of_key(sums_, key);
      add(sum, gradient);
      gradient = sum;
    }
    if (pushes() && fetches() && !as_factors(bucket, size)) {
      Task<WeightsHeader> exchange = client_->push_pull(key, gradient, clock_, weights);
      client_->adopt(key, co_await exchange);
      if (push_every_ > 1) std::ranges::fill(gradient, 0.0f);
      co_return;
    }
    if (pushes()) {
      co_await push(key, bucket, gradient);
      if (push_every_ > 1) std::ranges::fill(gradient, 0.0f);
    }
    if (fetches()) co_await fetch(key, weights);
  }

  Task<> push(std::size_t key, const Bucket& bucket, std::span<const float> gradient) {
    if (!as_factors(bucket, gradient.size())) return client_->push(key, gradient, clock_);
    return client_->push(key, *bucket.factors, keys()[key].range.begin - bucket.range.begin,
                         clock_);
  }

  static bool as_factors(const Bucket& bucket, std::size_t block_elements) {
    return bucket.factors &&
           bucket.factors->shape.activations() + bucket.factors->shape.errors() < block_elements;
  }

  Task<> fetch(std::size_t key, std::span<float> weights) {
    Task<WeightsHeader> pull = client_->pull(key, weights);
    client_->adopt(key, co_await pull);
  }
  Task<> fetch_whole(std::size_t key, std::span<float> weights) {
    Task<WeightsHeader> pull = client_->pull_whole(key, weights);
    client_->adopt(key, co_await pull);
  }
  Task<> fetch_all(std::span<float> parameters, bool whole = false) {
    co_await lanes_->take(0, keys().size(), [this, parameters, whole](std::size_t key) {
      const std::span<float> weights = of_key(parameters, key);
      return whole ? fetch_whole(key, weights) : fetch(key, weights);
    });
  }

  // Takes in the exchange of `lag` steps ago and starts this step's in its place.
  Task<> fly(std::size_t key, std::span<const float> gradient, std::span<float> weights) {
    std::deque<Flight>& pipeline = pipelines_[key];
    if (pipeline.size() < static_cast<std::size_t>(settings_.server.lag)) {
      add_flight(key);
    }
    Flight& flight = pipeline[steps_ % static_cast<std::uint64_t>(settings_.server.lag)];
    std::optional<WeightsHeader> arrived;
    if (flight.running) {
      Running& running = *flight.running;
      co_await running;
      std::ranges::copy(flight.weights, weights.begin());
      arrived = flight.header;
    }
    std::ranges::copy(gradient, flight.gradient.begin());
    flight.running.emplace(exchange(key, flight, clock_));
    if (arrived) client_->adopt(key, *arrived);  // this gradient was still computed on older ones
  }
  Task<> exchange(std::size_t key, Flight& flight, std::uint64_t clock) {
    Task<WeightsHeader> answer = client_->push_pull(key, flight.gradient, clock, flight.weights);
    flight.header = co_await answer;
  }

  void follow_all() {
    followers_ = std::vector<Follower>(keys().size());
    for (std::size_t key = 0; key < keys().size(); ++key) {
      followers_[key].landed.resize(keys()[key].range.size());
      followers_[key].landing.resize(keys()[key].range.size());
      followers_[key].running.emplace(follow(key, followers_[key]));
    }
  }
  Task<> follow(std::size_t key, Follower& follower) {
    while (true) {
      Task<WeightsHeader> next = client_->next_eager(key, follower.landing);
      follower.header = co_await next;
      follower.landed.swap(follower.landing);
      follower.fresh = true;
    }
  }
  // What has come is taken if all of our own pushes are in it; what we have is good enough as long
  // as everybody's pushes up to the delay bound are.
  Task<> take_eager(std::size_t key, std::span<float> weights) {
    Follower& follower = followers_[key];
    follower.running->rethrow_failure();
    const std::uint64_t pushed = clock_;
    if (std::exchange(follower.fresh, false) && follower.header.clock == pushed) {
      std::ranges::copy(follower.landed, weights.begin());
      client_->adopt(key, follower.header);
    }
    using enum GateSettings::Kind;
    const GateSettings& gate = settings_.server.gate;
    const std::uint64_t bound = gate.kind == ssp   ? static_cast<std::uint64_t>(gate.delay_bound)
                                : gate.kind == bsp ? 0
                                                   : std::numeric_limits<int>::max();
    if (pushed > client_->held(key).closed && pushed - client_->held(key).closed > bound) {
      co_await fetch(key, weights);
    }
  }

  Settings settings_;
  Workload workload_;
  Group serving_group_;
  Group team_;  // those who share a proxy, which is the first of them
  std::uint64_t push_every_;
  std::uint64_t fetch_every_;
  bool fetches_last_;
  std::uint64_t steps_ = 0;
  std::uint64_t clock_ = 0;  // counts pushes
  double rate_ = 1;          // of the learning rate, in this step

  std::optional<Server> server_;  // if this worker serves as well
  std::optional<Running> serving_;
  std::optional<ServerClient> client_;  // if this worker talks to servers
  std::vector<float> sums_;             // since the last push
  std::optional<Lanes> lanes_;
  std::vector<std::deque<Flight>> pipelines_;
  std::vector<Follower> followers_;
  std::optional<ServerReport> report_;
};

}  // namespace

std::unique_ptr<Strategy> make_server_strategy(const Settings& settings, Group group,
                                               Workload workload) {
  return std::make_unique<ServerStrategy>(settings, group, std::move(workload));
}

}  // namespace starling

#include "report/live_run.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "report/run_data.h"
#include "runtime/ledger.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr std::size_t kLogLines = 200;
constexpr std::array<const char*, 4> kStateNames = {"starting", "training", "ended", "lost"};

json number_or_null(const json& object, const char* key) {
  const double value = number_in(object, key, NAN);
  return std::isfinite(value) ? json(value) : json();
}

// Peers come as [[rank, bytes], ...]; a worker may be anybody's program, so they may be anything.
template <class Action>
void for_each_peer(const json& event, const char* key, std::size_t ranks, const Action& action) {
  const json peers = event.value(key, json::array());
  for (const json& peer : peers) {
    if (!peer.is_array() || peer.size() != 2 || !peer[0].is_number_unsigned()) continue;
    if (!peer[1].is_number() || peer[0].get<std::size_t>() >= ranks) continue;
    action(peer[0].get<int>(), peer[1].get<double>());
  }
}

}  // namespace

LiveRun::LiveRun(About about, std::function<double()> now)
    : now_(std::move(now)),
      about_(std::move(about)),
      nodes_(static_cast<std::size_t>(about_.workers + about_.servers)) {}

void LiveRun::take(int rank, const json& event) {
  const std::lock_guard lock(mutex_);
  Node& node = nodes_.at(static_cast<std::size_t>(rank));
  const json kind_given = event.value("event", json());
  const std::string kind = kind_given.is_string() ? kind_given.get<std::string>() : "";
  if (node.state == State::starting) node.state = State::training;
  if (kind == "joined") {
    state_ = "training";
    say(fmt::format("rank {} has joined", rank));
  } else if (kind == "settings" && rank == 0) {  // that a program has by itself
    for (const char* name : {"system", "strategy"}) {
      const json value = event.value(name, json());
      if (value.is_string()) about_.settings[name] = value;
    }
  } else if (kind == "network") {
    take_counts(rank, node, event);
  } else if (kind == "progress" || kind == "evaluation") {
    progress_ = event;
    const double time = now_();  // one clock for all curves and the log
    if (const double loss = number_in(event, "loss", NAN); std::isfinite(loss)) {
      loss_.add(time, loss);
    }
    if (kind != "evaluation") return;
    accuracy_ = number_or_null(event, "accuracy");
    test_accuracy_.add(time, number_in(event, "accuracy"));
    say(fmt::format("epoch {:.2f}: accuracy {:.2f} %", number_in(event, "epoch"),
                    number_in(event, "accuracy") * 100));
  }
}

void LiveRun::take_end(int rank, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  Node& node = nodes_.at(static_cast<std::size_t>(rank));
  node.state = reason.empty() ? State::ended : State::lost;
  node.reason = reason;
  node.sent_rate = node.received_rate = 0;
  if (!reason.empty()) say(reason);
}

void LiveRun::take_counts(int rank, Node& node, const json& event) {
  const double time = number_in(event, "time");
  const double seconds = time - node.time;
  const double sent = wire_in(event.value("sent", json()));
  const double received = wire_in(event.value("received", json()));
  if (seconds > 0) {
    node.sent_rate = (sent - node.sent) / seconds;
    node.received_rate = (received - node.received) / seconds;
  }
  node.time = time;
  node.sent = sent;
  node.received = received;
  node.sent_by_purpose = event.value("sent", json::object());
  node.kernel_sent = number_in(event, "kernel_sent", -1);
  node.kernel_received = number_in(event, "kernel_received", -1);
  for_each_peer(event, "sent_to", nodes_.size(),
                [&](int peer, double bytes) { take_edge(rank, peer, bytes, seconds); });
  // All report once a second; one point for all of them.
  const double now = now_();
  if (now - rate_time_ < 1) return;
  const double all = sent_by_all();
  rate_.add(now, (all - rate_bytes_) / (now - rate_time_));
  rate_time_ = now;
  rate_bytes_ = all;
}

void LiveRun::take_edge(int from, int to, double bytes, double seconds) {
  Edge& edge = edges_[{from, to}];
  if (seconds > 0) edge.rate = (bytes - edge.bytes) / seconds;
  edge.bytes = bytes;
}

double LiveRun::sent_by_all() const {
  double sum = 0;
  for (const auto& [ends, edge] : edges_) sum += edge.bytes;
  return sum;
}

void LiveRun::finish(const std::string& error) {
  const std::lock_guard lock(mutex_);
  state_ = error.empty() ? "ended" : "failed";
  error_ = error;
  say(error.empty() ? "the run has ended" : error);
}

void LiveRun::sum_up(const RunSummary& summary) {
  const auto or_null = [](const auto& value) { return value ? json(*value) : json(); };
  const std::lock_guard lock(mutex_);
  summary_ = {{"wire_bytes_sent", summary.sum(&RankSummary::wire_bytes_sent)},
              {"rounds", summary.mixing ? or_null(summary.mixing->rounds) : json()},
              {"accuracy", or_null(summary.accuracy)},
              {"train_seconds", or_null(summary.train_seconds)},
              {"seconds", or_null(summary.seconds)},
              {"samples_per_second", or_null(summary.samples_per_second)}};
  accuracy_ = summary_["accuracy"];
  progress_["samples_per_second"] = summary_["samples_per_second"];
  progress_["training_time"] = summary_["train_seconds"];
}

void LiveRun::say(std::string text) {
  log_.emplace_back(now_(), std::move(text));
  if (log_.size() > kLogLines) log_.pop_front();
}

std::string LiveRun::state() const {
  const std::lock_guard lock(mutex_);
  json progress = json::object();
  for (const char* key :
       {"step", "steps", "epoch", "loss", "samples_per_second", "training_time"}) {
    progress[key] = number_or_null(progress_, key);
  }
  progress["accuracy"] = accuracy_;
  const double step = number_in(progress_, "step");
  const double steps = number_in(progress_, "steps", -1);  // an own loop does not tell
  progress["seconds_left"] = step > 0 && steps >= step
                                 ? json(number_in(progress_, "time") / step * (steps - step))
                                 : json();

  json edges = json::array();
  for (const auto& [ends, edge] : edges_) {
    const Node& from = nodes_[static_cast<std::size_t>(ends.first)];
    const Node& to = nodes_[static_cast<std::size_t>(ends.second)];
    const double rate = from.state < State::ended && to.state < State::ended ? edge.rate : 0;
    edges.push_back(
        {{"from", ends.first}, {"to", ends.second}, {"bytes", edge.bytes}, {"rate", rate}});
  }
  json workers = json::array();
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
    const Node& node = nodes_[rank];
    workers.push_back({{"rank", rank},
                       {"role", serves(static_cast<int>(rank)) ? "server" : "worker"},
                       {"state", kStateNames[static_cast<std::size_t>(node.state)]},
                       {"reason", node.reason},
                       {"sent", node.sent},
                       {"received", node.received},
                       {"sent_rate", node.sent_rate},
                       {"received_rate", node.received_rate},
                       {"kernel_sent", node.kernel_sent < 0 ? json() : json(node.kernel_sent)}});
  }
  json log = json::array();
  for (const auto& [time, text] : log_) log.push_back({{"time", time}, {"text", text}});
  const json state = {{"name", about_.name},
                      {"settings", about_.settings},
                      {"state", state_},
                      {"message", error_},
                      {"elapsed", now_()},
                      {"progress", progress},
                      {"summary", summary_},
                      {"workers", workers},
                      {"edges", edges},
                      {"curves",
                       {{"loss", loss_.points()},
                        {"accuracy", test_accuracy_.points()},
                        {"sent_rate", rate_.points()}}},
                      {"log", log}};
  // Names may hold bytes that are no UTF-8.
  return state.dump(-1, ' ', false, json::error_handler_t::replace);
}

namespace {

// One metric of the text that Prometheus reads: its head, and a line a value.
class Metric {
 public:
  Metric(std::string& text, const char* name, const char* type, const char* help)
      : text_(text), name_(name) {
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void value(double number, const std::string& labels = "") {
    text_ += fmt::format("{}{} {}\n", name_, labels.empty() ? "" : "{" + labels + "}", number);
  }

 private:
  std::string& text_;
  const char* name_;
};

}  // namespace

std::string LiveRun::metrics() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto gauge = [&](const char* name, const char* help, const json& number) {
    if (number.is_number()) Metric(text, name, "gauge", help).value(number.get<double>());
  };
  gauge("starling_step", "Steps that the lead has done.", number_in(progress_, "step"));
  gauge("starling_steps", "Steps that it is to do.", number_in(progress_, "steps"));
  gauge("starling_epoch", "Epochs done.", number_in(progress_, "epoch"));
  gauge("starling_loss", "Loss on the lead's training batches.", number_or_null(progress_, "loss"));
  gauge("starling_accuracy", "Share of the test samples that were right, when last evaluated.",
        accuracy_);
  gauge("starling_samples_per_second", "Training samples a second, of all workers.",
        number_in(progress_, "samples_per_second"));
  Metric up(text, "starling_worker_up", "gauge", "1 while the worker or server is there.");
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank) {
    up.value(nodes_[rank].state < State::ended, fmt::format("rank=\"{}\"", rank));
  }
  const auto counts = [&](const char* name, const char* help, const auto& value) {
    Metric metric(text, name, "counter", help);
    for (std::size_t rank = 0; rank < nodes_.size(); ++rank) value(metric, rank, nodes_[rank]);
  };
  counts("starling_bytes_sent_total", "Bytes sent on the wire, by purpose.",
         [](Metric& metric, std::size_t rank, const Node& node) {
           for (const std::string_view purpose : kPurposeNames) {
             if (!node.sent_by_purpose.contains(purpose)) continue;
             metric.value(number_in(node.sent_by_purpose[purpose], "wire"),
                          fmt::format("rank=\"{}\",purpose=\"{}\"", rank, purpose));
           }
         });
  counts("starling_bytes_received_total", "Bytes received on the wire.",
         [](Metric& metric, std::size_t rank, const Node& node) {
           metric.value(node.received, fmt::format("rank=\"{}\"", rank));
         });
  counts("starling_kernel_bytes_sent_total",
         "Bytes that the kernel counted on a lab host's way out.",
         [](Metric& metric, std::size_t rank, const Node& node) {
           if (node.kernel_sent >= 0) {
             metric.value(node.kernel_sent, fmt::format("rank=\"{}\"", rank));
           }
         });
  return text;
}

}  // namespace starling

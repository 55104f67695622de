// A run as it goes: what its workers' events say, kept for those who look at it, as JSON for the
// live page and as text for Prometheus. Events come from one thread, looks from others.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "job/run_summary.h"
#include "report/curve.h"

namespace starling {

class LiveRun {
 public:
  struct About {
    std::string name;
    int workers = 1;
    int servers = 0;          // ranks behind the workers'
    nlohmann::json settings;  // those that people ask for first
  };

  // now tells the seconds since the run was launched.
  LiveRun(About about, std::function<double()> now);

  // What a worker reports of itself.
  void take(int rank, const nlohmann::json& event);
  // That it has ended; lost, if there is a reason.
  void take_end(int rank, const std::string& reason);
  void finish(const std::string& error);  // empty if all went well
  // The same figures that the terminal and the report show at the end.
  void sum_up(const RunSummary& summary);

  std::string state() const;    // for the page
  std::string metrics() const;  // for Prometheus

 private:
  enum class State { starting, training, ended, lost };
  struct Node {
    State state = State::starting;
    std::string reason;  // why it was lost
    double time = 0;     // of the last counts
    double sent = 0, received = 0, sent_rate = 0, received_rate = 0;
    double kernel_sent = -1, kernel_received = -1;  // below 0 where nobody counts
    nlohmann::json sent_by_purpose = nlohmann::json::object();
  };
  struct Edge {
    double bytes = 0;
    double rate = 0;
  };

  void take_counts(int rank, Node& node, const nlohmann::json& event);
  void take_edge(int from, int to, double bytes, double seconds);
  bool serves(int rank) const { return rank >= about_.workers; }
  void say(std::string text);
  double sent_by_all() const;

  const std::function<double()> now_;
  mutable std::mutex mutex_;  // guards all below
  About about_;
  std::string state_ = "starting";
  std::string error_;
  nlohmann::json progress_ = nlohmann::json::object();
  nlohmann::json accuracy_;
  nlohmann::json summary_;  // null until there is one
  std::vector<Node> nodes_;
  std::map<std::pair<int, int>, Edge> edges_;
  Curve loss_, test_accuracy_, rate_;
  double rate_time_ = 0, rate_bytes_ = 0;  // when the last point of rate_ was made
  std::deque<std::pair<double, std::string>> log_;
};

}  // namespace starling

#include "job/run_summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace starling {

namespace {

using nlohmann::json;

template <class T>
concept Visited = requires(T& value) {
  T::visit(value, [](const char*, auto&) {});
};

struct ObjectWriter {
  json& object;

  template <class T>
  void operator()(const char* key, const std::optional<T>& value) const {
    if (!value) return;
    if constexpr (Visited<T>) {
      object[key] = json::object();
      T::visit(*value, ObjectWriter{object[key]});
    } else {
      object[key] = *value;
    }
  }
};

template <class T>
std::optional<T> value_in(const json& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    if (value.is_number()) return value.get<T>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (value.is_string()) return value.get<T>();
  } else if (value.is_array()) {
    T list;
    for (const json& each : value)
      list.push_back(value_in<typename T::value_type>(each).value_or(typename T::value_type()));
    return list;
  }
  return std::nullopt;
}

struct ObjectReader {
  const json& object;

  template <class T>
  void operator()(const char* key, std::optional<T>& value) const {
    const auto found = object.find(key);
    if (found == object.end()) return;
    if constexpr (Visited<T>) {
      if (found->is_object()) T::visit(value.emplace(), ObjectReader{*found});
    } else {
      value = value_in<T>(*found);
    }
  }
};

// How many ranks the lists tell of.
std::size_t rank_count(const json& object) {
  std::size_t count = 0;
  const auto look_at = [&](const char* key, auto&) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_array()) count = std::max(count, found->size());
  };
  RankSummary any;
  RankSummary::visit_work(any, look_at);
  RankSummary::visit_bytes(any, look_at);
  return count;
}

}  // namespace

StalenessSummary::StalenessSummary(const Staleness& staleness)
    : mean(staleness.mean()), max(staleness.max) {
  const auto last = std::ranges::find_if(staleness.histogram.rbegin(), staleness.histogram.rend(),
                                         [](std::uint64_t count) { return count > 0; });
  histogram.emplace(staleness.histogram.begin(), last.base());
}

json as_json(const RunSummary& summary) {
  json object = json::object();
  RunSummary::visit(summary, ObjectWriter{object});
  // A list has a place for everybody, so that each is found in its own, unless it is nobody's.
  json lists = json::object();
  for (const RankSummary& rank : summary.ranks) {
    const auto append = [&](const char* key, const auto& value) {
      lists[key].push_back(value ? json(*value) : json());
    };
    if (rank.role == RankSummary::Role::worker) RankSummary::visit_work(rank, append);
    RankSummary::visit_bytes(rank, append);
  }
  for (const auto& [key, list] : lists.items()) {
    if (!std::ranges::all_of(list, [](const json& each) { return each.is_null(); })) {
      object[key] = list;
    }
  }
  return object;
}

RunSummary run_summary_in(const json& object) {
  RunSummary summary;
  if (!object.is_object()) return summary;
  RunSummary::visit(summary, ObjectReader{object});
  summary.ranks.resize(rank_count(object));
  const auto ranks = object.find("worker_rank");
  const bool tells_ranks = ranks != object.end() && ranks->is_array();
  const std::size_t workers =
      tells_ranks
          ? ranks->size()
          : static_cast<std::size_t>(std::max<std::int64_t>(0, summary.workers.value_or(0)));
  for (std::size_t i = 0; i < summary.ranks.size(); ++i) {
    RankSummary& rank = summary.ranks[i];
    const auto take = [&]<class T>(const char* key, std::optional<T>& value) {
      const auto found = object.find(key);
      if (found == object.end() || !found->is_array() || i >= found->size()) return;
      value = value_in<T>((*found)[i]);
    };
    RankSummary::visit_work(rank, take);
    RankSummary::visit_bytes(rank, take);
    if (i < workers) continue;
    // A server's rank stands behind those of all workers, of whom some may be lost.
    rank.role = RankSummary::Role::server;
    rank.rank = summary.workers.value_or(0) + static_cast<std::int64_t>(i - workers);
  }
  return summary;
}

json as_json(const RankSummary& rank) {
  json object = json::object();
  if (rank.role == RankSummary::Role::worker) RankSummary::visit_work(rank, ObjectWriter{object});
  RankSummary::visit_bytes(rank, ObjectWriter{object});
  return object;
}

RankSummary rank_summary_in(const json& object, RankSummary::Role role, int rank) {
  RankSummary summary;
  summary.role = role;
  if (object.is_object()) {
    if (role == RankSummary::Role::worker) RankSummary::visit_work(summary, ObjectReader{object});
    RankSummary::visit_bytes(summary, ObjectReader{object});
  }
  summary.rank = rank;
  return summary;
}

}  // namespace starling

#include "report/run_labels.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>

namespace starling {

namespace {

// What must be the same where accuracies and bytes are held against each other.
constexpr std::array<const char*, 4> kSubject = {"data", "samples", "shards", "model"};

void flatten(const toml::table& table, const std::string& before,
             std::map<std::string, std::string>& settings) {
  for (const auto& [key, node] : table) {
    const std::string name = before + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, name + ".", settings);
    } else if (const auto number = node.value_exact<double>()) {
      settings[name] = fmt::format("{:g}", *number);
    } else if (const auto words = node.value_exact<std::string>()) {
      settings[name] = *words;
    } else if (const auto whole = node.value_exact<std::int64_t>()) {
      settings[name] = fmt::format("{}", *whole);
    } else if (const auto yes = node.value_exact<bool>()) {
      settings[name] = *yes ? "true" : "false";
    }
  }
}

// "2026-01-31-120000-pairwise-4" -> "pairwise-4"
std::string without_time(const std::string& name) {
  constexpr std::string_view kTime = "0000-00-00-000000-";
  if (name.size() <= kTime.size()) return name;
  for (std::size_t i = 0; i < kTime.size(); ++i) {
    const bool fits =
        kTime[i] == '0' ? std::isdigit(static_cast<unsigned char>(name[i])) != 0 : name[i] == '-';
    if (!fits) return name;
  }
  return name.substr(kTime.size());
}

using AllSettings = std::vector<std::map<std::string, std::string>>;

std::string value_in(const std::map<std::string, std::string>& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? "" : found->second;
}

// Puts behind the labels of some runs, which are the same so far, each setting that tells more of
// them apart than those before it did.
void tell_apart(const std::vector<std::size_t>& same, const AllSettings& all,
                std::vector<std::string>& labels) {
  std::set<std::string> names;
  for (std::size_t run : same) {
    for (const auto& [name, value] : all[run]) names.insert(name);
  }
  names.erase("data_folder");
  std::size_t told_apart = 1;
  for (const std::string& name : names) {
    std::vector<std::string> longer;
    for (std::size_t run : same) {
      longer.push_back(fmt::format("{} {}={}", labels[run], name, value_in(all[run], name)));
    }
    const std::size_t different = std::set(longer.begin(), longer.end()).size();
    if (different <= told_apart) continue;
    told_apart = different;
    for (std::size_t i = 0; i < same.size(); ++i) labels[same[i]] = longer[i];
  }
}

std::map<std::string, std::vector<std::size_t>> by_label(const std::vector<std::string>& labels) {
  std::map<std::string, std::vector<std::size_t>> runs;
  for (std::size_t i = 0; i < labels.size(); ++i) runs[labels[i]].push_back(i);
  return runs;
}

}  // namespace

std::map<std::string, std::string> settings_of(const RunData& run) {
  std::map<std::string, std::string> settings;
  try {
    flatten(toml::parse(run.settings), "", settings);
  } catch (const toml::parse_error&) {
  }
  return settings;
}

std::vector<std::string> run_labels(std::span<const RunData> runs) {
  std::vector<std::string> labels;
  AllSettings all;
  for (const RunData& run : runs) {
    labels.push_back(without_time(run.name));
    all.push_back(settings_of(run));
  }
  for (const auto& [label, same] : by_label(labels)) tell_apart(same, all, labels);
  for (const auto& [label, same] :
       by_label(labels)) {  // nothing tells these apart but their number
    for (std::size_t i = 1; i < same.size(); ++i) labels[same[i]] += fmt::format(" ({})", i + 1);
  }
  return labels;
}

std::vector<std::string> unlike(std::span<const RunData> runs) {
  AllSettings all;
  for (const RunData& run : runs) all.push_back(settings_of(run));
  std::vector<std::string> differences;
  for (const char* name : kSubject) {
    std::map<std::string, std::size_t> values;
    for (const auto& settings : all) ++values[value_in(settings, name)];
    if (values.size() < 2) continue;
    std::vector<std::string> words;
    for (const auto& [value, count] : values) {
      const bool is_all = std::string_view(name) == "samples" && value == "0";
      words.push_back(fmt::format("{} ({} run{})",
                                  is_all          ? "all"
                                  : value.empty() ? "not said"
                                                  : value,
                                  count, count == 1 ? "" : "s"));
    }
    differences.push_back(fmt::format("{}: {}", name, fmt::join(words, ", ")));
  }
  return differences;
}

bool alike(const RunData& one, const RunData& other) {
  const auto mine = settings_of(one), theirs = settings_of(other);
  return std::ranges::all_of(
      kSubject, [&](const char* name) { return value_in(mine, name) == value_in(theirs, name); });
}

}  // namespace starling

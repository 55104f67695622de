#include "job/terms.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/names.h"
#include "base/version.h"

namespace starling {

namespace {

constexpr std::size_t kMostNamed = 3;
constexpr std::size_t kMostShown = 60;  // characters of a term

// What another program sent goes to somebody's terminal.
std::string printable(std::string_view text) {
  std::string shown(text.substr(0, kMostShown));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text.size() > kMostShown ? shown + "..." : shown;
}

std::map<std::string, std::string> by_name(const std::string& terms) {
  std::map<std::string, std::string> values;
  std::istringstream lines(terms);
  for (std::string line; std::getline(lines, line);) {
    values[line.substr(0, line.find(" = "))] = line;
  }
  return values;
}

// Machines may each have their own list of a checkpoint's files; its number is everybody's.
std::string resumed(const Job& job) {
  if (job.resume.empty()) return "";
  const std::string name = std::filesystem::path(job.resume).stem().string();
  return fmt::format("checkpoint = {}\n", name.substr(0, name.find('-')));
}

}  // namespace

std::string terms_of(const Job& job) {
  const std::string terms =
      fmt::format("starling = {}\n{}", version(),
                  job.terms.empty() ? fmt::format("workers = {}\n", job.size) : job.terms) +
      resumed(job);
  if (terms.size() > kMostTermsBytes) {
    throw Error(fmt::format("the settings take {} bytes", terms.size()),
                fmt::format("they may take {}: shorten the names of files", kMostTermsBytes));
  }
  return terms;
}

Digest digest_of(const std::string& terms) {
  Digest digest;
  EVP_Digest(terms.data(), terms.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
             EVP_sha256(), nullptr);
  return digest;
}

Difference difference(const std::string& theirs, const std::string& ours) {
  const auto their_values = by_name(theirs), our_values = by_name(ours);
  auto all = our_values;
  all.insert(their_values.begin(), their_values.end());
  std::vector<std::string> they_have, we_have;
  for (const auto& [name, line] : all) {
    const auto they = their_values.find(name), we = our_values.find(name);
    const bool both = they != their_values.end() && we != our_values.end();
    if (both && they->second == we->second) continue;
    const std::string none = fmt::format("no {}", printable(name));
    they_have.push_back(they == their_values.end() ? none : printable(they->second));
    we_have.push_back(we == our_values.end() ? none : printable(we->second));
  }
  const auto in_words = [](std::vector<std::string> terms) {
    const std::size_t more = terms.size() - std::min(terms.size(), kMostNamed);
    if (more > 0) {
      terms.resize(kMostNamed);
      terms.push_back(fmt::format("{} more", more));
    }
    return listed(terms, " and ");
  };
  return {in_words(std::move(they_have)), in_words(std::move(we_have))};
}

}  // namespace starling

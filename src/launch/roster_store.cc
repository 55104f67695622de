#include "launch/roster_store.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "roster/roster.h"

namespace starling {

using nlohmann::json;

namespace {

constexpr std::size_t kDigestCharacters = 64;

}  // namespace

std::string as_text(const KeptJob& job) {
  return json{{"start", job.start},
              {"generation", job.generation},
              {"doors", job.doors},
              {"run", job.run},
              {"ended", job.ended}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

KeptJob kept_job_in(const std::string& text) {
  try {
    const json said = json::parse(text);
    KeptJob job{said.at("start"), said.at("generation"),
                said.at("doors").get<std::vector<std::string>>(), said.at("run"), said.at("ended")};
    if (job.start == 0 || job.doors.size() > kMostMembers) throw Error("it makes no sense");
    return job;
  } catch (const std::exception& error) {
    throw Error("what is kept there is no job of Starling's", "name another prefix");
  }
}

RosterStore::RosterStore(const std::string& url, std::string secret)
    : url_(url),
      prefix_(parse_etcd_url(url).prefix),
      secret_(std::move(secret)),
      etcd_(parse_etcd_url(url).endpoints) {}

// Names the store in what goes wrong there.
template <class Call>
auto RosterStore::told(const Call& call) const {
  try {
    return call();
  } catch (const Error& error) {
    throw Error(fmt::format("the store {}: {}", url_, error.what()));
  }
}

std::string RosterStore::digest_of(const std::string& key, const std::string& text) const {
  const std::string all = fmt::format("store\n{}\n{}", key, text);
  std::array<unsigned char, 32> digest;
  unsigned length = 0;
  HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
       reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest.data(), &length);
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string RosterStore::with_digest(const std::string& key, const std::string& text) const {
  return digest_of(key, text) + text;
}

std::optional<std::string> RosterStore::checked(const Etcd::Value& value) const {
  if (value.text.size() < kDigestCharacters) return std::nullopt;
  const std::string text = value.text.substr(kDigestCharacters);
  const std::string expected = digest_of(value.key, text);
  if (CRYPTO_memcmp(expected.data(), value.text.data(), kDigestCharacters) != 0) return {};
  return text;
}

RosterStore::Found RosterStore::read() {
  return told([this]() -> Found {
    const auto value = etcd_.get(job_key());
    if (!value) return {};
    const auto text = checked(*value);
    if (!text) {
      throw Error("what is kept there was written with another secret",
                  "give the job's --secret-file, or another prefix");
    }
    return {kept_job_in(*text), value->revision};
  });
}

bool RosterStore::write(const KeptJob& job, std::int64_t revision) {
  return told(
      [&] { return etcd_.put_if_at(revision, job_key(), with_digest(job_key(), as_text(job))); });
}

std::vector<std::string> RosterStore::doors() {
  return told([this] {
    std::vector<std::string> doors;
    for (const Etcd::Value& each : etcd_.all_under(door_prefix())) {
      if (doors.size() < kMostMembers && checked(each)) {
        doors.push_back(each.key.substr(door_prefix().size()));
      }
    }
    return doors;
  });
}

std::int64_t RosterStore::grant() {
  return told([this] { return etcd_.grant(kLeaseTime); });
}
bool RosterStore::keep_alive(std::int64_t lease) {
  return told([&] { return etcd_.keep_alive(lease); });
}
void RosterStore::revoke(std::int64_t lease) {
  told([&] { etcd_.revoke(lease); });
}
void RosterStore::put_door(const std::string& door, std::int64_t lease) {
  const std::string key = door_prefix() + door;
  told([&] { etcd_.put(key, with_digest(key, ""), lease); });
}
void RosterStore::remove_door(const std::string& door) {
  told([&] { etcd_.remove(door_prefix() + door); });
}

}  // namespace starling

#include "launch/etcd.h"

#include <fmt/format.h>
#include <httplib.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <future>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace starling {

using nlohmann::json;

namespace {

constexpr std::size_t kMostAnswerBytes = 4 << 20;
constexpr std::size_t kMostReasonBytes = 200;
constexpr std::chrono::seconds kToConnect{2};

std::string base64(const std::string& text) {
  std::string coded(4 * ((text.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(coded.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  coded.resize(static_cast<std::size_t>(length));
  return coded;
}

[[noreturn]] void refuse_answer(const std::string& what) {
  throw Error(fmt::format("that is no answer of etcd's: {}", what));
}

std::string from_base64(const std::string& coded) {
  std::string text(3 * (coded.size() / 4) + 1, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(coded.data()),
                                     static_cast<int>(coded.size()));
  if (length < 0) refuse_answer("a value is not base64");
  const auto padding = static_cast<std::size_t>(std::count(coded.begin(), coded.end(), '='));
  text.resize(static_cast<std::size_t>(length) - std::min<std::size_t>(padding, 2));
  return text;
}

// It writes 64-bit numbers as strings, and leaves out what is 0, false or empty.
std::int64_t number_in(const json& answer, const char* name) {
  const auto found = answer.find(name);
  if (found == answer.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (!found->is_string()) refuse_answer(fmt::format("{} is no number", name));
  const std::string text = *found;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse_answer(fmt::format("{} is no number", name));
  }
  return number;
}
std::string text_in(const json& answer, const char* name) {
  const auto found = answer.find(name);
  if (found == answer.end()) return "";
  if (!found->is_string()) refuse_answer(fmt::format("{} is no text", name));
  return from_base64(*found);
}

std::vector<Etcd::Value> values_in(const json& answer) {
  std::vector<Etcd::Value> values;
  const auto list = answer.find("kvs");
  if (list == answer.end()) return values;
  if (!list->is_array()) refuse_answer("kvs is no list");
  for (const json& each : *list) {
    if (!each.is_object()) refuse_answer("a value is no object");
    values.push_back(
        {text_in(each, "key"), text_in(each, "value"), number_in(each, "mod_revision")});
  }
  return values;
}

// What a stranger says may be long, and of several lines.
std::string as_reason(std::string text) {
  text.resize(std::min(text.size(), kMostReasonBytes));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c > '~'; }, ' ');
  return text;
}

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// One request, with a bound on how long it takes in all and on what comes back.
HttpAnswer post(const EtcdUrl::Endpoint& endpoint, const std::string& path, const std::string& body,
                std::chrono::milliseconds patience) {
  httplib::Client client(endpoint.host, endpoint.port);
  client.set_connection_timeout(std::min<std::chrono::milliseconds>(kToConnect, patience));
  client.set_read_timeout(patience);
  client.set_write_timeout(patience);
  client.set_tcp_nodelay(true);
  HttpAnswer answer;
  bool too_long = false;
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.body = body;
  request.set_header("Content-Type", "application/json");
  request.content_receiver = [&](const char* piece, std::size_t length, std::uint64_t,
                                 std::uint64_t) {
    too_long = answer.body.size() + length > kMostAnswerBytes;
    if (!too_long) answer.body.append(piece, length);
    return !too_long;
  };
  // The client's own timeouts begin anew with every byte that trickles in.
  std::future<httplib::Result> asking =
      std::async(std::launch::async, [&] { return client.send(request); });
  const bool in_time = asking.wait_for(patience) == std::future_status::ready;
  if (!in_time) client.stop();
  const httplib::Result result = asking.get();
  if (too_long) refuse_answer("it is too long");
  if (!in_time && !result) throw Error(fmt::format("no answer within {} ms", patience.count()));
  if (!result) throw Error(httplib::to_string(result.error()));
  answer.status = result->status;
  return answer;
}

// etcd's words for what is wrong, or at least a number.
[[noreturn]] void throw_refused(const HttpAnswer& answer) {
  const json said = json::parse(answer.body, nullptr, false);
  const bool has_words = said.is_object() && said.contains("error") && said["error"].is_string();
  throw Error(has_words ? as_reason(said["error"])
                        : fmt::format("it answers with HTTP status {}", answer.status));
}

EtcdUrl::Endpoint parse_endpoint(const std::string& word) {
  const std::size_t colon = word.rfind(':');
  if (colon == std::string::npos || colon == 0) return {};
  EtcdUrl::Endpoint endpoint{word.substr(0, colon)};
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  const char* end = word.data() + word.size();
  const auto [last, error] = std::from_chars(word.data() + colon + 1, end, endpoint.port);
  if (error != std::errc() || last != end || endpoint.port > 65535) endpoint.port = 0;
  return endpoint;
}

}  // namespace

EtcdUrl parse_etcd_url(const std::string& text) {
  constexpr std::string_view kScheme = "etcd://";
  const auto refuse = [&] {
    throw Error(fmt::format("'{}' is no store", as_reason(text)),
                "write it like etcd://10.0.0.1:2379/my-job");
  };
  if (!text.starts_with(kScheme)) refuse();
  const std::string rest = text.substr(kScheme.size());
  if (std::ranges::any_of(rest, [](unsigned char c) { return c <= ' ' || c > '~'; })) refuse();
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  EtcdUrl url;
  const std::string places = rest.substr(0, slash);
  for (std::size_t begin = 0; begin <= places.size();) {
    const std::size_t end = std::min(places.find(',', begin), places.size());
    url.endpoints.push_back(parse_endpoint(places.substr(begin, end - begin)));
    if (url.endpoints.back().host.empty() || url.endpoints.back().port < 1) refuse();
    begin = end + 1;
  }
  std::string prefix = rest.substr(slash);
  while (prefix.ends_with('/')) prefix.pop_back();
  if (!prefix.empty()) url.prefix = prefix;
  return url;
}

Etcd::Etcd(std::vector<EtcdUrl::Endpoint> endpoints, std::chrono::milliseconds patience)
    : endpoints_(std::move(endpoints)), patience_(patience) {}

// Any endpoint of a cluster answers for all of it.
json Etcd::ask(const std::string& path, const json& question) {
  std::string why;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const std::size_t which = (last_ + i) % endpoints_.size();
    const auto& [host, port] = endpoints_[which];
    try {
      const HttpAnswer answer = post(endpoints_[which], path, question.dump(), patience_);
      if (answer.status != 200) throw_refused(answer);
      json said = json::parse(answer.body, nullptr, false);
      if (!said.is_object()) refuse_answer("it is not JSON");
      last_ = which;
      return said;
    } catch (const Error& error) {
      why += fmt::format("{}{}:{}: {}", why.empty() ? "" : "; ", host, port, error.what());
    }
  }
  throw Error(why);
}

std::optional<Etcd::Value> Etcd::get(const std::string& key) {
  const auto values = values_in(ask("/v3/kv/range", {{"key", base64(key)}}));
  if (values.empty()) return std::nullopt;
  if (values.size() > 1 || values[0].key != key) refuse_answer("it is of another key");
  return values[0];
}

std::vector<Etcd::Value> Etcd::all_under(const std::string& prefix) {
  std::string beyond = prefix;
  ++beyond.back();  // all that begin so are before it
  auto values =
      values_in(ask("/v3/kv/range", {{"key", base64(prefix)}, {"range_end", base64(beyond)}}));
  for (const Value& each : values) {
    if (!each.key.starts_with(prefix)) refuse_answer("it is of another key");
  }
  return values;
}

void Etcd::put(const std::string& key, const std::string& text, std::int64_t lease) {
  ask("/v3/kv/put",
      {{"key", base64(key)}, {"value", base64(text)}, {"lease", std::to_string(lease)}});
}

bool Etcd::put_if_at(std::int64_t revision, const std::string& key, const std::string& text) {
  const json compare = {{"key", base64(key)},
                        {"target", "MOD"},
                        {"result", "EQUAL"},
                        {"mod_revision", std::to_string(revision)}};
  const json put = {{"request_put", {{"key", base64(key)}, {"value", base64(text)}}}};
  const json answer =
      ask("/v3/kv/txn", {{"compare", json::array({compare})}, {"success", json::array({put})}});
  const auto succeeded = answer.find("succeeded");
  return succeeded != answer.end() && *succeeded == true;
}

void Etcd::remove(const std::string& key) { ask("/v3/kv/deleterange", {{"key", base64(key)}}); }

std::int64_t Etcd::grant(std::chrono::seconds time_to_live) {
  const json answer = ask("/v3/lease/grant", {{"TTL", std::to_string(time_to_live.count())}});
  const std::int64_t lease = number_in(answer, "ID");
  if (lease == 0) refuse_answer("the lease has no number");
  return lease;
}

bool Etcd::keep_alive(std::int64_t lease) {
  const json answer = ask("/v3/lease/keepalive", {{"ID", std::to_string(lease)}});
  const auto result = answer.find("result");
  if (result == answer.end() || !result->is_object()) refuse_answer("it says nothing of the lease");
  return number_in(*result, "TTL") > 0;
}

void Etcd::revoke(std::int64_t lease) { ask("/v3/lease/revoke", {{"ID", std::to_string(lease)}}); }

}  // namespace starling

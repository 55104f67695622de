#include "launch/etcd.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "tests/error_of.h"
#include "tests/etcd_server.h"

namespace starling {
namespace {

TEST(EtcdUrl, HasEndpointsAndAPrefix) {
  const EtcdUrl one = parse_etcd_url("etcd://10.0.0.1:2379");
  EXPECT_EQ(one.endpoints, (std::vector<EtcdUrl::Endpoint>{{"10.0.0.1", 2379}}));
  EXPECT_EQ(one.prefix, "/starling");
  const EtcdUrl three = parse_etcd_url("etcd://a:1,b.example:2,[::1]:65535/team/job/");
  EXPECT_EQ(three.endpoints,
            (std::vector<EtcdUrl::Endpoint>{{"a", 1}, {"b.example", 2}, {"::1", 65535}}));
  EXPECT_EQ(three.prefix, "/team/job");
}

TEST(EtcdUrl, ThatIsNoneIsRefused) {
  for (const char* wrong :
       {"", "etcd://", "etcd:///job", "http://a:1", "etcd://a", "etcd://a:", "etcd://a:0",
        "etcd://a:65536", "etcd://a:1x", "etcd://:1", "etcd://a:1,,b:2", "etcd://a:1,/job",
        "etcd://a:1/a b", "etcd://a:1/line\nbreak"}) {
    const std::string said = error_of([&] { parse_etcd_url(wrong); });
    EXPECT_NE(said.find("etcd://10.0.0.1:2379/my-job"), std::string::npos) << wrong << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << wrong;
  }
}

// Somebody who answers every call alike.
class Stub {
 public:
  using Handler = httplib::Server::Handler;
  explicit Stub(Handler handler) {
    server_.Post(".*", std::move(handler));
    endpoint_ = {"127.0.0.1", server_.bind_to_any_port("127.0.0.1")};
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  Stub(const std::string& body, int status = 200)
      : Stub([=](const httplib::Request&, httplib::Response& response) {
          response.status = status;
          response.set_content(body, "application/json");
        }) {}
  ~Stub() {
    server_.stop();
    thread_.join();
  }

  const EtcdUrl::Endpoint& endpoint() const { return endpoint_; }

 private:
  httplib::Server server_;
  EtcdUrl::Endpoint endpoint_;
  std::thread thread_;
};

void expect_refused(const std::string& said, const std::string& why) {
  EXPECT_NE(said.find(why), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  EXPECT_LT(said.size(), 400u);
}

TEST(Etcd, RefusesWhatIsNoAnswerOfItsOwn) {
  const std::vector<std::pair<std::string, std::string>> answers = {
      {"hello", "not JSON"},
      {"", "not JSON"},
      {"[1, 2]", "not JSON"},
      {R"({"kvs": 3})", "kvs is no list"},
      {R"({"kvs": [3]})", "a value is no object"},
      {R"({"kvs": [{"key": 3}]})", "key is no text"},
      {R"({"kvs": [{"key": "?"}]})", "not base64"},
      {R"({"kvs": [{"key": "YQ==", "mod_revision": "1x"}]})", "mod_revision is no number"},
      {R"({"kvs": [{"key": "YQ==", "mod_revision": {}}]})", "mod_revision is no number"},
      {R"({"kvs": [{"key": "Yg=="}]})", "of another key"},
      {std::string(5 << 20, ' '), "too long"},
  };
  for (const auto& [body, why] : answers) {
    Stub stub(body);
    Etcd etcd({stub.endpoint()});
    expect_refused(error_of([&] { etcd.get("a"); }), why);
  }
  Stub empty("{}");
  Etcd etcd({empty.endpoint()});
  EXPECT_EQ(etcd.get("a"), std::nullopt);
  EXPECT_FALSE(etcd.put_if_at(0, "a", "b"));
  expect_refused(error_of([&] { etcd.grant(std::chrono::seconds(5)); }), "no number");
  expect_refused(error_of([&] { etcd.keep_alive(5); }), "nothing of the lease");
}

TEST(Etcd, TellsWhyItWasRefusedInOneLine) {
  const std::vector<std::tuple<std::string, int, std::string>> answers = {
      {R"({"error": "etcdserver: no leader", "code": 14})", 503, "etcdserver: no leader"},
      {R"({"error": "two\nlines"})", 400, "two lines"},
      {R"({"error": 3})", 404, "HTTP status 404"},
      {"<html>", 500, "HTTP status 500"},
      {R"({"error": ")" + std::string(100'000, 'x') + R"("})", 500, "xxx"},
  };
  for (const auto& [body, status, why] : answers) {
    Stub stub(body, status);
    Etcd etcd({stub.endpoint()});
    expect_refused(error_of([&] { etcd.put("a", "b", 0); }), why);
  }
}

TEST(Etcd, DoesNotWaitForOneThatIsSilentOrTrickles) {
  std::atomic<bool> over = false;
  Stub silent([&](const httplib::Request&, httplib::Response& response) {
    while (!over) std::this_thread::sleep_for(5ms);
    response.set_content("{}", "application/json");
  });
  Etcd patient({silent.endpoint()}, 200ms);
  expect_refused(error_of([&] { patient.get("a"); }), "127.0.0.1");
  over = true;

  // Each byte comes in time, and what they make up in the end is an answer.
  Stub trickling([](const httplib::Request&, httplib::Response& response) {
    response.set_content_provider(
        4000, "application/json", [](std::size_t offset, std::size_t, httplib::DataSink& sink) {
          std::this_thread::sleep_for(5ms);
          return sink.write(offset == 0 ? "{" : offset == 3999 ? "}" : " ", 1);
        });
  });
  Etcd also_patient({trickling.endpoint()}, 200ms);
  expect_refused(error_of([&] { also_patient.get("a"); }), "no answer within 200 ms");
}

TEST(Etcd, AsksTheNextEndpointIfOneIsAway) {
  Stub answers("{}"), refuses("no", 500);
  const std::string nobody = free_address();
  const EtcdUrl::Endpoint away{"127.0.0.1", std::stoi(nobody.substr(nobody.find(':') + 1))};
  Etcd etcd({away, refuses.endpoint(), answers.endpoint()});
  EXPECT_EQ(etcd.get("a"), std::nullopt);
  Etcd none({away, refuses.endpoint()});
  const std::string said = error_of([&] { none.get("a"); });
  expect_refused(said, nobody);
  expect_refused(said, "HTTP status 500");
}

class RealEtcd : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::is_installed()) GTEST_SKIP() << EtcdServer::kMissing;
    server_.emplace();
  }
  Etcd etcd() { return Etcd(parse_etcd_url(server_->url("")).endpoints); }

  std::optional<EtcdServer> server_;
};

TEST_F(RealEtcd, KeepsValuesOfAnyBytes) {
  Etcd etcd = this->etcd();
  const std::string bytes("\0\xff\n=\x80 text", 10);
  EXPECT_TRUE(etcd.put_if_at(0, bytes, bytes));
  const auto found = etcd.get(bytes);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, bytes);
  for (const std::string& text : {std::string(), std::string("a"), std::string("ab"), bytes}) {
    etcd.put("/list/" + text, text, 0);
  }
  etcd.put("/listed", "", 0);
  const auto all = etcd.all_under("/list/");
  ASSERT_EQ(all.size(), 4u);
  for (const Etcd::Value& each : all) EXPECT_EQ(each.key, "/list/" + each.text);
  etcd.remove(bytes);
  EXPECT_EQ(etcd.get(bytes), std::nullopt);
}

TEST_F(RealEtcd, PutsOnlyIfNobodyWasFaster) {
  Etcd etcd = this->etcd(), other = this->etcd();
  EXPECT_TRUE(etcd.put_if_at(0, "a", "1"));
  EXPECT_FALSE(other.put_if_at(0, "a", "2"));
  const auto revision = etcd.get("a")->revision;
  EXPECT_TRUE(other.put_if_at(revision, "a", "3"));
  EXPECT_FALSE(etcd.put_if_at(revision, "a", "4"));
  EXPECT_EQ(etcd.get("a")->text, "3");
}

TEST_F(RealEtcd, TakesKeysAwayWhenTheirLeaseEnds) {
  Etcd etcd = this->etcd();
  const std::int64_t kept = etcd.grant(60s), dropped = etcd.grant(1s), given_back = etcd.grant(60s);
  etcd.put("kept", "", kept);
  etcd.put("dropped", "", dropped);
  etcd.put("given back", "", given_back);
  EXPECT_TRUE(etcd.keep_alive(kept));
  etcd.revoke(given_back);
  EXPECT_EQ(etcd.get("given back"), std::nullopt);
  EXPECT_TRUE(wait_until(60s, [&] { return !etcd.get("dropped"); }));
  EXPECT_FALSE(etcd.keep_alive(dropped));
  EXPECT_THROW(etcd.put("dropped", "", dropped), Error);
  EXPECT_TRUE(etcd.get("kept"));
}

TEST_F(RealEtcd, KilledAndStartedAgainHasWhatItHad) {
  Etcd etcd = this->etcd();
  const std::int64_t lease = etcd.grant(60s);
  etcd.put("a", "1", lease);
  server_->kill();
  EXPECT_THROW(etcd.get("a"), Error);
  server_->start();
  EXPECT_EQ(etcd.get("a")->text, "1");
  EXPECT_TRUE(etcd.keep_alive(lease));
}

}  // namespace
}  // namespace starling

// Who is let in, and what they may do.
#include "report/live_server.h"

#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "base/error.h"

namespace starling {
namespace {

using nlohmann::json;

const LiveRun& some_run() {
  static const LiveRun run({.name = "a run", .workers = 2, .settings = {}}, [] { return 1.0; });
  return run;
}

int port_of(const LiveServer& server) {
  const std::string url = server.url();
  return std::stoi(url.substr(url.find(':', 6) + 1));
}

const std::string kToken = "0123456789abcdef";

httplib::Result get(const LiveServer& server, const std::string& path,
                    const httplib::Headers& headers = {{"Authorization", "Bearer " + kToken}}) {
  httplib::Client client("127.0.0.1", port_of(server));
  return client.Get(path, headers);
}

TEST(LiveServer, ServesThePageTheStateAndTheMetrics) {
  const LiveServer server(parse_live_address("127.0.0.1:0"), kToken, some_run());
  const auto page = get(server, "/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_NE(page->body.find("<!doctype html>"), std::string::npos);
  EXPECT_NE(page->get_header_value("Content-Security-Policy").find("default-src 'none'"),
            std::string::npos);
  const auto state = get(server, "/state");
  EXPECT_EQ(json::parse(state->body)["name"], "a run");
  EXPECT_NE(get(server, "/metrics")->body.find("starling_worker_up"), std::string::npos);
  EXPECT_EQ(get(server, "/elsewhere")->status, 404);
  EXPECT_EQ(get(server, "/../../etc/passwd")->status, 404);
}

TEST(LiveServer, OnlyShows) {
  const LiveServer server(parse_live_address("127.0.0.1:0"), kToken, some_run());
  httplib::Client client("127.0.0.1", port_of(server));
  EXPECT_EQ(client.Post("/state", "{}", "application/json")->status, 405);
  EXPECT_EQ(client.Delete("/state")->status, 405);
  EXPECT_EQ(client.Post("/", "{}", "application/json")->status, 405);
}

TEST(LiveServer, TellsNothingWithoutTheTokenInItsHeader) {
  const LiveServer server(parse_live_address("127.0.0.1:0"), kToken, some_run());
  EXPECT_TRUE(server.url().ends_with("/#" + kToken)) << server.url();
  EXPECT_TRUE(server.url().starts_with("http://")) << server.url();
  EXPECT_EQ(server.fingerprint(), "");
  const auto page = get(server, "/", {});
  EXPECT_EQ(page->status, 200) << "the page tells nothing of a run";
  EXPECT_EQ(page->body.find("a run\""), std::string::npos);
  for (const char* path : {"/state", "/metrics"}) {
    const auto with = [&](const std::string& header) {
      return get(server, path, {{"Authorization", header}})->status;
    };
    EXPECT_EQ(get(server, path, {})->status, 401);
    EXPECT_EQ(get(server, path + ("?token=" + kToken), {})->status, 401) << "not in the address";
    EXPECT_EQ(with("Bearer 0123456789abcdeX"), 401);
    EXPECT_EQ(with("Bearer 0123456789abcdef0"), 401);
    EXPECT_EQ(with("Bearer "), 401);
    EXPECT_EQ(with(kToken), 401);
    EXPECT_EQ(with("Bearer " + kToken), 200);
    EXPECT_EQ(with("Bearer " + kToken), 200);
  }
}

TEST(LiveServer, OffLoopbackItIsEncryptedWithACertificateOfItsOwn) {
  const LiveServer server(parse_live_address("0.0.0.0:0"), kToken, some_run());
  const LiveServer other(parse_live_address("0.0.0.0:0"), kToken, some_run());
  EXPECT_TRUE(server.url().starts_with("https://")) << server.url();
  EXPECT_EQ(server.fingerprint().size(), 32u * 3 - 1);
  EXPECT_NE(server.fingerprint(), other.fingerprint());
  const std::string url = server.url();
  const int port = std::stoi(url.substr(url.rfind(':') + 1));
  httplib::SSLClient client("127.0.0.1", port);
  client.enable_server_certificate_verification(false);
  EXPECT_EQ(client.Get("/state")->status, 401);
  const httplib::Headers bearer = {{"Authorization", "Bearer " + kToken}};
  EXPECT_EQ(client.Get("/state", bearer)->status, 200);
  httplib::Client plain("127.0.0.1", port);
  const auto answer = plain.Get("/state", bearer);
  EXPECT_FALSE(answer && answer->status == 200) << "in plain words";
}

// Each thread of the server would read on as long as a byte comes now and then.
TEST(LiveServer, EndsThoughClientsTrickleTheirRequests) {
  constexpr int kClients = 12;
  auto server = std::make_unique<LiveServer>(parse_live_address("127.0.0.1:0"), kToken, some_run());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port_of(*server)));
  std::vector<int> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(clients.back(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::send(clients.back(), "GET / HTTP/1.1\r\nX-Slow: ", 24, MSG_NOSIGNAL), 24);
  }
  std::atomic<bool> trickling = true, gave_up = false;
  std::thread trickle([&] {
    for (int i = 0; i < 8 && trickling; ++i) {
      for (int client : clients) ::send(client, "x", 1, MSG_NOSIGNAL);
      for (int j = 0; j < 50 && trickling; ++j) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    gave_up = trickling.load();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until threads are at it
  server.reset();
  trickling = false;
  trickle.join();
  EXPECT_FALSE(gave_up) << "it waited for as long as they went on";
  for (int client : clients) ::close(client);
}

TEST(LiveServer, AskedForATakenPortItSaysSo) {
  const LiveServer first(parse_live_address("127.0.0.1:0"), kToken, some_run());
  EXPECT_THROW(LiveServer(parse_live_address(std::to_string(port_of(first))), kToken, some_run()),
               Error);
}

TEST(LiveAddress, IsHostAndPortOrEither) {
  EXPECT_EQ(parse_live_address("").port, 8070);
  EXPECT_TRUE(parse_live_address("").is_loopback());
  EXPECT_EQ(parse_live_address("9000").port, 9000);
  EXPECT_FALSE(parse_live_address("9000").any_port);
  EXPECT_EQ(parse_live_address("0.0.0.0:80").host, "0.0.0.0");
  EXPECT_FALSE(parse_live_address("0.0.0.0:80").is_loopback());
  EXPECT_TRUE(parse_live_address("[::1]:80").is_loopback());
  for (const char* wrong : {"host", "127.0.0.1:", ":80", "1.2.3.4:99999", "a:b", "80x", "-1"}) {
    EXPECT_THROW(parse_live_address(wrong), Error) << wrong;
  }
}

}  // namespace
}  // namespace starling

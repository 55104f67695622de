#include "report/live_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "report/own_certificate.h"

namespace starling {

namespace {

constexpr const char kPage[] =
#include "live_page.inc"
    ;

using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPageAsksWithin{1500};  // it does so twice a second
constexpr std::chrono::milliseconds kTimeToSeeTheEnd{2000};
constexpr std::chrono::milliseconds kTimeToStart{2000};

bool same_secret(const std::string& given, const std::string& token) {
  // How long it takes must not tell how much of it was right.
  unsigned char difference = given.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const char other = i < given.size() ? given[i] : '\0';
    difference = static_cast<unsigned char>(difference | (other ^ token[i]));
  }
  return difference == 0;
}

// The local port of a connection; -1 for any other file.
int port_at(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return -1;
}

std::string own_host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace

bool LiveAddress::is_loopback() const {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

LiveAddress parse_live_address(const std::string& text) {
  LiveAddress address;
  if (text.empty()) return address;
  const auto colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  const char* const end = port.data() + port.size();
  const auto [stopped, error] = std::from_chars(port.data(), end, address.port);
  if (error != std::errc() || stopped != end || address.port < 0 || address.port > 65535 ||
      colon == 0) {
    throw Error(fmt::format("--live {} is no address", text),
                "it is ADDRESS:PORT or PORT, e.g. 127.0.0.1:8070, with port 0 for any free one");
  }
  if (colon != std::string::npos) address.host = text.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  address.any_port = address.port == 0;
  return address;
}

class LiveServer::Impl {
 public:
  Impl(const LiveAddress& address, std::string token, const LiveRun& run)
      : address_(address), token_(std::move(token)), run_(run) {
    if (address.is_loopback()) {
      server_ = std::make_unique<httplib::Server>();
    } else {
      certificate_ = make_certificate(host_in_url());
      server_ = std::make_unique<httplib::SSLServer>(certificate_.certificate.get(),
                                                     certificate_.key.get());
    }
    // A page's connections must not take all threads, so each serves one request only.
    server_->new_task_queue = [] { return new httplib::ThreadPool(4); };
    server_->set_keep_alive_max_count(1);
    server_->set_payload_max_length(1024);
    server_->set_read_timeout(std::chrono::seconds(2));
    server_->set_write_timeout(std::chrono::seconds(2));
    // The library would let two runs share a port, each getting some of the requests.
    server_->set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_->set_default_headers(
        {{"X-Content-Type-Options", "nosniff"},
         {"Referrer-Policy", "no-referrer"},
         {"Cache-Control", "no-store"},
         {"Content-Security-Policy",
          "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
          "connect-src 'self'; img-src data:; frame-ancestors 'none'"}});
    server_->set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return admit(request, response);
        });
    server_->Get("/", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(kPage, "text/html; charset=utf-8");
    });
    server_->Get("/state", [this](const httplib::Request&, httplib::Response& response) {
      asked_ = SteadyClock::now().time_since_epoch().count();
      response.set_content(run_.state(), "application/json");
    });
    server_->Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(run_.metrics(), "text/plain; version=0.0.4; charset=utf-8");
    });
    listen();
  }

  ~Impl() {
    const SteadyClock::time_point ended = SteadyClock::now();
    const auto asked = [this] { return SteadyClock::time_point(SteadyClock::duration(asked_)); };
    const bool watched = asked_ != 0 && asked() > ended - kPageAsksWithin;
    while (watched && asked() < ended && SteadyClock::now() < ended + kTimeToSeeTheEnd) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    server_->stop();
    // Whoever sends a byte now and then would keep a thread for as long as it likes.
    while (listening_) {
      hang_up();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    thread_.join();
  }

  std::string url() const {
    std::string host = host_in_url();
    if (host.find(':') != std::string::npos) host = "[" + host + "]";
    return fmt::format("{}://{}:{}/#{}", address_.is_loopback() ? "http" : "https", host,
                       address_.port, token_);
  }
  const std::string& fingerprint() const { return certificate_.fingerprint; }

 private:
  std::string host_in_url() const {
    const bool everywhere = address_.host == "0.0.0.0" || address_.host == "::";
    return everywhere ? own_host_name() : address_.host;
  }

  void listen() {
    bool bound = address_.port != 0 && server_->bind_to_port(address_.host, address_.port);
    if (!bound && address_.any_port) {
      address_.port = server_->bind_to_any_port(address_.host);
      bound = address_.port > 0;
    }
    if (!bound) {
      throw Error(fmt::format("cannot listen on {}:{}: it is taken, or not this machine's",
                              address_.host, address_.port),
                  "choose another one with --live ADDRESS:PORT; port 0 takes any that is free");
    }
    listening_ = true;
    thread_ = std::thread([this] {
      server_->listen_after_bind();
      listening_ = false;
    });
    // A server that is stopped before it runs would not notice.
    const SteadyClock::time_point patience = SteadyClock::now() + kTimeToStart;
    while (!server_->is_running() && SteadyClock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Ends all connections to our port. The library does not tell which they are, but the kernel does.
  void hang_up() const {
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", gone)) {
      const int fd = std::stoi(entry.path().filename());
      if (port_at(fd) == address_.port) ::shutdown(fd, SHUT_RDWR);
    }
  }

  httplib::Server::HandlerResponse admit(const httplib::Request& request,
                                         httplib::Response& response) {
    using enum httplib::Server::HandlerResponse;
    const auto refuse = [&](int status, const std::string& why) {
      response.status = status;
      response.set_content(why + "\n", "text/plain; charset=utf-8");
      return Handled;
    };
    if (request.method != "GET" && request.method != "HEAD") {
      return refuse(405, "this server only shows");
    }
    if (request.path == "/") return Unhandled;
    if (same_secret(request.get_header_value("Authorization"), "Bearer " + token_)) {
      return Unhandled;
    }
    response.set_header("WWW-Authenticate", "Bearer");
    return refuse(401,
                  "this needs the token of the address that was printed, in the header "
                  "'Authorization: Bearer TOKEN'");
  }

  LiveAddress address_;
  const std::string token_;
  const LiveRun& run_;
  std::atomic<SteadyClock::rep> asked_ = 0;  // when a page last asked for the state
  std::atomic<bool> listening_ = false;
  OwnCertificate certificate_;
  std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
};

LiveServer::LiveServer(const LiveAddress& address, std::string token, const LiveRun& run)
    : impl_(std::make_unique<Impl>(address, std::move(token), run)) {}
LiveServer::~LiveServer() = default;

std::string LiveServer::url() const { return impl_->url(); }
std::string LiveServer::fingerprint() const { return impl_->fingerprint(); }

}  // namespace starling

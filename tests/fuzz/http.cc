// What a browser, or whoever pretends to be one, says to the live page's server.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "report/live_server.h"
#include "tests/fuzz/fuzz.h"

namespace starling {

namespace {

struct Page {
  LiveRun run{{"fuzz", 2, 0, {}}, [] { return 1.0; }};
  LiveServer server{LiveAddress{"127.0.0.1", 0, true}, "a token", run};

  // "http://127.0.0.1:40001/..."
  int port() const {
    const std::string url = server.url();
    return std::stoi(url.substr(url.find(':', 7) + 1));
  }
};

}  // namespace

void fuzz_http(ConstBytes input) {
  try {
    parse_live_address(text_of_bytes(input));
  } catch (const Error&) {
  }
  const Page
      page;  // one for each: when a program ends, its library's variables go before those here
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(page.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    send(fd, input.data(), input.size(), MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    timeval patience{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char answer[4096];
    while (recv(fd, answer, sizeof answer, 0) > 0) {
    }
  }
  close(fd);
}

}  // namespace starling

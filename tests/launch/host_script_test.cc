#include "launch/host_script.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <asio/steady_timer.hpp>

#include "base/error.h"

namespace starling {
namespace {

TEST(HostScript, ReadsHostsAndTheirSlots) {
  const std::vector<HostSlots> both = {{"localhost", 2}, {"127.0.0.1", 3}};
  EXPECT_EQ(parse_host_slots("localhost:2\n\n  127.0.0.1:3 \n", 0), both);
  EXPECT_EQ(parse_host_slots("localhost\n127.0.0.1:3\n", 2), both);
  EXPECT_EQ(slots_of(both), 5);
  for (const char* wrong : {"localhost", "localhost:", "localhost:x", "localhost:2x", ":2",
                            "localhost:0", "localhost:-1", "localhost:99999999999",
                            "localhost:1\nlocalhost:1", "elsewhere.example:2"}) {
    EXPECT_THROW(parse_host_slots(wrong, 0), Error) << wrong;
  }
}

ScriptEnd end_of(const std::string& program) {
  asio::io_context io;
  ScriptEnd end;
  run_host_script(io, program, [&](const ScriptEnd& told) { end = told; });
  io.run();
  return end;
}

TEST(HostScript, SaysWhatBecameOfTheScript) {
  EXPECT_EQ(end_of("true").error, "");
  EXPECT_EQ(end_of("hostname").error, "");
  EXPECT_NE(end_of("hostname").printed, "");
  EXPECT_NE(end_of("false").error.find("status 1"), std::string::npos);
  EXPECT_NE(end_of("/nowhere/to/be/found").error.find("not there"), std::string::npos);
  EXPECT_NE(end_of("/etc/passwd").error.find("chmod"), std::string::npos);
  EXPECT_NE(end_of("yes").error.find("without an end"), std::string::npos);
}

// Who asks again and again must not end because it once could not.
TEST(HostScript, SaysThatItCannotBeStartedNow) {
  asio::io_context io;
  const asio::steady_timer has_descriptors(io);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  ScriptEnd end;
  run_host_script(io, "true", [&](const ScriptEnd& told) { end = told; });
  EXPECT_EQ(end.error, "");  // not before it is asked for
  io.run();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(end.error.find("no pipe"), std::string::npos) << end.error;
  EXPECT_FALSE(end.has_said);
}

}  // namespace
}  // namespace starling

// Nobody waits for a terminal or a pipe that takes nothing.
#include "report/progress_bar.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <functional>

#include "tests/process.h"

namespace starling {
namespace {

struct Ends {
  int in, out;
};

Ends pipe_ends() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  return {ends[0], ends[1]};
}

Ends socket_ends() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {ends[0], ends[1]};
}

// Whether it is done soon; else it waits for somebody, and is ended.
bool comes_back(const std::function<void()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    action();
    ::_exit(0);
  }
  int status = 0;
  const bool back = wait_until(8s, [&] { return ::waitpid(child, &status, WNOHANG) == child; });
  if (!back) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  return back;
}

TEST(ProgressBar, DoesNotWaitForWhoReadsNothing) {
  for (const Ends& ends : {pipe_ends(), socket_ends()}) {
    EXPECT_TRUE(comes_back([&] {
      ProgressBar bar("training", ends.out);
      for (int i = 0; i < 10'000; ++i) bar.say("a line of some forty characters, of which many");
      bar.show(0.5, "half way");
    }));
    ::close(ends.in);
    ::close(ends.out);
  }
}

TEST(ProgressBar, SaysLaterWhatWasNotTakenAtOnce) {
  const Ends ends = pipe_ends();
  std::array<char, 4096> block{};
  ::fcntl(ends.out, F_SETFL, O_NONBLOCK);
  while (::write(ends.out, block.data(), block.size()) > 0) {
  }
  ::fcntl(ends.out, F_SETFL, 0);
  std::string text;
  const auto read_all = [&] {
    ::fcntl(ends.in, F_SETFL, O_NONBLOCK);
    for (ssize_t got = 0; (got = ::read(ends.in, block.data(), block.size())) > 0;) {
      text.append(block.data(), static_cast<std::size_t>(got));
    }
  };
  {
    ProgressBar bar("training", ends.out);
    bar.say("one");
    bar.say("two");
    read_all();
    EXPECT_EQ(text.find("one"), std::string::npos);
    bar.say("three");
    read_all();
    EXPECT_TRUE(text.ends_with("one\ntwo\nthree\n")) << text.substr(text.size() - 50);
    bar.say("four");
  }
  read_all();
  EXPECT_TRUE(text.ends_with("three\nfour\n"));
  EXPECT_EQ(::fcntl(ends.out, F_GETFL) & O_NONBLOCK, 0) << "others write there, too";
  ::close(ends.in);
  ::close(ends.out);
}

TEST(ProgressBar, WritesBehindWhatIsInAFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "log";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::write(file, "before\n", 7), 7);
  ProgressBar("training", file).say("behind");
  ASSERT_EQ(::write(file, "after\n", 6), 6);
  ::close(file);
  EXPECT_EQ(file_text(path), "before\nbehind\nafter\n");
}

TEST(ProgressBar, WithoutATerminalIsALineAtTheStartAndThenOneNowAndThen) {
  const auto lines = [](std::chrono::seconds pause) {
    const TemporaryFolder folder;
    const std::string path = folder.path() / "log";
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ProgressBar bar("training", file, pause);
    bar.show(0, "loss 2.3");
    bar.show(0.25, "loss 1.0");
    ::close(file);
    return file_text(path);
  };
  EXPECT_EQ(lines(std::chrono::hours(1)), "training 0%  loss 2.3\n");
  EXPECT_EQ(lines(0s), "training 0%  loss 2.3\ntraining 25%  loss 1.0\n");
}

TEST(ProgressBar, LeavesOutWholeDetailsThatHaveNoRoomOnATerminal) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_EQ(::grantpt(master), 0);
  ASSERT_EQ(::unlockpt(master), 0);
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  winsize size{};
  size.ws_col = 50;
  ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
  ProgressBar bar("training", terminal);
  bar.show(0.5, "97.12 %  3 s left  16,000 samples/s");
  std::array<char, 256> block{};
  const ssize_t got = ::read(master, block.data(), block.size());
  const std::string text(block.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  EXPECT_EQ(text, "\r\x1b[2Ktraining [#####.....]  50%  97.12 %  3 s left");
  ::close(master);
  ::close(terminal);
}

}  // namespace
}  // namespace starling

// A worker for the launcher's tests.
//
//   flock_worker BEHAVIOUR [RANK:BEHAVIOUR]...
//
// Every rank behaves as the first word says, but for those that have one of their own. A behaviour
// is one or more of these words, joined with + and acted on from left to right:
//
//   before joining:    die, stubborn (ignores SIGTERM, and stays), child (starts one that stays)
//   after joining:     ring, pairwise, big-ring, big-pairwise (exchange until something goes
//                      wrong),
//                      meet (a few exchanges), garbage, huge, bad-error (bad lines for the
//                      launcher), exit (with status 3), throw, abort, finish
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "exchange/allreduce.h"
#include "exchange/collectives.h"
#include "exchange/pairwise.h"
#include "job/join.h"
#include "job/worker_events.h"
#include "runtime/race.h"

namespace starling {
namespace {

constexpr Channel kChannel{1, Purpose::weights};

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void start_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("sleep", "sleep", "1000", nullptr);
    ::_exit(127);
  }
}

void write_event(const Job& job, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(job.events_fd, text.data() + done, text.size() - done);
    if (written <= 0) throw Error(fmt::format("the launcher hung up: {}", std::strerror(errno)));
    done += static_cast<std::size_t>(written);
  }
}

class Worker {
 public:
  explicit Worker(const Job& job) : job_(job), member_(join(host_, job)) {
    say(fmt::format("rank {} pid {} joined", job.rank, ::getpid()));
  }

  void act(const std::string& word) {
    if (word == "ring") return exchange_for_ever(word, 100);
    if (word == "pairwise") return exchange_for_ever(word, 100);
    if (word == "big-ring") return exchange_for_ever("ring", 2'000'000);
    if (word == "big-pairwise") return exchange_for_ever("pairwise", 2'000'000);
    if (word == "meet") return meet();
    if (word == "garbage") return send_garbage();
    if (word == "bad-error") {
      return write_event(job_, "{\"event\": \"error\", \"message\": 3, \"peer_lost\": \"x\"}\n");
    }
    if (word == "huge") return write_event(job_, std::string(3'000'000, 'x') + "\n");
    if (word == "exit") ::_exit(3);
    if (word == "abort") std::abort();
    if (word == "throw") throw Error("the data is bad", "bake a new one");
    if (word == "finish") return say(fmt::format("rank {} finished", job_.rank));
    throw Error(fmt::format("flock_worker cannot '{}'", word));
  }

 private:
  void run(Task<> task) {
    loop_.run(within(loop_, loop_.now() + job_.timeout, "an exchange", std::move(task)));
  }

  void exchange_for_ever(const std::string& kind, std::size_t elements) {
    std::vector<float> values(elements, 0);
    for (int round = 0;; ++round) {
      if (round == 3) say(fmt::format("rank {} is exchanging", job_.rank));
      run(kind == "ring" ? ring_allreduce(member_.comm(), kChannel, values, Reduction::sum)
                         : pairwise_average(member_.comm(), kChannel, values, 1));
    }
  }

  void meet() {
    for (int round = 0; round < 3; ++round) {
      std::vector<float> values(1000, static_cast<float>(job_.rank));
      run(ring_allreduce(member_.comm(), kChannel, values, Reduction::sum));
      const float sum = static_cast<float>(job_.size * (job_.size - 1)) / 2;
      for (float value : values) {
        if (value != sum) throw Error(fmt::format("the ring gives {} for {}", value, sum));
      }
    }
    run(barrier(member_.comm(), kChannel));
  }

  void send_garbage() {
    for (const char* line : {
             "",
             "hello",
             "{",
             "null",
             "7",
             "[[[[[[",
             "\"error\"",
             "{\"event\": 5}",
             "{\"event\": null}",
             "{\"event\": [\"error\"], \"message\": 3}",
             "{\"event\": \"evaluation\", \"accuracy\": \"good\", \"time\": {}}",
             "\xff\xfe\x80 not even text",
         }) {
      write_event(job_, std::string(line) + "\n");
    }
    write_event(job_, std::string(100'000, '[') + "\n");
    write_event(job_, std::string("a nul \0 within\n", 15));
  }

  Job job_;
  TcpLoop loop_;
  TcpHost host_{loop_};
  Membership member_;
};

std::vector<std::string> words_of(const Job& job, int argc, char** argv) {
  std::string behaviour = argc > 1 ? argv[1] : "finish";
  const std::string prefix = fmt::format("{}:", job.rank);
  for (int i = 2; i < argc; ++i) {
    if (std::string(argv[i]).starts_with(prefix)) behaviour = argv[i] + prefix.size();
  }
  std::vector<std::string> words;
  std::istringstream stream(behaviour);
  for (std::string word; std::getline(stream, word, '+');) words.push_back(word);
  return words;
}

void behave(const Job& job, const std::vector<std::string>& words) {
  std::optional<Worker> worker;
  for (const std::string& word : words) {
    if (word == "die") ::_exit(5);
    if (word == "child") {
      start_child();
    } else if (word == "stubborn") {
      ::signal(SIGTERM, SIG_IGN);
      say(fmt::format("rank {} pid {} is stubborn", job.rank, ::getpid()));
      while (true) ::pause();
    } else {
      if (!worker) worker.emplace(job);
      worker->act(word);
    }
  }
}

}  // namespace
}  // namespace starling

int main(int argc, char** argv) {
  starling::Job job;
  try {
    job = starling::job_from_environment();
    starling::start_log(fmt::format("rank {}", job.rank), spdlog::level::warn);
    starling::behave(job, starling::words_of(job, argc, argv));
    return 0;
  } catch (const std::exception& error) {
    const auto* lost = dynamic_cast<const starling::PeerLost*>(&error);
    fmt::print(stderr, "rank {} ends: {}: {}\n", job.rank,
               lost != nullptr ? fmt::format("lost {}", lost->rank()) : "failed", error.what());
    starling::report_error(job, error);
    return 1;
  }
}

#include "launch/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/read_until.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <asio/streambuf.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "job/cores.h"
#include "job/job.h"
#include "job/join.h"
#include "job/worker_events.h"
#include "launch/agent.h"
#include "launch/blas_kernels.h"
#include "launch/guardian.h"
#include "launch/hosts_launcher.h"
#include "launch/job_folder.h"
#include "launch/lab.h"
#include "launch/other_launchers.h"
#include "launch/outlet.h"
#include "launch/pipe.h"
#include "launch/store_keeper.h"
#include "launch/watchdog.h"

namespace starling {

namespace {

constexpr std::chrono::milliseconds kTimeToNotice{1500};
// Who is cut off knows at once that it can call nobody; the others call it for 4 s in vain before they
// are sure, and then one of them has a model to leave.
constexpr std::chrono::milliseconds kTimeToNoticeACut{6000};
constexpr std::chrono::milliseconds kTimeToEnd{2000};
constexpr std::chrono::milliseconds kOneAndTheSame{300};       // timeout(1) signals twice at a time
constexpr std::chrono::milliseconds kBeforeAnotherStart{250};  // twice as long each time
constexpr std::chrono::seconds kTimeForAStep{10};
constexpr std::chrono::seconds kTimeToSave{60};
constexpr std::chrono::milliseconds kLookEvery{1000};
constexpr std::chrono::milliseconds kDiscoverEvery{1000};
constexpr std::chrono::milliseconds kNoticeEvery{2000};  // clouds give half a minute to two
constexpr int kLabPort = 29400;  // every host of a lab has all ports for itself
constexpr std::size_t kMaxEventBytes = 1 << 20;

int free_port(TcpLoop& loop) { return listen_on_loopback(loop).local_endpoint().port(); }

class Launcher {
 public:
  Launcher(const LaunchPlan& plan, const WorkerEvent& on_event, const WorkerEnd& on_end)
      : plan_(plan), on_event_(on_event), on_end_(on_end), watchdog_(plan.stall) {
    try {
      folder_.emplace(describe_job(plan));
    } catch (const std::exception& error) {  // a job can do without being watched
      fmt::print(stderr, "note: `starling status` will not see this job: {}\n", error.what());
    }
    if (!plan.lab.empty()) {
      lab_.emplace(plan.lab, plan.workers + plan.servers,
                   LabLimits{plan.host_memory_bytes, plan.slow_hosts});
    }
    if (plan.discovery) {
      hosts_.emplace(plan.discovery->most_workers, plan.discovery->cooldown);
      hosts_->set(plan.discovery->found);
    }
  }

  LaunchResult run() {
    for (int signal : kStopSignals) {
      if (!is_ignored(signal)) signals_.add(signal);
    }
    wait_for_signals();
    wait_for_children();
    watch();
    try {
      start_workers();
      if (hosts_) after(kDiscoverEvery, [this] { discover(); });
      if (!plan_.spot_notice.empty()) look_for_notice();
      while (running_ > 0 || starting_ > 0) io_.run_one();
    } catch (...) {
      signal_all(SIGKILL);
      throw;
    }
    hear_the_rest();
    conclude();
    if (keeper_ && is_over_ && result_.exit_code == 0) keeper_->end();
    keeper_.reset();  // writes what is left
    return result_;
  }

 private:
  struct Report {
    std::string message;
    bool peer_lost;
    bool cut_off;
  };
  // What a worker prints, on its way to where we print.
  struct Stream {
    Stream(asio::io_context& io, int pipe, int rank, Outlet& out)
        : from(io, pipe), lines(rank), to(out) {}

    asio::posix::stream_descriptor from;
    PrefixedLines lines;
    Outlet& to;
    std::array<char, 16 << 10> piece;
  };
  struct Worker {
    int rank;
    int local;  // among those of this machine
    bool serves;
    bool is_guest;     // it asks those who are there to be let in
    std::string host;  // where a script says which there are
    pid_t pid;
    std::optional<int> status;  // as waitpid tells it, once it has ended
    std::unique_ptr<asio::posix::stream_descriptor> events;
    asio::streambuf buffer{kMaxEventBytes};
    std::unique_ptr<Stream> out, err;
    bool joined = false;       // it is one of those who can go on without another
    std::string door;          // where it can be asked to let others in
    bool skip_line = false;    // the rest of a line beyond all bounds
    bool told_to_end = false;  // by us, so that its end is not its fault
    bool left = false;         // the others go on without it, as it wanted
    bool saves = false;        // it is writing its model, which it may finish
    bool end_told = false;
    std::optional<Report> error;  // what it said was wrong
  };

  void start_workers() {
    TcpLoop sockets;
    std::optional<asio::ip::tcp::acceptor> listener;
    rendezvous_ = plan_.rendezvous;
    if (!plan_.guest_of.empty()) {
      rendezvous_ = plan_.guest_of.substr(0, plan_.guest_of.find(','));
    } else if (lab_) {
      rendezvous_ = fmt::format("{}:{}", lab_->lab().address(0), kLabPort);
    } else if (plan_.machines == 1) {
      listener.emplace(listen_on_loopback(sockets));
      rendezvous_ = fmt::format("127.0.0.1:{}", listener->local_endpoint().port());
    }
    store_ = store_beside(rendezvous_, listener ? free_port(sockets) : 0);
    secret_ = plan_.secret.empty() ? make_secret() : plan_.secret;
    if (!plan_.store.empty()) {
      keeper_.emplace(RosterStore(plan_.store, secret_), plan_.store_start,
                      [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
    }
    if (hosts_) return start_on_hosts(listener->native_handle());
    int local = 0;
    for (const int rank : plan_.ranks_here()) {
      const int open_fd = listener ? listener->native_handle() : plan_.listen_fd;
      const int listen_fd = rank == 0 ? open_fd : -1;
      start_worker({rank, local++, rank >= plan_.all_workers(), listen_fd, plan_.guest_of});
    }
  }

  void start_on_hosts(int listen_fd) {
    int rank = 0;
    for (const auto& [host, slots] : plan_.discovery->found) {
      for (int local = 0; local < slots && rank < plan_.workers; ++local, ++rank) {
        start_worker({rank, local, false, rank == 0 ? listen_fd : -1, "", host});
      }
    }
  }

  WorkerPlace place_of(int rank, int local, const std::string& host) const {
    if (const std::optional<EnginePlace>& at = plan_.place) {
      return {at->rank, at->size, at->local_rank, at->local_size, at->machine, at->machines, host};
    }
    const int local_rank = plan_.mpi ? plan_.mpi->local_rank : local;
    const int local_size = plan_.mpi ? plan_.mpi->local_size : plan_.workers;
    return {rank, plan_.all_workers(), local_rank, local_size, plan_.machine, plan_.machines, host};
  }

  // An engine or mpirun has started one of us for each worker, and may have bound each.
  Cores cores_to_share() const {
    Cores cores = own_cores();
    if (plan_.place && plan_.place->cores > 0) cores.there = plan_.place->cores;
    if (!plan_.place && !plan_.mpi) cores.there = cores.usable;
    return cores;
  }

  struct Start {
    int rank, local;
    bool serves;
    int listen_fd = -1;
    std::string guest_of = {}, host = {};
  };

  void start_worker(const Start& start) {
    const auto& [rank, local, serves, listen_fd, guest_of, host] = start;
    const Pipe events = make_pipe(), out = make_pipe(), err = make_pipe();
    const WorkerPlace place = place_of(rank, local, host);
    std::vector<std::string> environment = {
        // More may come than began; a guest finds out which it is when it is let in.
        fmt::format("{}={}", kRankVariable, rank % (plan_.all_workers() + plan_.servers)),
        fmt::format("{}={}", kSizeVariable, plan_.all_workers() + plan_.servers),
        fmt::format("{}={}", kLocalSizeVariable, place.local_size),
        fmt::format("{}={}", kRendezvousVariable, rendezvous_),
        fmt::format("{}={}", kGuestVariable, guest_of),
        fmt::format("{}={}", kSecretVariable, secret_),
        fmt::format("{}={}", kEventsVariable, events.write_end),
        fmt::format("{}={}", kTimeoutVariable, plan_.timeout.count()),
        fmt::format("{}={}", kTlsVariable, plan_.tls),
        fmt::format("{}={}", kCertificatesVariable, plan_.certificates),
        fmt::format("{}={}", kNetworkVariable, plan_.network),
        fmt::format("{}={}", kSettingsVariable, plan_.settings),
    };
    environment.insert(environment.end(), plan_.exports.begin(), plan_.exports.end());
    if (!serves) {
      for (std::string& each : variables_of_others(place, store_)) {
        environment.push_back(std::move(each));
      }
    }
    // Workers that each start a thread a core stand in each other's way.
    if (std::getenv("OMP_NUM_THREADS") == nullptr) {
      environment.push_back(
          fmt::format("OMP_NUM_THREADS={}", threads_of_worker(cores_to_share(), place.local_size)));
    }
    if (kernels_.must_be_set) {
      environment.push_back(fmt::format("{}={}", kBlasKernelsVariable, kernels_.name));
    }
    if (plan_.mpi) {
      environment.push_back(
          fmt::format("{}={}", kTransportVariable, starling::name_of(Transport::mpi)));
    }
    if (const std::string board = board_of(rank); !board.empty()) {
      environment.push_back(fmt::format("{}={}", kBoardVariable, board));
    }
    if (lab_) environment.push_back(fmt::format("{}={}", kInterfaceVariable, Lab::kInterface));
    if (listen_fd >= 0) environment.push_back(fmt::format("{}={}", kListenVariable, listen_fd));
    if (!plan_.timeline_folder.empty()) {
      environment.push_back(fmt::format("{}={}", kTimelineVariable, plan_.timeline_folder));
    }
    if (!plan_.checkpoints.empty()) {
      environment.push_back(fmt::format("{}={}", kCheckpointsVariable, plan_.checkpoints));
    }
    // A guest goes on from what those who are there have.
    if (!plan_.resume.empty() && guest_of.empty()) {
      environment.push_back(fmt::format("{}={}", kResumeVariable, plan_.resume));
    }

    const pid_t launcher = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) {
      const std::string why = ::strerror(errno);
      for (const Pipe& pipe : {events, out, err}) {
        ::close(pipe.read_end);
        ::close(pipe.write_end);
      }
      throw Error(fmt::format("cannot start worker {}: {}", rank, why));
    }
    if (pid == 0) {
      become_worker(serves ? plan_.server_command : plan_.command, environment, events.write_end,
                    out.write_end, err.write_end, listen_fd, lab_ ? &lab_->lab() : nullptr, rank,
                    launcher);
    }
    ::setpgid(pid, pid);  // here too: whoever is first
    guardian_.begins(pid);
    for (const Pipe& pipe : {events, out, err}) ::close(pipe.write_end);
    auto& worker = *workers_.emplace_back(std::make_unique<Worker>());
    worker.rank = rank;
    worker.local = local;
    worker.serves = serves;
    worker.is_guest = !guest_of.empty();
    worker.host = host;
    worker.pid = pid;
    if (plan_.on_start) plan_.on_start(rank, pid);
    worker.events = std::make_unique<asio::posix::stream_descriptor>(io_, events.read_end);
    worker.out = std::make_unique<Stream>(io_, out.read_end, rank, out_);
    worker.err = std::make_unique<Stream>(io_, err.read_end, rank, err_);
    ++running_;
    open_pipes_ += 3;
    read_events(worker);
    relay(worker, *worker.out);
    relay(worker, *worker.err);
  }

  // Nothing if there is no place for it: a worker does as well without being watched.
  std::string board_of(int rank) {
    if (!folder_) return "";
    try {
      return folder_->add_board(rank).string();
    } catch (const std::exception& error) {
      err_.put(
          fmt::format("note: `starling status` will not see worker {}: {}\n", rank, error.what()));
      return "";
    }
  }

  void tell_doors() {
    if (!plan_.elastic) return;
    const std::vector<std::string> doors = doors_here(nullptr);
    if (keeper_) keeper_->set_doors(doors);
    if (!folder_) return;
    std::vector<JobDoor> known;
    for (const std::string& door : doors) known.push_back({door, secret_, plan_.tls});
    folder_->set_doors(known);
  }
  void take_roster(const nlohmann::json& event) {
    if (!event.contains("doors") || !event.contains("generation")) return;
    try {
      const auto generation = event["generation"].get<std::uint64_t>();
      if (generation <= generation_) return;  // all workers tell of each
      roster_ = event["doors"].get<std::vector<std::string>>();
      generation_ = generation;
      if (keeper_) keeper_->set_roster(generation_, roster_);
    } catch (const nlohmann::json::exception&) {  // the program may be anybody's
    }
  }

  // One that has crashed, where others are left that may let it in again. Who was not let in may have
  // been refused, unless it was killed.
  bool starts_again(const Worker& worker) const {
    if (!plan_.elastic || restarts_ >= plan_.restarts || !others_need(worker)) return false;
    if (hosts_) return false;  // whether it is depends on where it was
    return worker.joined || (worker.is_guest && WIFSIGNALED(*worker.status));
  }
  bool others_need(const Worker& worker) const {
    return !worker.told_to_end && !is_over_ && !goes_soon_ && !doors_of_others(&worker).empty();
  }
  void start_again(const Worker& worker) {
    ++restarts_;
    if (worker.joined) return start_in_place_of(worker);
    // What has killed it may do so again.
    ++starting_;
    after(kBeforeAnotherStart * (1 << std::min(restarts_in_vain_++, 5)), [this, &worker] {
      --starting_;
      if (!result_.interrupted && others_need(worker)) start_in_place_of(worker);
    });
  }
  void start_in_place_of(const Worker& worker) {
    start_beside_others({worker.rank, worker.local, worker.serves, -1,
                         fmt::format("{}", fmt::join(doors_of_others(&worker), ","))});
  }
  // Who cannot be started now is missed; the others are not to end for that.
  void start_beside_others(const Start& start) {
    try {
      start_worker(start);
    } catch (const Error& error) {
      err_.put(fmt::format("note: {}\n", error.what()));
    }
  }
  std::vector<std::string> doors_here(const Worker* besides) const {
    std::vector<std::string> doors;
    for (const auto& other : workers_) {
      if (other.get() != besides && !other->status && !other->door.empty()) {
        doors.push_back(other->door);
      }
    }
    return doors;
  }
  // And those on other machines, as far as it is known.
  std::vector<std::string> doors_of_others(const Worker* worker) const {
    std::vector<std::string> doors = doors_here(worker);
    for (const std::string& door : roster_) {
      const auto is_its = [&](const auto& each) { return each->door == door; };
      if (std::ranges::none_of(workers_, is_its)) doors.push_back(door);
    }
    return doors;
  }

  void discover() {
    run_host_script(io_, plan_.discovery->script, [this](const ScriptEnd& end) {
      std::string error = end.error;
      try {
        if (error.empty()) {
          const auto found = parse_host_slots(end.printed, plan_.discovery->usual_slots);
          // With the last worker the training would be gone.
          if (found.empty()) throw Error("it names no host");
          hosts_->set(found);
        }
      } catch (const Error& wrong) {
        error = wrong.what();
      }
      // It may be right again the next time.
      if (!error.empty() && error != last_discovery_error_) {
        err_.put(fmt::format("note: the host discovery script: {}\n", error));
      }
      last_discovery_error_ = error;
      adjust_workers();
      after(kDiscoverEvery, [this] { discover(); });
    });
  }

  // Starts workers where there are too few, and asks some to leave where there are too many.
  void adjust_workers() {
    if (!all_have_joined_ || result_.interrupted || is_over_ || first_to_miss_ != nullptr) return;
    if (goes_soon_) return;
    std::map<std::string, int> missing = hosts_->wanted(std::chrono::steady_clock::now());
    for (const auto& worker : workers_) {
      if (worker->status || worker->told_to_end) continue;
      if (missing[worker->host]-- > 0) continue;
      ask_to_leave(*worker);
    }
    for (const auto& [host, count] : missing) {
      for (int i = 0; i < count; ++i) start_guest(host);
    }
  }
  void ask_to_leave(Worker& worker) {
    signal_to(worker, SIGTERM);
    after(plan_.timeout, [&worker] { signal_to(worker, SIGKILL); });
  }

  void look_for_notice() {
    run_host_script(io_, plan_.spot_notice, [this](const ScriptEnd& end) {
      if (end.error.empty()) return leave_machine();
      // That it says no is no trouble; that it says nothing is.
      if (!end.has_said && !std::exchange(notice_failed_, true)) {
        err_.put(fmt::format("note: the spot notice {}: {}\n", plan_.spot_notice, end.error));
      }
      after(kNoticeEvery, [this] { look_for_notice(); });
    });
  }
  // Servers cannot leave: theirs is a loss like any other, when the machine goes.
  void leave_machine() {
    if (result_.interrupted || is_over_) return;
    goes_soon_ = true;
    err_.put("note: this machine goes soon, and its workers leave the training\n");
    for (const auto& worker : workers_) {
      if (!worker->serves && !worker->status) ask_to_leave(*worker);
    }
  }

  void start_guest(const std::string& host) {
    const std::vector<std::string> doors = doors_of_others(nullptr);
    if (doors.empty() || failures_ > plan_.restarts) return;
    const auto lowest_free = [&](auto number_of) {
      int number = 0;
      while (std::ranges::any_of(workers_, [&](const auto& worker) {
        return !worker->status && number_of(*worker) == number;
      })) {
        ++number;
      }
      return number;
    };
    const int rank = lowest_free([](const Worker& worker) { return worker.rank; });
    const int local =
        lowest_free([&](const Worker& worker) { return worker.host == host ? worker.local : -1; });
    start_beside_others({rank, local, false, -1, fmt::format("{}", fmt::join(doors, ",")), host});
  }

  // A host on which a worker fails may be to blame.
  void note_failure(const Worker& worker) {
    ++failures_;
    if (!hosts_->note_failure(worker.host, std::chrono::steady_clock::now())) return;
    err_.put(fmt::format("note: {} is blacklisted, as a worker failed there\n", worker.host));
    adjust_workers();
  }

  void check_resets(const nlohmann::json& event) {
    const auto generation = event.find("generation");
    if (!plan_.reset_limit || generation == event.end() || !generation->is_number_integer()) return;
    if (generation->get<std::int64_t>() - 1 <= *plan_.reset_limit || too_many_resets_) return;
    too_many_resets_ = true;
    is_over_ = true;
    stop();
  }

  [[noreturn]] static void become_worker(const std::vector<std::string>& command,
                                         const std::vector<std::string>& environment, int events_fd,
                                         int out, int err, int listen_fd, const Lab* lab, int rank,
                                         pid_t launcher) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launcher) ::_exit(1);  // it died before we asked to be told
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int signal : kStopSignals) {
      if (!is_ignored(signal)) ::signal(signal, SIG_DFL);
    }
    for (int signal : {SIGCHLD, SIGPIPE}) ::signal(signal, SIG_DFL);
    ::signal(SIGUSR1, SIG_IGN);  // Slurm sends it to all of a step, and means the launcher
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    // A socket or pipe of the launcher or of another worker must not stay open here.
    ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    for (int fd : {events_fd, listen_fd, mpirun_fd()}) {
      if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
    }
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    for (const std::string& variable : environment) ::putenv(const_cast<char*>(variable.c_str()));
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    if (lab == nullptr || enter_host(*lab, rank)) {
      ::execvp(arguments[0], arguments.data());
    }
    Job job;
    job.events_fd = events_fd;
    report_error(job, Error(fmt::format("cannot run {}: {}", command[0], ::strerror(errno))));
    ::_exit(127);
  }

  // MPICH's mpirun talks to its processes through one that they have from it; -1 if there is none.
  static int mpirun_fd() {
    const char* number = std::getenv("PMI_FD");
    return number == nullptr ? -1 : std::atoi(number);
  }

  void read_events(Worker& worker) {
    asio::async_read_until(*worker.events, worker.buffer, '\n',
                           [this, &worker](const asio::error_code& error, std::size_t) {
                             if (error == asio::error::not_found) {  // the buffer is full
                               worker.buffer.consume(worker.buffer.size());
                               worker.skip_line = true;
                               return read_events(worker);
                             }
                             if (error) {  // its end
                               worker.events->close();
                               --open_pipes_;
                               note_end_of_training(worker);
                               return tell_end(worker);
                             }
                             std::istream lines(&worker.buffer);
                             std::string line;
                             std::getline(lines, line);
                             if (!std::exchange(worker.skip_line, false)) take_event(worker, line);
                             read_events(worker);
                           });
  }

  void relay(Worker& worker, Stream& stream) {
    stream.from.async_read_some(
        asio::buffer(stream.piece),
        [this, &worker, &stream](const asio::error_code& error, std::size_t got) {
          if (error) {  // its end
            stream.to.put(stream.lines.rest());
            stream.from.close();
            --open_pipes_;
            return tell_end(worker);
          }
          stream.to.put(stream.lines.take({stream.piece.data(), got}));
          if (!stream.to.busy()) return relay(worker, stream);
          // Whoever prints more than is read has to wait, as it would have to without us.
          stream.to.when_idle([this, &worker, &stream] { relay(worker, stream); });
        });
  }

  // What lies in the pipes when all have ended. Somebody outside of the workers' groups may hold one
  // open; do not wait for that. But do wait for whoever reads what we print.
  void hear_the_rest() {
    const auto printing = [this] { return out_.busy() || err_.busy(); };
    bool patient = true;
    std::function<void()> lose_patience = [&] {
      if (printing() && !result_.interrupted) return after(kTimeToEnd, lose_patience);
      patient = false;
    };
    after(kTimeToEnd, lose_patience);
    while (patient && (printing() || open_pipes_ > 0)) io_.run_one();
  }

  void take_event(Worker& worker, const std::string& line) {
    // The program may be anybody's, so its lines may be anything.
    const auto event = nlohmann::json::parse(line, nullptr, false);
    const bool has_kind = event.is_object() && event.contains("event");
    if (has_kind && event["event"] == "joined") {
      worker.joined = true;
      restarts_in_vain_ = 0;
      if (event.contains("door") && event["door"].is_string()) worker.door = event["door"];
      tell_doors();
      all_have_joined_ = all_have_joined_ || std::ranges::all_of(workers_, [](const auto& each) {
                           return each->serves || each->joined;
                         });
    }
    if (has_kind && event["event"] == "roster") return take_roster(event);
    if (has_kind && event["event"] == "left") worker.left = true;
    if (has_kind && event["event"] == "generation") check_resets(event);
    if (has_kind && event["event"] == "saving") worker.saves = true;
    if (!has_kind || event["event"] != "error") return tell(worker.rank, line);
    if (worker.error || !event.contains("message") || !event["message"].is_string()) return;
    // Some, libtorch's among them, tell where they come from in many lines.
    const std::string message = event["message"];
    worker.error = {message.substr(0, message.find('\n')),
                    event.contains("peer_lost") && event["peer_lost"] == true,
                    event.contains("cut_off") && event["cut_off"] == true};
  }

  void tell(int rank, const std::string& line) {
    if (!plan_.prints_events) return on_event_(rank, line);
    out_.put(event_line({{"rank", rank}, {"event", line}}));
  }

  static nlohmann::json describe_job(const LaunchPlan& plan) {
    return {{"command", plan.command},      {"run", plan.run},         {"workers", plan.workers},
            {"servers", plan.servers},      {"machine", plan.machine}, {"machines", plan.machines},
            {"started", std::time(nullptr)}};
  }
  void watch() {
    if (!folder_) return;
    for (const std::string& line :
         watchdog_.look(read_boards(folder_->path()), std::chrono::steady_clock::now())) {
      err_.put(line + "\n");
    }
    after(kLookEvery, [this] { watch(); });
  }

  void wait_for_signals() {
    signals_.async_wait([this](const asio::error_code& error, int signal) {
      if (error) return;
      if (!result_.interrupted) {
        interrupt(signal);
      } else if (std::chrono::steady_clock::now() - interrupted_at_ > kOneAndTheSame) {
        signal_all(SIGKILL);  // again means now
      }
      wait_for_signals();
    });
  }

  void wait_for_children() {
    children_.async_wait([this](const asio::error_code& error, int) {
      if (error) return;
      const std::size_t known = workers_.size();  // the end of one may be the start of another
      for (std::size_t i = 0; i < known; ++i) {
        if (!workers_[i]->status) look_after(*workers_[i]);
      }
      wait_for_children();
    });
  }

  // As long as nobody has waited for an ended worker, its number is not given to another process: its
  // group, with the children that it may have left, can be killed without hitting anybody else.
  void look_after(Worker& worker) {
    siginfo_t end{};
    const auto id = static_cast<id_t>(worker.pid);
    if (::waitid(P_PID, id, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid == 0) return;
    ::kill(-worker.pid, SIGKILL);
    guardian_.ended(worker.pid);
    int status = 0;
    ::waitpid(worker.pid, &status, 0);
    ended(worker, status);
  }

  void ended(Worker& worker, int status) {
    worker.status = status;
    ended_.push_back(&worker);
    --running_;
    tell_end(worker);
    tell_doors();
    if (&worker == asked_first_) stop();
    if (result_.interrupted) return;
    note_end_of_training(worker);
    if (status == 0 || (hosts_ && worker.told_to_end)) return;
    const bool again = starts_again(worker);
    const bool go_on = again || others_can_go_on_without(worker);
    if (again) start_again(worker);
    if (go_on && hosts_) note_failure(worker);
    if (first_to_fail_ == nullptr) first_to_fail_ = &worker;
    if (first_to_miss_ != nullptr || go_on) return;
    first_to_miss_ = &worker;
    const bool cut_off = worker.error && worker.error->cut_off;
    after(cut_off ? kTimeToNoticeACut : kTimeToNotice, [this] { stop_who_cannot_go_on(); });
  }
  // Where one has all the links that it needs, the others have them, too, and may only be slow to say so;
  // who lacks one gives up by itself.
  void stop_who_cannot_go_on() {
    if (others_can_go_on_without(*first_to_miss_)) {
      first_to_miss_ = nullptr;
    } else if (can_be_lost(*first_to_miss_) &&
               std::ranges::any_of(workers_, [](const auto& each) { return each->joined; })) {
      after(kTimeToNotice, [this] { stop_who_cannot_go_on(); });
    } else {
      stop();
    }
  }

  // Once it has ended, and has said whether it has only left. Then the training is over: who has not been
  // let in by now has come too late.
  void note_end_of_training(const Worker& worker) {
    if (!plan_.elastic || !worker.status || worker.events->is_open() || result_.interrupted) return;
    if (*worker.status == 0 && worker.joined && !worker.left && !worker.serves) {
      is_over_ = true;
      for (const auto& other : workers_) {
        if (!other->joined) signal_to(*other, SIGTERM);
      }
    }
    if (is_over_) end_servers();
  }
  // One that has missed the end of the last workers would wait for others.
  void end_servers() {
    const bool none_works = std::ranges::all_of(
        workers_, [](const auto& each) { return each->serves || each->status; });
    if (!none_works || std::exchange(servers_end_, true)) return;
    after(kTimeToEnd, [this] {
      for (const auto& worker : workers_) {
        if (worker->serves) signal_to(*worker, SIGTERM);
      }
    });
  }

  // Once it has ended and all that it had to say of that has been read.
  void tell_end(Worker& worker) {
    if (!worker.status || worker.end_told) return;
    if (worker.events->is_open() || worker.err->from.is_open()) return;
    worker.end_told = true;
    const bool well = *worker.status == 0 || worker.told_to_end;
    const std::string reason = well ? "" : describe(worker);
    if (on_end_) on_end_(worker.rank, reason);
    if (plan_.prints_events) out_.put(event_line({{"rank", worker.rank}, {"end", reason}}));
  }

  // Before all have come together, nobody can do without anybody.
  bool others_can_go_on_without(const Worker& lost) const {
    if (plan_.elastic && all_have_joined_) return true;
    return can_be_lost(lost) && std::ranges::all_of(workers_, [](const auto& worker) {
             return worker->serves || worker->joined;
           });
  }
  bool can_be_lost(const Worker& worker) const {
    return plan_.survives_losses || plan_.elastic || (worker.serves && plan_.survives_lost_servers);
  }

  // Workers that exchange need each other to come to the end of a step, where a model is whole. So
  // one is asked first, and the others when it has left its model and is gone, or does not hear.
  void interrupt(int signal) {
    interrupted_at_ = std::chrono::steady_clock::now();
    result_.interrupted = true;
    result_.exit_code = 128 + signal;  // as a shell tells it
    result_.error =
        fmt::format("interrupted by {}",
                    signal == SIGINT ? "Ctrl-C" : fmt::format("SIG{}", ::sigabbrev_np(signal)));
    const auto lowest =
        std::ranges::find_if(workers_, [](const auto& each) { return !each->status; });
    if (lowest == workers_.end()) return;
    if (!(*lowest)->joined) return stop();  // it has nothing to end
    asked_first_ = lowest->get();
    signal_to(*asked_first_, plan_.elastic ? SIGINT : SIGTERM);
    after(kTimeForAStep, [this] {
      if (!asked_first_->saves) stop();
    });
    after(kTimeForAStep + kTimeToSave, [this] { stop(); });
  }

  void stop() {
    signal_all(SIGTERM);
    after(kTimeToEnd, [this] {
      for (const auto& worker : workers_) {
        if (!worker->saves) signal_to(*worker, SIGKILL);
      }
    });
    after(kTimeToSave, [this] { signal_all(SIGKILL); });
  }

  template <class Action>
  void after(std::chrono::milliseconds delay, Action action) {
    auto timer = std::make_shared<asio::steady_timer>(io_, delay);
    timer->async_wait([timer, action](const asio::error_code& error) {
      if (!error) action();
    });
  }

  void signal_all(int signal) {
    for (const auto& worker : workers_) signal_to(*worker, signal);
  }
  static void signal_to(Worker& worker, int signal) {
    if (worker.status) return;
    worker.told_to_end = true;
    ::kill(-worker.pid, signal);
  }

  std::string name_of(const Worker& worker) const {
    const auto rank = static_cast<std::size_t>(worker.rank);
    const std::string place = rank < plan_.places.size() ? plan_.places[rank] : "";
    return fmt::format("rank {}{}", rank, place.empty() ? "" : fmt::format(" ({})", place));
  }
  std::string describe(const Worker& worker) const {
    if (worker.error) return fmt::format("{}: {}", name_of(worker), worker.error->message);
    const int status = worker.status.value_or(0);
    if (WIFSIGNALED(status)) {
      return fmt::format("{} was killed by signal {} ({})", name_of(worker), WTERMSIG(status),
                         ::strsignal(WTERMSIG(status)));
    }
    const std::string& said = worker.err->lines.last();
    return fmt::format("{} exited with status {}{}", name_of(worker), WEXITSTATUS(status),
                       said.empty() ? "" : fmt::format(", and said: {}", said));
  }

  // Whose fault it was: the first to end in trouble of its own, rather than one that lost another.
  void conclude() {
    if (too_many_resets_) {
      result_.exit_code = 1;
      result_.error = fmt::format(
          "workers came or went more often than the reset limit of {} allows", *plan_.reset_limit);
      return;
    }
    if (result_.interrupted) return;
    const bool some_ended_well = std::ranges::any_of(workers_, [](const auto& worker) {
      return !worker->serves && *worker->status == 0 && !worker->left;
    });
    const bool some_left = std::ranges::any_of(
        workers_, [](const auto& worker) { return !worker->serves && worker->left; });
    const bool others_go_on = !doors_of_others(nullptr).empty();
    result_.left = some_left && !some_ended_well && others_go_on;
    if (first_to_fail_ == nullptr) return;
    const bool none_is_missed = std::ranges::all_of(workers_, [this](const auto& worker) {
      return *worker->status == 0 || can_be_lost(*worker);
    });
    if (none_is_missed && (some_ended_well || result_.left)) {
      for (const auto& worker : workers_) {
        const bool was_lost = *worker->status != 0 && !worker->told_to_end;
        if (was_lost) result_.losses.push_back(describe(*worker));
      }
      return;
    }
    const auto in_own_trouble = [](const Worker* worker) {
      if (*worker->status == 0) return false;
      return worker->error ? !worker->error->peer_lost : !worker->told_to_end;
    };
    const auto first = std::ranges::find_if(ended_, in_own_trouble);
    const Worker* culprit = first == ended_.end() ? first_to_fail_ : *first;
    result_.lost_others = first == ended_.end();
    result_.exit_code = 1;
    result_.error = describe(*culprit);
    if (culprit->error == std::nullopt && first_to_fail_->error && culprit != first_to_fail_) {
      result_.error += "; " + describe(*first_to_fail_);
    } else {
      for (const auto& worker : workers_) {
        if (worker.get() != culprit && worker->error && worker->error->peer_lost) {
          result_.error += "; " + describe(*worker);
          break;
        }
      }
    }
  }

  const LaunchPlan& plan_;
  std::optional<LabStay> lab_;  // the last to go
  const WorkerEvent& on_event_;
  const WorkerEnd& on_end_;
  Guardian guardian_;  // before anything that it should not inherit
  asio::io_context io_{1};
  asio::signal_set signals_{io_};
  asio::signal_set children_{io_, SIGCHLD};
  Outlet out_{io_, STDOUT_FILENO}, err_{io_, STDERR_FILENO};
  std::optional<JobFolder> folder_;
  Watchdog watchdog_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::string rendezvous_, secret_;
  StorePlace store_;
  std::optional<StoreKeeper> keeper_;
  std::vector<std::string> roster_;  // the doors of all, as of the newest generation known
  std::uint64_t generation_ = 0;
  BlasKernels kernels_ = blas_kernels();
  bool all_have_joined_ = false;
  std::optional<HostBook> hosts_;
  std::string last_discovery_error_;
  int restarts_ = 0;
  int restarts_in_vain_ = 0;  // since the last of them that was let in
  int starting_ = 0;          // who are started again in a moment
  int failures_ = 0;
  bool is_over_ = false;  // nobody is to join any more
  bool servers_end_ = false;
  bool too_many_resets_ = false;
  bool goes_soon_ = false;  // this machine
  bool notice_failed_ = false;
  int running_ = 0;
  int open_pipes_ = 0;
  std::vector<const Worker*> ended_;  // in that order
  Worker* first_to_fail_ = nullptr;
  Worker* first_to_miss_ = nullptr;  // of those that failed: without it nobody goes on
  Worker* asked_first_ = nullptr;    // to stop
  std::chrono::steady_clock::time_point interrupted_at_;
  LaunchResult result_;
};

}  // namespace

LaunchResult launch(const LaunchPlan& plan, const WorkerEvent& on_event, const WorkerEnd& on_end) {
  if (plan.command.empty()) throw Error("there is no program to launch", "give one after --");
  if (!plan.spot_notice.empty() && !plan.elastic) {
    throw Error("--spot-notice is for workers that come and go", "give --elastic too");
  }
  if (!plan.hosts.empty()) return launch_on_hosts(plan, on_event, on_end);
  return Launcher(plan, on_event, on_end).run();
}

int LaunchPlan::all_workers() const {
  return shares.empty() ? machines * workers : std::accumulate(shares.begin(), shares.end(), 0);
}

int LaunchPlan::first_worker() const {
  return shares.empty() ? machine * workers
                        : std::accumulate(shares.begin(), shares.begin() + machine, 0);
}

std::vector<int> LaunchPlan::ranks_here() const {
  if (mpi) return {mpi->rank};
  std::vector<int> ranks(static_cast<std::size_t>(workers));
  std::iota(ranks.begin(), ranks.end(), first_worker());
  for (int server = machine; server < servers; server += machines) {
    ranks.push_back(all_workers() + server);
  }
  return ranks;
}

std::string make_secret() {
  std::array<unsigned char, 16> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1)
    throw Error("the system has no randomness to offer");
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace starling

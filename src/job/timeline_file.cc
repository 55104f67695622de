#include "job/timeline_file.h"

#include <fmt/format.h>
#include <string.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/whole_file.h"

namespace starling {

namespace {

using nlohmann::json;
using Kind = Timeline::Kind;

constexpr std::string_view kPartPrefix = "timeline-part-";

// Workers' clocks begin when they like. What they share is the time of day.
double microseconds_of_day(Time time, const Clock& clock) {
  const auto day = std::chrono::system_clock::now().time_since_epoch();
  const auto age = clock.now() - time;
  return std::chrono::duration<double, std::micro>(day - age).count();
}

json row_name(const char* what, int rank, std::size_t row, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", row}, {"args", {{"name", name}}}};
}

}  // namespace

TimelineFile::TimelineFile(const Job& job, Comm& comm, std::uint64_t generation)
    : folder_(job.timeline), comm_(comm), generation_(generation) {
  if (!folder_.empty()) comm.timeline().switch_on();
}

// One JSON object a line, in the format that Chrome's tracing began with.
TimelineFile::~TimelineFile() {
  if (folder_.empty()) return;
  const int rank = comm_.rank();
  std::ofstream file(folder_ / fmt::format("{}{}.{}", kPartPrefix, rank, generation_));
  file << row_name("process_name", rank, 0, fmt::format("rank {}", rank)) << "\n"
       << row_name("thread_name", rank, 0, "compute, wait, encode") << "\n";
  const double origin = microseconds_of_day(Time(0), comm_.loop());
  const auto at = [&](Time time) {
    return origin + std::chrono::duration<double, std::micro>(time).count();
  };
  std::uint64_t id = 0;
  for (const Timeline::Span& span : comm_.timeline().spans()) {
    const std::string_view kind = Timeline::kKindNames[static_cast<std::size_t>(span.kind)];
    const bool message = span.kind == Kind::send || span.kind == Kind::receive;
    if (!message) {
      file << json{{"ph", "X"},
                   {"name", span.name},
                   {"cat", kind},
                   {"pid", rank},
                   {"tid", 0},
                   {"ts", at(span.begin)},
                   {"dur",
                    std::chrono::duration<double, std::micro>(span.end - span.begin).count()}}
           << "\n";
      continue;
    }
    // Several are under way at once, so they are asynchronous events with a beginning and an end.
    const std::string name =
        fmt::format("{} {}", span.kind == Kind::send ? "send to" : "receive from", span.peer);
    json event = {{"ph", "b"},   {"name", name}, {"cat", kind},
                  {"pid", rank}, {"tid", 0},     {"id", fmt::format("{}.{}", rank, ++id)}};
    event["ts"] = at(span.begin);
    event["args"] = {{"what", span.name}, {"bytes", span.bytes}};
    file << event << "\n";
    event["ph"] = "e";
    event["ts"] = at(span.end);
    event.erase("args");
    file << event << "\n";
  }
  if (comm_.timeline().left_out() > 0) file << json{{"left_out", comm_.timeline().left_out()}};
  file << std::flush;
  if (!file) spdlog::error("this rank's part of the timeline is lost: {}", ::strerror(errno));
}

std::uint64_t join_timeline(const std::filesystem::path& folder) {
  std::uint64_t left_out = 0;
  std::vector<std::filesystem::path> parts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kPartPrefix)) parts.push_back(entry.path());
  }
  WholeFile whole(folder / "timeline.json");
  constexpr std::size_t kEnoughToWrite = 1 << 20;
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* between = "\n";
  for (const std::filesystem::path& path : parts) {
    std::ifstream part(path);
    for (std::string line; std::getline(part, line);) {
      const json event = json::parse(line, nullptr, false);
      if (!event.is_object()) continue;  // the last one of a worker that was killed
      if (event.contains("left_out")) {
        const json& count = event["left_out"];
        if (count.is_number_unsigned()) left_out += count.get<std::uint64_t>();
        continue;
      }
      text += std::exchange(between, ",\n") + line;
      if (text.size() > kEnoughToWrite) whole.write(std::exchange(text, ""));
    }
  }
  whole.write(text + "\n]}\n");
  whole.commit();
  for (const std::filesystem::path& path : parts) std::filesystem::remove(path);
  return left_out;
}

}  // namespace starling

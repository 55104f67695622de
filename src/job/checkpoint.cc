#include "job/checkpoint.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/whole_file.h"
#include "job/worker_events.h"
#include "roster/roster.h"

namespace starling {

using nlohmann::json;

namespace {

constexpr std::string_view kMagic = "starling-state-1";
constexpr std::size_t kDigestBytes = 32;
constexpr std::uint64_t kMostManifestBytes = 16 << 20;
constexpr const char* kManifestSuffix = ".json";
constexpr const char* kStateSuffix = ".state";

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(ConstBytes bytes) { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }
  std::string hexadecimal() {
    std::array<unsigned char, kDigestBytes> digest{};
    EVP_DigestFinal_ex(context_, digest.data(), nullptr);
    std::string text;
    for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
    return text;
  }

 private:
  EVP_MD_CTX* context_;
};

std::string state_file_name(std::uint64_t step, int rank) {
  return fmt::format("step-{}-rank-{}{}", step, rank, kStateSuffix);
}

}  // namespace

std::optional<StateFile> state_file_named(const std::string& file) {
  StateFile parts;
  parts.name = file;
  std::string_view name = file;
  const auto skip = [&](std::string_view text) {
    const bool fits = name.starts_with(text);
    if (fits) name.remove_prefix(text.size());
    return fits;
  };
  const auto number = [&](auto& into) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), into);
    if (error != std::errc()) return false;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    return into >= 0;
  };
  if (!skip("step-") || !number(parts.step) || !skip("-rank-") || !number(parts.rank) ||
      name != kStateSuffix) {
    return std::nullopt;
  }
  return parts;
}

StateFile write_state_file(const std::filesystem::path& folder, int rank, std::uint64_t step,
                           const Snapshot& snapshot) {
  StateFile written{rank, step, state_file_name(step, rank), 0, ""};
  WholeFile file(folder / written.name);
  Sha256 hash;
  const auto write = [&](ConstBytes bytes) {
    file.write(bytes);
    hash.add(bytes);
    written.bytes += bytes.size();
  };
  write(bytes_of(std::span(kMagic)));
  encode(snapshot, write);
  written.sha256 = hash.hexadecimal();
  file.commit();
  return written;
}

Snapshot read_state_file(const std::filesystem::path& folder, const StateFile& file) {
  const std::filesystem::path path = folder / file.name;
  std::ifstream stream(path, std::ios::binary);
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(path, error);
  if (!stream || error) throw Error(fmt::format("{} is not there", path.string()));
  if (bytes != file.bytes || bytes < kMagic.size()) {
    throw Error(
        fmt::format("{} has {} bytes, and {} were written", path.string(), bytes, file.bytes));
  }
  std::vector<std::byte> contents(bytes);
  stream.read(reinterpret_cast<char*>(contents.data()), static_cast<std::streamsize>(bytes));
  Sha256 hash;
  hash.add(contents);
  if (!stream || hash.hexadecimal() != file.sha256) {
    throw Error(fmt::format("{} is not what was written: its hash is another", path.string()));
  }
  if (std::memcmp(contents.data(), kMagic.data(), kMagic.size()) != 0) {
    throw Error(fmt::format("{} is no state of this version", path.string()));
  }
  try {
    return decode_snapshot(ConstBytes(contents).subspan(kMagic.size()));
  } catch (const Error& damage) {
    throw Error(fmt::format("{}: {}", path.string(), damage.what()));
  }
}

std::uint64_t Manifest::step() const {
  std::uint64_t largest = 0;
  for (const StateFile& file : files) largest = std::max(largest, file.step);
  return largest;
}

const StateFile* Manifest::find(int rank) const {
  const auto found = std::ranges::find(files, rank, &StateFile::rank);
  return found == files.end() ? nullptr : &*found;
}

std::string manifest_name(std::uint64_t number, int machine, int machines) {
  return machines == 1 ? fmt::format("{:010}{}", number, kManifestSuffix)
                       : fmt::format("{:010}-machine-{}{}", number, machine, kManifestSuffix);
}

json as_json(const StateFile& file) {
  return {{"rank", file.rank},
          {"step", file.step},
          {"file", file.name},
          {"bytes", file.bytes},
          {"sha256", file.sha256}};
}

StateFile state_file_in(const json& said) {
  StateFile file;
  try {
    file = {said.at("rank").get<int>(), said.at("step").get<std::uint64_t>(),
            said.at("file").get<std::string>(), said.at("bytes").get<std::uint64_t>(),
            said.at("sha256").get<std::string>()};
  } catch (const json::exception&) {
    throw Error("what was said of a state file is incomplete");
  }
  if (file.name != state_file_name(file.step, file.rank)) {
    throw Error(fmt::format("the file of rank {} after step {} is called something else", file.rank,
                            file.step));
  }
  return file;
}

std::string as_text(const Manifest& manifest) {
  json files = json::array();
  for (const StateFile& file : manifest.files) files.push_back(as_json(file));
  return json{{"version", 1},
              {"number", manifest.number},
              {"workers", manifest.workers},
              {"servers", manifest.servers},
              {"files", files}}
             .dump(2) +
         "\n";
}

Manifest read_manifest(const std::filesystem::path& file) {
  const auto refuse = [&](const std::string& why) -> Error {
    return Error(fmt::format("{} is no list of a checkpoint: {}", file.string(), why));
  };
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(file, error);
  std::ifstream stream(file);
  if (error || !stream) throw Error(fmt::format("cannot read {}", file.string()));
  if (bytes > kMostManifestBytes) throw refuse("it is too long");
  const json text = json::parse(stream, nullptr, false);
  Manifest manifest;
  const auto is_possible = [](int count) {
    return count >= 0 && count <= static_cast<int>(kMostMembers);
  };
  try {
    if (text.at("version") != 1) throw refuse("it is of another version");
    manifest.number = text.at("number").get<std::uint64_t>();
    manifest.workers = text.at("workers").get<int>();
    manifest.servers = text.at("servers").get<int>();
    if (manifest.workers < 1 || !is_possible(manifest.workers) || !is_possible(manifest.servers)) {
      throw refuse("it is of nobody, or of too many");
    }
    for (const json& each : text.at("files")) {
      manifest.files.push_back(state_file_in(each));
      const int rank = manifest.files.back().rank;
      if (rank < 0 || rank >= manifest.workers + manifest.servers ||
          manifest.find(rank) != &manifest.files.back()) {
        throw refuse(fmt::format("it has a file of rank {} that cannot be", rank));
      }
    }
  } catch (const json::exception&) {
    throw refuse("something is missing");
  }
  return manifest;
}

std::vector<std::filesystem::path> manifests_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> manifests;
  std::error_code nothing_there;
  for (const auto& entry : std::filesystem::directory_iterator(folder, nothing_there)) {
    if (entry.path().extension() == kManifestSuffix) manifests.push_back(entry.path());
  }
  std::ranges::sort(manifests, std::ranges::greater());  // numbers have as many digits
  return manifests;
}

CheckpointWriter::CheckpointWriter(Job job, std::filesystem::path folder)
    : job_(std::move(job)), folder_(std::move(folder)), thread_([this] { run(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointWriter::write(std::uint64_t step, int rank, std::uint64_t generation,
                             Snapshot snapshot) {
  {
    const std::lock_guard lock(mutex_);
    pending_ = Pending{step, rank, generation, std::move(snapshot)};
  }
  changed_.notify_all();
}

void CheckpointWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return over_ || pending_; });
    if (!pending_) return;
    const Pending taken = std::move(*pending_);
    pending_.reset();
    lock.unlock();
    keep(taken);
    lock.lock();
  }
}

void CheckpointWriter::keep(const Pending& pending) const {
  json event = {
      {"event", "checkpoint"}, {"step", pending.step}, {"generation", pending.generation}};
  try {
    std::filesystem::create_directories(folder_);
    event.update(as_json(write_state_file(folder_, pending.rank, pending.step, pending.snapshot)));
  } catch (const std::exception& error) {  // a full disk should not end a training
    event["error"] = error.what();
  }
  report_event(job_, event);
}

}  // namespace starling

#include "train/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "exchange/collect.h"
#include "net/worker_events.h"
#include "train/batches.h"
#include "train/dist.h"
#include "train/evaluation.h"
#include "train/safetensors.h"
#include "train/synthetic.h"

namespace starling {

namespace {

using nlohmann::json;

double seconds(Time time) { return std::chrono::duration<double>(time).count(); }

Digits load_digits(const Settings& settings) {
  const auto limit = static_cast<std::size_t>(settings.samples);
  if (settings.data == "synthetic") {
    return synthetic_digits(limit > 0 ? limit : 10'000, 2'000, 1);
  }
  Digits digits = load_mnist(settings.data_folder);
  if (limit > 0 && limit < digits.train.count) {
    digits.train.count = limit;
    digits.train.labels.resize(limit);
    digits.train.pixels.resize(limit * digits.train.rows * digits.train.cols);
  }
  return digits;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Settings& settings,
                                                        torch::Tensor parameter) {
  std::vector<torch::Tensor> parameters{std::move(parameter)};
  if (settings.optimizer == "adam") {
    return std::make_unique<torch::optim::Adam>(
        parameters, torch::optim::AdamOptions(settings.lr).weight_decay(settings.weight_decay));
  }
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(settings.lr)
                                                             .momentum(settings.momentum)
                                                             .weight_decay(settings.weight_decay));
}

json by_purpose(const Ledger& ledger, Direction direction) {
  json counts = json::object();
  for (std::size_t i = 0; i < kPurposeNames.size(); ++i) {
    const ByteCount bytes = ledger.total(direction, static_cast<Purpose>(i));
    counts[std::string(kPurposeNames[i])] = {{"payload", bytes.payload}, {"wire", bytes.wire}};
  }
  return counts;
}

// Each second, what has gone over the network so far. Runs whenever the loop does.
Task<> report_network(Dist& dist) {
  for (Time next = dist.loop().now();; next += std::chrono::seconds(1)) {
    co_await sleep_until(dist.loop(), next);
    report_event(dist.job(), {{"event", "network"},
                              {"time", seconds(dist.loop().now())},
                              {"sent", by_purpose(dist.comm().ledger(), Direction::sent)},
                              {"received", by_purpose(dist.comm().ledger(), Direction::received)}});
  }
}

// What rank 0 learns of every worker at the end.
struct WorkerResult {
  double accuracy;
  double waited_seconds;
  std::uint64_t payload_bytes_sent;
  std::uint64_t wire_bytes_sent;
  std::uint64_t payload_bytes_received;
  std::uint64_t wire_bytes_received;
};

template <class T>
json list(const std::vector<WorkerResult>& workers, T WorkerResult::*field) {
  json values = json::array();
  for (const WorkerResult& worker : workers) values.push_back(worker.*field);
  return values;
}

class Trainer {
 public:
  Trainer(const Settings& settings, const Job& job)
      : settings_(settings),
        digits_(load_digits(settings)),
        train_(std::move(digits_.train)),
        test_(std::move(digits_.test)),
        dist_(seeded_model(settings, job), settings, job),
        optimizer_(make_optimizer(settings, dist_.model().flat_parameter())),
        batches_(train_.count(), dist_.size(), settings.batch,
                 static_cast<std::uint64_t>(settings.seed)),
        steps_(static_cast<std::uint64_t>(
            std::llround(settings.epochs * static_cast<double>(batches_.steps_per_epoch())))),
        network_(report_network(dist_)) {}

  void run(const std::filesystem::path& run_folder) {
    start_ = dist_.loop().now();
    const std::optional<double> target = target_accuracy(settings_);
    const auto every = static_cast<std::uint64_t>(
        std::ceil(settings_.evaluate_every * static_cast<double>(batches_.steps_per_epoch())));
    for (step_ = 0; step_ < steps_;) {
      train_step();
      ++step_;
      report_progress();
      if (step_ == steps_ || (every > 0 && step_ % every == 0)) {
        evaluate();
        if (target && accuracy_ >= *target) break;
      }
    }
    if (steps_ == 0) evaluate();
    conclude(run_folder);
  }

 private:
  // All workers draw their dropout from streams of their own; first weights come from rank 0's.
  static Model seeded_model(const Settings& settings, const Job& job) {
    at::set_num_threads(
        std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / job.local_size));
    torch::manual_seed(static_cast<std::uint64_t>(settings.seed) * 10'000 +
                       static_cast<std::uint64_t>(job.rank));
    return make_model(settings.model);
  }

  void train_step() {
    const Batches::Batch batch = batches_.batch(step_, dist_.rank());
    if (!batch.indices.empty()) {
      const auto [images, labels] = train_.pick(batch.indices);
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(dist_.model().model().forward(images), labels);
      (loss * weight(batch)).backward();
      loss_sum_ += loss.item<double>();
      ++losses_;
    }
    dist_.step(*optimizer_);
    samples_ += batch.samples_of_all;
  }

  // Averaged gradients must weigh every sample alike, also when the last batch is shared out
  // unevenly.
  double weight(const Batches::Batch& batch) {
    if (settings_.strategy != "allreduce") return 1;
    return static_cast<double>(batch.indices.size()) * dist_.size() /
           static_cast<double>(batch.samples_of_all);
  }

  void evaluate() {
    const Time begin = dist_.loop().now();
    const Score mean = evaluate_mean(dist_, test_);
    accuracy_ = mean.accuracy;
    loss_ = mean.loss;
    evaluating_ += dist_.loop().now() - begin;
    report_progress("evaluation");
  }

  Time training_time() { return dist_.loop().now() - start_ - evaluating_; }

  // The launcher draws a bar and writes metrics.jsonl from these; four a second are plenty.
  void report_progress(const char* kind = "progress") {
    const Time now = dist_.loop().now();
    const bool evaluation = std::string_view(kind) == "evaluation";
    if (dist_.rank() != 0) return;
    if (!evaluation && step_ < steps_ && now - reported_ < std::chrono::milliseconds(250)) return;
    reported_ = now;
    if (losses_ > 0) train_loss_ = loss_sum_ / losses_;
    loss_sum_ = 0;
    losses_ = 0;
    json event = {
        {"event", kind},
        {"step", step_},
        {"steps", steps_},
        {"epoch", static_cast<double>(step_) / static_cast<double>(batches_.steps_per_epoch())},
        {"time", seconds(now - start_)},
        {"loss", train_loss_},
        {"samples_per_second", static_cast<double>(samples_) / seconds(training_time())},
        {"payload_bytes_sent", dist_.comm().ledger().total(Direction::sent).payload}};
    if (evaluation) {
      event["accuracy"] = accuracy_;
      event["test_loss"] = loss_;
    }
    report_event(dist_.job(), event);
  }

  void conclude(const std::filesystem::path& run_folder) {
    const Time trained = training_time();
    const Score own = evaluate_own(dist_, test_);
    dist_.finish();

    std::vector<WorkerResult> workers(static_cast<std::size_t>(dist_.size()));
    const ByteCount sent = dist_.comm().ledger().total(Direction::sent);
    const ByteCount received = dist_.comm().ledger().total(Direction::received);
    workers[static_cast<std::size_t>(dist_.rank())] = {own.accuracy,     seconds(dist_.waited()),
                                                       sent.payload,     sent.wire,
                                                       received.payload, received.wire};
    dist_.run("collecting the results", all_gather(dist_.comm(), kControlChannel,
                                                   std::as_writable_bytes(std::span(workers))));
    if (dist_.rank() == 0) {
      save_model(run_folder / "model.safetensors");
      const double train_seconds = seconds(trained);
      report_event(
          dist_.job(),
          {{"event", "result"},
           {"strategy", settings_.strategy},
           {"workers", dist_.size()},
           {"model", settings_.model},
           {"data", settings_.data},
           {"parameters", dist_.model().replica().gradients.size()},
           {"accuracy", accuracy_},
           {"loss", loss_},
           {"worker_accuracy", list(workers, &WorkerResult::accuracy)},
           {"epochs", static_cast<double>(step_) / static_cast<double>(batches_.steps_per_epoch())},
           {"steps", step_},
           {"samples", samples_},
           {"seconds", seconds(dist_.loop().now() - start_)},
           {"train_seconds", train_seconds},
           {"samples_per_second", static_cast<double>(samples_) / train_seconds},
           {"waited_seconds", list(workers, &WorkerResult::waited_seconds)},
           {"payload_bytes_sent", list(workers, &WorkerResult::payload_bytes_sent)},
           {"wire_bytes_sent", list(workers, &WorkerResult::wire_bytes_sent)},
           {"payload_bytes_received", list(workers, &WorkerResult::payload_bytes_received)},
           {"wire_bytes_received", list(workers, &WorkerResult::wire_bytes_received)}});
    }
    // Nobody hangs up while another still reads.
    dist_.run("the last barrier", barrier(dist_.comm(), kControlChannel));
  }

  void save_model(const std::filesystem::path& file) {
    std::vector<NamedTensor> tensors;
    const auto add = [&](const Model::Named& named) {
      tensors.push_back(
          {named.first,
           named.second.sizes().vec(),
           {named.second.data_ptr<float>(), static_cast<std::size_t>(named.second.numel())}});
    };
    for (const Model::Named& parameter : dist_.model().model().parameters) add(parameter);
    for (const Model::Named& buffer : dist_.model().model().buffers) add(buffer);
    write_safetensors(file, tensors,
                      {{"model", settings_.model}, {"strategy", settings_.strategy}});
  }

  Settings settings_;
  Digits digits_;
  Images train_;
  Images test_;
  Dist dist_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  Batches batches_;
  std::uint64_t steps_;
  Running network_;

  std::uint64_t step_ = 0;
  std::uint64_t samples_ = 0;
  Time start_{0}, evaluating_{0}, reported_{0};
  double loss_sum_ = 0;
  int losses_ = 0;
  double train_loss_ = 0, accuracy_ = 0, loss_ = 0;
};

}  // namespace

void train(const Settings& settings, const Job& job, const std::filesystem::path& run_folder) {
  Trainer(settings, job).run(run_folder);
}

}  // namespace starling
